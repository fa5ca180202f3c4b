/** The counts of a chunk: folds over the outcomes of its lines. */

import { inSample } from '../../captures/trace/ids.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { ObservedSeries, QualityFailures } from '../../core/contract/quality.ts';
import {
  type EvaluateReceipt,
  NO_LOG_COUNTS,
  NO_VERDICT_COUNTS,
  type QuarantineEntry,
  type Receipt,
} from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { addCounts, countBy, noCounts } from '../../core/values/counts.ts';
import { sum } from '../../core/values/sum.ts';
import { chancesOf } from '../../judge/scorers/chances.ts';
import { isTraced } from '../../ledger/precedence.ts';
import { OUTCOMES } from '../../ledger/what-became.ts';
import { addTree } from '../../quality/count-tree.ts';
import { addFailures } from '../../quality/detectors.ts';
import { type FoldedRows, foldRows } from '../../quality/fold.ts';
import type { Observe } from '../../quality/tally.ts';
import { type ChunkDependencies, isRepeated } from '../chunk/attempt.ts';
import type { LineOutcome, LineOutcomes, ScorerOutcome } from './line-outcome.ts';

type Lines = readonly LineOutcome[];

/** Counts the lines by the terms of an equation. `none` has all terms. */
function termsOf<Term extends string>(
  none: Readonly<Record<Term, number>>,
  lines: Lines,
  ofLine: (line: LineOutcome) => readonly Term[],
): Record<Term, number> {
  const counts: Record<Term, number> = { ...none };
  for (const line of lines) for (const term of ofLine(line)) counts[term] += 1;
  return counts;
}

const quarantinedIn = (lines: Lines): QuarantineEntry[] => lines.flatMap(({ entry }) => entry ?? []);

/** Returns the first equation in the form of a receipt. */
export function linesOf({ lines, unread }: LineOutcomes) {
  // Lines that are identical share a trace, which could not be built or was refused.
  const refused = new Set(lines.filter(({ outcome }) => outcome === 'refused').map(({ traceId }) => traceId)).size;
  return {
    ...(unread.length === 0 ? {} : { unread }),
    counts: termsOf(NO_LOG_COUNTS, lines, ({ outcome }) => OUTCOMES[outcome].terms),
    quarantineReasons: countBy(quarantinedIn(lines), ({ reason }) => reason.name),
    ...(refused === 0 ? {} : { refused }),
  };
}

/** Returns the second equation with its reasons and values, in the form of a receipt. */
export function verdictsOf(lines: Lines) {
  const counts = termsOf(NO_VERDICT_COUNTS, lines, ({ scorers = [] }) => scorers.map(({ term }) => term));
  const beyond = sum(lines.map((line) => line.beyond ?? 0));
  const [reasons, verdicts] = [noCounts(), Object.create(null) as EvaluateReceipt['verdicts']];
  for (const { scorer, term, reason, value } of lines.flatMap(({ scorers = [] }) => scorers)) {
    if (reason !== undefined) addCounts(reasons, { [reason]: 1 });
    if (term !== 'newVerdicts') continue;
    verdicts[scorer] ??= noCounts();
    addCounts(verdicts[scorer], typeof value === 'number' ? { count: 1, sum: value } : { [String(value)]: 1 });
  }
  return {
    evaluatedTraces: new Set(lines.filter(isEvaluated).map(({ traceId }) => traceId)).size,
    counts,
    ...(beyond > 0 && { beyond }),
    // An error assessment is a verdict that failed, also one of an earlier attempt.
    failedRecorded: counts.failed,
    reasons,
    verdicts,
  };
}

/**
 * Returns the run's work in the form of a receipt: the counts of its rows, and its observations of the objectives.
 *
 * @param observe absent without objectives
 */
export function qualityOf(
  lines: Lines,
  rows: FoldedRows,
  observe?: Observe,
): Pick<Receipt, 'quality' | 'series' | 'failures'> {
  const quality = foldRows(rows, { measures: observe?.measures ?? [], ofRun: true });
  const [series, failures]: [ObservedSeries, QualityFailures] = [{}, {}];
  for (const { counted } of lines) {
    const observed = counted && observe?.(counted);
    addTree(series, observed?.series ?? {});
    addFailures(failures, observed?.failures ?? {});
  }
  const found = Object.entries({ quality, series, failures }).filter(([, tree]) => Object.keys(tree).length > 0);
  return Object.fromEntries(found);
}

/** Returns what the chunk adds to the day: judged captures with their cost, and the captures that rules chose. */
export function drawsOf({ chunk, options }: ChunkRequest, lines: Lines) {
  const terms = { judged: 0, usd: 0, ruleLines: 0, ruleMatched: 0, ruleDrawn: 0 };
  for (const { range, traceId = '', evaluation, verdicts = [] } of lines) {
    if (evaluation === undefined) continue;
    const own = verdicts.filter(({ isCode, found }) => !isCode && !found);
    const judged = own.some(({ state }) => state === 'given') ? 1 : 0;
    const ruleMatched = evaluation.rule === undefined ? 0 : 1;
    const isSampled = inSample(traceId, chancesOf(options, chunk.ranges[range]).sample);
    const usd = sum(own.map((verdict) => verdict.usd ?? 0));
    addCounts(terms, { judged, usd, ruleLines: 1, ruleMatched, ruleDrawn: isSampled ? 0 : judged * ruleMatched });
  }
  return terms;
}

const isGiven = ({ term }: ScorerOutcome): boolean => term === 'newVerdicts' || term === 'alreadyThere';

/** Whether a trace has a verdict, new or older. */
const isEvaluated = ({ outcome, scorers = [] }: LineOutcome): boolean => isTraced({ outcome }) && scorers.some(isGiven);

/**
 * Writes the lines in quarantine.
 *
 * @throws PermanentError `LineCountMismatch` if the file has not the lines that were planned
 */
export async function closeLines(
  request: ChunkRequest,
  { storage, environment }: Pick<ChunkDependencies, 'storage' | 'environment'>,
  { lines, unread }: LineOutcomes,
): Promise<void> {
  const { run, chunk } = request;
  const entries = quarantinedIn(lines);
  // A line that MLflow refused once and has accepted since must not stay in quarantine.
  if (entries.length > 0 || isRepeated(request)) {
    const inOrder = entries.toSorted((a, b) => (a.key === b.key ? a.start - b.start : a.key < b.key ? -1 : 1));
    const text = inOrder.map((entry) => `${JSON.stringify(entry)}\n`).join('');
    const key = workKeys.quarantine(run, chunk.chunk);
    await storage.putText(environment.WORK_BUCKET, key, text, 'application/jsonlines');
  }
  for (const [range, planned] of chunk.ranges.entries()) {
    const read = lines.filter((line) => line.range === range).length;
    if (read !== planned.lines && !unread.some((one) => one.range === range)) {
      throw new PermanentError('LineCountMismatch', 'The number of lines in the capture file differs from the plan', {
        got: `${read} lines`,
        expected: `${planned.lines} lines`,
        where: `s3://${planned.bucket}/${planned.key}, bytes ${planned.start}-${planned.end}`,
      });
    }
  }
}
