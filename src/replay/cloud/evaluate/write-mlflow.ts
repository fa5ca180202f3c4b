/** Writes a shard's exchanges as traces to MLflow, and the judge's verdicts as assessments of those traces. */
import type { ObjectFacts } from '../../../core/aws/storage.ts';
import type { JudgedReply } from '../../compare/judge-replies.ts';
import { type AssessmentPorts, writeAssessments } from '../../publish/write-assessments.ts';
import { SpoolBatch, type TracePorts, writeTraces } from '../../publish/write-traces.ts';
import { ObjectLines } from '../work-bucket/object-lines.ts';
import type { ShardWork, StepEnd } from './progress.ts';

/** Bytes of the spool per read. A line has up to 67 MB and is assembled from few pieces this way. */
const BLOCK_BYTES = 8 * 1024 * 1024;
/** Time that a batch of 200 traces needs: they take seconds, and a server that restarts half a minute more. */
const BATCH_RESERVE_MS = 120_000;
/** Time that a part with verdicts needs: 64 take a second or two, and a server that restarts half a minute more. */
const PART_RESERVE_MS = 60_000;

/**
 * Writes the exchanges in the spool as traces, shown under the replay's MLflow run. Progress is saved after each batch.
 *
 * @throws the errors of MLflow's client
 */
export async function traceExchanges(work: ShardWork, spool: ObjectFacts, ports: TracePorts): Promise<StepEnd> {
  const { storage, progress, file } = work;
  const { traces } = progress;
  const lines = new ObjectLines(storage, spool, BLOCK_BYTES, traces.offset);
  while (traces.offset < spool.size) {
    if (work.remainingMs() < BATCH_RESERVE_MS) return 'outOfTime';
    const batch = new SpoolBatch();
    for (let line = await lines.next(); line; line = batch.isFull ? undefined : await lines.next()) {
      batch.add(line.toString('utf8'));
    }
    const written = await writeTraces(ports, batch.lines, traces.linked);
    traces.written += written.traces;
    traces.refused += written.refused.length;
    traces.linked = written.linked;
    traces.offset = lines.offset;
    await file.save(progress, { refused: written.refused.map((one) => JSON.stringify(one)) });
  }
  return 'done';
}

/**
 * Writes the saved verdicts as assessments. Verdicts are paid for, so they are saved before MLflow is called; the next call
 * writes those that this one does not.
 *
 * @throws the errors of MLflow's client
 */
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
