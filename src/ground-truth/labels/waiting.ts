/**
 * Label files in the work bucket. The labels of a file wait for their predictions in segments. Each segment is an
 * object that only becomes smaller. The report has the outcomes of all lines, and makes the file count: segments
 * without a report are not joined.
 */
import { hash } from 'node:crypto';
import { scanPieces } from '../../captures/lines/scan-lines.ts';
import { removeObject } from '../../core/aws/remove-object.ts';
import type { ObjectFacts, Work } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import { changeStored, untilWritten } from '../../core/aws/until-written.ts';
import type { Label, LabelCounts, LabelFault, LabelFileReport, LabelValue } from '../../core/contract/ground-truth.ts';
import { areaOf, truthKeys } from '../../core/contract/work-keys.ts';
import { type Bytes, gunzipped, gzipped } from '../gzip.ts';
import { labelCounts } from '../types.ts';

/** The outcomes of a label that met its prediction, and of any label; see `LabelCounts`. */
export type JoinOutcome = 'joined' | 'repeated' | 'outdated' | { replaced: LabelValue };
export type LabelOutcome = JoinOutcome | 'unknown' | 'ambiguous';
export const outcomeName = (outcome: LabelOutcome) => (typeof outcome === 'string' ? outcome : 'replaced');

/** The first line of a segment. */
interface SegmentState extends Pick<LabelFileReport, 'counts' | 'faults' | 'replacedLabels'> {
  /** Epoch milliseconds: all predictions that were written until then have been compared with these labels. */
  comparedMs: number;
}

export interface WaitingSegment {
  name: string;
  state: SegmentState;
  labels: Label[];
}

/** Maximum number of labels in a segment. Several segments are in memory together with a group of labels. */
export const SEGMENT_LABELS = 25_000;
/** Maximum number of faults that are kept for each file. The counts include all faults. */
export const MAX_FAULTS = 100;
const MAX_REPLACED = 100;
const DIGEST_CHARS = 20;
const SEGMENT_DIGITS = 4;

/** A file that is written again, even with the same content, counts as another file: its labels are the latest. */
export const fileDigest = ({ bucket, key, etag, lastModifiedMs }: ObjectFacts): string =>
  hash('sha256', JSON.stringify([bucket, key, etag, lastModifiedMs])).slice(0, DIGEST_CHARS);

export const segmentName = (digest: string, segment: number): string =>
  `${digest}-${String(segment).padStart(SEGMENT_DIGITS, '0')}`;

export const digestOf = (name: string): string => name.slice(0, DIGEST_CHARS);
const numberOfSegment = (name: string): number => Number(name.slice(DIGEST_CHARS + 1));

/** Returns the names of the segments that have labels, in order. */
export async function* listSegments({ storage, workBucket }: Work, after = ''): AsyncGenerator<string> {
  const folder = areaOf('truthWaiting');
  const from = after === '' ? folder : truthKeys.waiting(after);
  for await (const { key } of storage.list(workBucket, folder, from)) {
    yield key.slice(folder.length).split('.')[0] as string;
  }
}

/** Writes the labels of a segment as they were read, unless a read of the same file has done so before. */
export async function writeSegment(work: Work, name: string, labels: Label[]): Promise<LabelCounts> {
  const counts = { ...labelCounts(), lines: labels.length, waiting: labels.length };
  await putSegment(work, { name, state: { counts, faults: [], replacedLabels: [], comparedMs: 0 }, labels });
  return counts;
}

/** @returns the new ETag, `undefined` if the segment was changed meanwhile */
async function putSegment({ storage, workBucket }: Work, { name, state, labels }: WaitingSegment, replaces?: string) {
  const body = await gzipped([state, ...labels]);
  return storage.putIf(workBucket, truthKeys.waiting(name), { body, type: 'application/gzip' }, replaces);
}

/**
 * Reads a segment. Deletes a segment that a slow second read of the file wrote after labels of the segment had found their
 * predictions.
 *
 * @returns `undefined` for a segment that must not be joined: a deleted segment, or a segment of a file that is still being read
 */
