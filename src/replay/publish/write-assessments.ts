/** Writes the judge's verdicts on pairs as assessments of the replayed requests' traces. */

import { assessmentIdOf } from '../../captures/trace/ids.ts';
import { JUDGE_COST, SCORER_NAME, SCORER_VERSION } from '../../mlflow/assessment-metadata.ts';
import { MAX_RATIONALE_CHARS, storableText } from '../../mlflow/limits.ts';
import type { Experiment, NewAssessment, TraceStore } from '../../mlflow/types.ts';
import type { JudgedReply } from '../compare/judge-replies.ts';
import { PAIRWISE_SCORER } from '../compare/pairwise.ts';
import { replayTraceIdOf } from './replay-trace.ts';

export interface AssessedVerdicts {
  /** Verdicts that are in MLflow now, including those of earlier attempts. */
  written: number;
  /** Verdicts on requests whose trace was refused by MLflow or has been deleted. */
  withoutTrace: number;
}

export interface AssessmentPorts {
  client: Pick<TraceStore, 'getTraces' | 'writeAssessments'>;
  experiment: Experiment;
}

/** The judge refers to "reply 1" and "reply 2", which are swapped in the second order. */
const ORDERS = ['Reply 1 captured, reply 2 new: ', 'Reply 1 new, reply 2 captured: '] as const;
const BETWEEN = '\n\n';

/** Joins the rationales of both orders, each cut to half of MLflow's limit. */
function rationaleOf(rationales: readonly string[]): string {
  const room = Math.floor((MAX_RATIONALE_CHARS - BETWEEN.length) / ORDERS.length);
  return ORDERS.map((order, i) => storableText(`${order}${rationales[i] ?? ''}`, room)).join(BETWEEN);
}

/** @param traceId the trace of the replayed request */
export function pairAssessment(traceId: string, verdict: JudgedReply): NewAssessment {
  const { name, version } = PAIRWISE_SCORER;
  const { judge: sourceId, usd, captured_trace_id: captured } = verdict;
  return {
    assessmentId: assessmentIdOf(traceId, name, version, sourceId),
    traceId,
    name,
    sourceType: 'LLM_JUDGE',
    sourceId,
    createTimeMs: Date.now(),
    ...(verdict.verdict === 'failed'
      ? { error: verdict.error ?? { code: 'NO_VERDICT', message: 'The judge returned no verdict on the pair' } }
      : { value: verdict.verdict }),
    rationale: rationaleOf(verdict.rationales),
    metadata: {
      [SCORER_NAME]: name,
      [SCORER_VERSION]: version,
      ...(captured === undefined ? {} : { captured_trace_id: captured }),
      // An unknown price is omitted rather than written as 0.
      ...(usd === null ? {} : { [JUDGE_COST]: String(usd) }),
    },
  };
}

/**
 * Idempotent, even if a person has assessed the trace meanwhile.
 *
 * @param run name of the replay
 * @param result the counts are added to it, even if an error is thrown
 * @throws the first error of MLflow's client, after all verdicts have been tried
 */
export async function writeAssessments(
  { client, experiment }: AssessmentPorts,
  run: string,
  verdicts: readonly JudgedReply[],
  result: AssessedVerdicts = { written: 0, withoutTrace: 0 },
): Promise<AssessedVerdicts> {
  const assessments = verdicts.map((verdict) =>
    pairAssessment(replayTraceIdOf(experiment.id, run, verdict.request_id), verdict),
  );
  const traces = await client.getTraces(
    experiment.id,
    assessments.map(({ traceId }) => traceId),
  );
  // The client limits the concurrency.
  const settled = await Promise.allSettled(
    assessments.map(async (assessment) => {
      const trace = traces.get(assessment.traceId);
      const isMissing = !trace || (await client.writeAssessments(trace, [assessment])).traceMissing === true;
      result[isMissing ? 'withoutTrace' : 'written']++;
    }),
  );
  const failed = settled.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
  return result;
}
