/**
 * The verdicts that a shard's evaluation has saved → assessments of the traces in MLflow, a part at a time. What is paid is
 * saved before MLflow is asked for anything; what a call does not come to, the next one does.
 */
import type { JudgedReply } from '../../compare/judge-replies.ts';
import { type AssessmentPorts, writeAssessments } from '../../publish/write-assessments.ts';
import type { ShardWork, StepEnd } from './evaluate.ts';

/** No part is begun with less time: 64 verdicts take a second or two, and a server that restarts half a minute more. */
const PART_RESERVE_MS = 60_000;

/** @throws what MLflow's client throws; the parts before are saved */
export async function assessVerdicts(
  { plan, progress, file, remainingMs }: ShardWork,
  ports: AssessmentPorts,
): Promise<StepEnd> {
  const { assessments, parts } = progress;
  for (const name of parts.judged.slice(assessments.parts)) {
    if (remainingMs() < PART_RESERVE_MS) return 'outOfTime';
    const verdicts = (await file.lines(name)).map((line) => JSON.parse(line) as JudgedReply);
    const { written, withoutTrace } = await writeAssessments(ports, plan.run, verdicts);
    assessments.parts++;
    assessments.written += written;
    assessments.withoutTrace += withoutTrace;
    await file.save(progress, {});
  }
  return 'done';
}
