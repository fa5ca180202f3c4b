/** Finds the traces with the worst verdicts, and formats them for a terminal of any width. */
import { singleLine, wrapped } from '../../src/core/text/terminal-text.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { MlflowRest } from '../../src/mlflow/rest.ts';
import { traceUrl } from '../../src/mlflow/trace-url.ts';
import { type AssessedTrace, assessedTraces, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import { PLAIN } from '../../src/quality/rates-text.ts';
import type { TextOptions } from '../cli/output.ts';
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

/** Characters of the judge's words, and of a request or a reply. `--json` has all of them. */
const MAX_WORDS = 300;
const MAX_PREVIEW = 120;

const shortened = (text: string, most: number): string => {
  const line = singleLine(text).trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
};

/** @param link of the trace, or how to open it */
function traceLines(trace: WorstTrace, place: number, link: string, { width, style }: TextOptions): string[] {
  const { failing, verdicts, time, variant, request, reply } = trace;
  const when = singleLine(time).slice(0, 16).replace('T', ' ');
  const title = `${place}. ${failing.length} of ${verdicts} verdicts fail, ${when}, ${singleLine(variant)}`;
  const about = (what: string, text: string): string[] =>
    text === '' ? [] : [`   ${what}: ${shortened(text, MAX_PREVIEW)}`];
  return [
    ...wrapped(title, width).map((line) => style('bold', line)),
    ...failing.map(verdictLine).flatMap((line) => wrapped(line, width).map((part) => style('red', part))),
    ...[...about('request', request), ...about('reply', reply)].flatMap((line) => wrapped(line, width)),
    // A link is not wrapped: a terminal opens it whole.
    style('dim', `   ${link}`),
  ];
}

function verdictLine({ scorer, value, by, source, rationale }: StandingVerdict): string {
  const who = by === 'person' ? ` (${singleLine(source)})` : '';
  const words = rationale === '' ? '' : `: ${shortened(rationale, MAX_WORDS)}`;
  return `   ${singleLine(scorer)} ${singleLine(String(value))}${who}${words}`;
}

/** Returns the lines of the traces, in their order, each followed by an empty line. */
export const worstLines = (
  worst: readonly WorstTrace[],
  linkOf: (trace: WorstTrace) => string,
  shape: TextOptions = { width: Number.POSITIVE_INFINITY, style: PLAIN },
): string[] => worst.flatMap((trace, index) => [...traceLines(trace, index + 1, linkOf(trace), shape), '']);
