/** Makes a set of captures from traces: the original lines from S3, which replay as they were captured. */

import { decodeLine } from '../../src/captures/decode.ts';
import { isObject } from '../../src/captures/json.ts';
import { readLines } from '../../src/captures/lines/read-lines.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import type { DecodeOptions, RawLine } from '../../src/captures/types.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { DatasetRecord } from '../../src/mlflow/evaluation-datasets.ts';
import type { MlflowRest } from '../../src/mlflow/rest.ts';
import { LABEL_METADATA } from '../../src/mlflow/types.ts';
import { type AssessedTrace, assessedTraces, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import { type StandingVerdict, standingVerdicts } from './standing-verdicts.ts';

/** A verdict to select by. Without a value: one that fails. */
export interface VerdictCondition {
  scorer: string;
  value?: string;
}

export interface Selection extends TraceQuery {
  scorers: readonly Scorer[];
  /** A trace needs one of these. Empty: all traces that match. */
  verdicts: readonly VerdictCondition[];
  /** Maximum number of traces, newest first. */
  limit: number;
}

interface SelectedTrace {
  trace: AssessedTrace;
  verdicts: StandingVerdict[];
}

/** The capture file of a trace. */
const placeOf = ({ tags }: AssessedTrace): string => `s3://${tags.s3_bucket_name ?? ''}/${tags.s3_file_key ?? ''}`;

/** A trace whose capture could not be found. */
interface MissingCapture {
  traceId: string;
  reason: string;
}

/** Selects traces, the newest first. Memory is bounded by the limit: a trace has some 10 kB with its verdicts. */
export async function selectTraces(rest: Pick<MlflowRest, 'repeat'>, selection: Selection): Promise<SelectedTrace[]> {
  const known = new Map(selection.scorers.map((scorer) => [scorer.name, scorer]));
  const selected: SelectedTrace[] = [];
  for await (const trace of assessedTraces(rest, { ...selection, newestFirst: true })) {
    const verdicts = standingVerdicts(trace, known);
    if (meets(verdicts, selection.verdicts)) selected.push({ trace, verdicts });
    if (selected.length >= selection.limit) break;
  }
  return selected;
}

const meets = (verdicts: readonly StandingVerdict[], conditions: readonly VerdictCondition[]): boolean =>
  conditions.length === 0 ||
  conditions.some(({ scorer, value }) =>
    verdicts.some((one) => one.scorer === scorer && (value === undefined ? one.failed : String(one.value) === value)),
  );

interface Captures {
  storage: Storage;
  experimentId: string;
  maxLineBytes: number;
  /** Takes each line that was found, by file and in the order of its lines. */
  consume(raw: RawLine, selected: SelectedTrace): Promise<void>;
  onFile?(done: number, total: number): void;
}

/**
 * Reads the original lines of traces from S3, each file once. A line is recognised by the trace's id, which is a hash of its
 * bytes, so a file that was replaced gives no wrong line.
 *
 * @returns the traces without a line, with the reason
 */
export async function readDatasetCaptures(selected: readonly SelectedTrace[], options: Captures) {
  const missing: MissingCapture[] = [];
  const files = Map.groupBy(selected, ({ trace }) => placeOf(trace));
  const sorted = [...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, traces]) => traces);
  for (const [index, traces] of sorted.entries()) {
    options.onFile?.(index + 1, sorted.length);
    const wanted = new Map(traces.map((one) => [one.trace.trace_id, one]));
    const reason = await readFile(wanted, traces[0]?.trace.tags ?? {}, options);
    for (const traceId of wanted.keys()) missing.push({ traceId, reason });
  }
  return missing;
}

/** Removes the traces from `wanted` whose lines it finds. @returns why the others have no line */
async function readFile(
  wanted: Map<string, SelectedTrace>,
  { s3_bucket_name: bucket, s3_file_key: key }: AssessedTrace['tags'],
  { storage, experimentId, maxLineBytes, consume }: Captures,
): Promise<string> {
  if (!bucket || !key) return 'the trace does not name a capture file';
  const where = `s3://${bucket}/${key}`;
  const facts = await storage.head(bucket, key);
  if (facts === undefined) return `${where} is gone`;
  try {
    const source = { ...facts, start: 0, firstLine: 1, objectTimeMs: facts.lastModifiedMs };
    for await (const read of readLines(await storage.read(facts), source, { maxLineBytes })) {
      if (read.kind !== 'line') continue;
      const traceId = traceIdOf(experimentId, read.raw.bytes);
      const selected = wanted.get(traceId);
      if (selected === undefined) continue;
      wanted.delete(traceId);
      await consume(read.raw, selected);
      if (wanted.size === 0) break;
    }
  } catch (error) {
    if (!(error instanceof PermanentError)) throw error;
    return `${where} cannot be read: ${error.message}`;
  }
  return `${where} does not have its line any more`;
}

/**
 * Returns the record of a capture for an MLflow evaluation dataset: the trace's inputs and outputs, people's
 * expectations, and a tag with the failing verdicts. Returns `undefined` if the line is not a capture.
 */
export function datasetRecord(
  raw: RawLine,
  { trace, verdicts }: SelectedTrace,
  { experimentId, ...options }: DecodeOptions & { experimentId: string },
): DatasetRecord | undefined {
  const decoded = decodeLine(raw, options);
  if (decoded.kind !== 'capture') return undefined;
  const { sagemaker_endpoint_name: endpointName = '', sagemaker_variant_name: variant = '' } = trace.tags;
  const [root] = buildTrace(decoded.capture, raw, { experimentId, endpointName }).spans;
  // A label of one row does not apply to the others.
  const expected = trace.assessments.flatMap(({ assessment_name: name, expectation, valid, span_id, metadata }) =>
    valid && expectation?.value !== undefined && !(span_id && LABEL_METADATA in metadata)
      ? [[name, expectation.value] as const]
      : [],
  );
  const failing = verdicts.flatMap(({ scorer, failed }) => (failed ? [scorer] : []));
  return {
    inputs: asObject(root?.inputs, 'request'),
    ...(root?.outputs === undefined ? {} : { outputs: asObject(root.outputs, 'reply') }),
    ...(expected.length === 0 ? {} : { expectations: Object.fromEntries(expected) }),
    tags: { endpoint: endpointName, variant, capture: placeOf(trace), failing: failing.join(' ') },
    source: { source_type: 'TRACE', source_data: { trace_id: trace.trace_id } },
  };
}

/** MLflow requires an object, whose names are the parameters of the evaluated function. */
const asObject = (value: unknown, name: string): Record<string, unknown> =>
  isObject(value) ? value : { [name]: value ?? null };
