/** Finds the traces with the worst verdicts. */

import type { Scorer } from '../../src/judge/types.ts';
import type { MlflowRest } from '../../src/mlflow/rest.ts';
import { traceUrl } from '../../src/mlflow/trace-url.ts';
import { type AssessedTrace, assessedTraces, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import { type StandingVerdict, standingVerdicts } from './standing-verdicts.ts';

export interface WorstTrace {
  traceId: string;
  /** MLflow's page of it; absent where that needs a login through AWS. */
  url?: string | undefined;
  /** Of the inference, as MLflow writes it. */
  time: string;
  variant: string;
  /** Its failing verdicts, the worst first. */
  failing: StandingVerdict[];
  /** Number of its verdicts that count. */
  verdicts: number;
  /** The first characters of the request and of the reply. */
  request: string;
  reply: string;
}

export interface WorstTraces {
  /** Traces that were read. */
  traces: number;
  /** Those with a verdict. */
  judged: number;
  /** Those with a failing verdict. */
  failing: number;
  worst: WorstTrace[];
}

interface Query extends TraceQuery {
  scorers: readonly Scorer[];
  /** Only verdicts of these scorers count. */
  only?: readonly string[] | undefined;
  limit: number;
  /** The address of MLflow, for links. */
  server?: string | undefined;
}

/**
 * Reads all traces that match and keeps the worst: most failing verdicts first, then the most severe, then the newest. What a
 * person said counts in place of the judge. Memory is bounded by `limit`.
 */
export async function readWorst(rest: Pick<MlflowRest, 'repeat'>, query: Query): Promise<WorstTraces> {
  const { scorers, only, limit, experimentId, server } = query;
  const known = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  const found: WorstTraces = { traces: 0, judged: 0, failing: 0, worst: [] };
  const keepWorst = (): void => {
    found.worst = found.worst.sort(worstFirst).slice(0, limit);
  };
  for await (const trace of assessedTraces(rest, query)) {
    found.traces += 1;
    const verdicts = standingVerdicts(trace, known).filter(({ scorer }) => only?.includes(scorer) ?? true);
    if (verdicts.length > 0) found.judged += 1;
    const failing = verdicts.filter(({ failed }) => failed).sort((a, b) => b.severity - a.severity);
    if (failing.length === 0) continue;
    found.failing += 1;
    found.worst.push({
      ...aboutTrace(trace),
      url: traceUrl(server, experimentId, trace.trace_id),
      failing,
      verdicts: verdicts.length,
    });
    if (found.worst.length > 2 * limit) keepWorst();
  }
  keepWorst();
  return found;
}

const aboutTrace = ({ trace_id, request_time, tags, request_preview, response_preview }: AssessedTrace) => ({
  traceId: trace_id,
  time: request_time,
  variant: tags.sagemaker_variant_name ?? '',
  request: request_preview,
  reply: response_preview,
});

const severityOf = ({ failing }: WorstTrace): number => failing.reduce((sum, { severity }) => sum + severity, 0);

/** Orders traces; also those of several experiments. */
export const worstFirst = (a: WorstTrace, b: WorstTrace): number =>
  b.failing.length - a.failing.length || severityOf(b) - severityOf(a) || Date.parse(b.time) - Date.parse(a.time);