export async function readSegment({ storage, workBucket: bucket }: Work, name: string) {
  // Write the report before the segment, so that neither the segment nor its counts in the report ever grow.
  const report = await storage.getJson<LabelFileReport>(bucket, truthKeys.file(digestOf(name)));
  const key = truthKeys.waiting(name);
  const stored = report && (await storage.getBytes(bucket, key));
  if (report === undefined || stored === undefined) return undefined;
  const [state, ...labels] = await Array.fromAsync(storedLines([stored.bytes], `s3://${bucket}/${key}`));
  const segment = { name, state: state as SegmentState, labels: labels as Label[], etag: stored.etag };
  const known = report.parts[numberOfSegment(name)]?.waiting ?? -1;
  if (segment.labels.length <= known) return segment;
  await removeObject(storage, bucket, key);
  return undefined;
}

/**
 * Removes labels with an outcome from a segment, counts them, and updates the report. Deletes a segment without labels.
 * Work of a killed function is not repeated.
 *
 * @param outcomes by line
 * @param comparedMs see `SegmentState`; `undefined` if not all predictions were compared
 */
export function settleSegment(
  work: Work,
  name: string,
  outcomes: ReadonlyMap<number, LabelOutcome>,
  comparedMs: number | undefined,
): Promise<void> {
  const key = truthKeys.waiting(name);
  const done = { result: undefined };
  return untilWritten(`s3://${work.workBucket}/${key}`, async () => {
    const segment = await readSegment(work, name);
    if (segment === undefined) return done;
    const { state, changed } = settled(segment, outcomes, comparedMs);
    const labels = segment.labels.filter(({ line }) => !outcomes.has(line));
    if (changed && (await putSegment(work, { name, state, labels }, segment.etag)) === undefined) return undefined;
    await report(work, name, state);
    if (labels.length === 0) await removeObject(work.storage, work.workBucket, key);
    return done;
  });
}

/** A segment is not written just to update the time of the last comparison, unless that time is at least this old. */
const COMPARED_AGAIN_MS = 3_600_000;

function settled(
  { state, labels }: WaitingSegment,
  outcomes: ReadonlyMap<number, LabelOutcome>,
  comparedMs = state.comparedMs,
): { state: SegmentState; changed: boolean } {
  const counts = { ...state.counts };
  const [faults, replacedLabels] = [[...state.faults], [...state.replacedLabels]];
  for (const { id, line, value } of labels) {
    const outcome = outcomes.get(line);
    if (outcome === undefined) continue;
    counts[outcomeName(outcome)] += 1;
    counts.waiting -= 1;
    if (outcome === 'ambiguous') faults.push(ambiguous(line));
    if (typeof outcome === 'object') replacedLabels.push({ line, id, from: outcome.replaced, to: value });
  }
  const changed = counts.waiting < state.counts.waiting || comparedMs > state.comparedMs + COMPARED_AGAIN_MS;
  const shown = { faults: first(faults, MAX_FAULTS), replacedLabels: first(replacedLabels, MAX_REPLACED) };
  return { state: { counts, ...shown, comparedMs }, changed };
}

const ambiguous = (line: number): LabelFault => ({
  line,
  name: 'AmbiguousId',
  message: 'predictions of several endpoints have its id; name the endpoint in a field of that name',
});

/** Returns the first items by line, each line once. */
const first = <T extends { line: number }>(items: T[], most: number): T[] =>
  [...new Map(items.map((item) => [item.line, item])).values()].toSorted((a, b) => a.line - b.line).slice(0, most);

/** Puts the outcome of a segment into the report of its file. */
function report(work: Work, name: string, { counts, ...state }: SegmentState) {
  const segment = numberOfSegment(name);
  return changeStored<LabelFileReport>(work, truthKeys.file(digestOf(name)), (old) => {
    // Another run has settled more labels of the segment, or all.
    if (old === undefined || (old.parts[segment]?.waiting ?? 0) <= counts.waiting) return undefined;
    const parts = old.parts.with(segment, counts);
    const sums = labelCounts(parts, old.counts.invalid);
    return {
      ...old,
      parts,
      counts: sums,
      reasons: { ...old.reasons, ...(sums.ambiguous > 0 && { AmbiguousId: sums.ambiguous }) },
      faults: first([...old.faults, ...state.faults], MAX_FAULTS),
      replacedLabels: first([...old.replacedLabels, ...state.replacedLabels], MAX_REPLACED),
    };
  });
}

/**
 * Yields the values of compressed lines of JSON, of any length. The stack has written them, so they must be readable.
 */
export async function* storedLines(bytes: Bytes, where: string): AsyncGenerator<unknown, undefined> {
  for await (const lines of scanPieces(gunzipped(bytes, where), Number.POSITIVE_INFINITY))
    for (const line of lines) yield parseStored(line.bytes?.toString() ?? '', where);
}
