/** Folds rows of the ledger to counts by hour and variant: those of a run, or those of the endpoint as all runs together know it. */

import type { QualityCell, QualityCounts, SampleCounts } from '../core/contract/quality.ts';
import type { LedgerRows, Row } from '../ledger/tables.ts';
import { isCountable, nameOf, numberCounts, OTHER, sumHours } from './cell.ts';
import { addTree, branch } from './count-tree.ts';
import type { Measure } from './objectives.ts';
import { EVERY_CAPTURE } from './sample.ts';

interface FoldOptions {
  /** Of the objectives. */
  measures: readonly Measure[];
  /** Only what the run of the rows has done itself: traces that it wrote, and verdicts that it gave. */
  ofRun?: boolean;
}

/** What is known of a subject: the row that counts, and the first and the last evaluation. */
interface Line {
  row: Row<'captures'>;
  first?: Row<'captures'>;
  last?: Row<'captures'>;
  /** By scorer. */
  verdicts: Map<string, Row<'verdicts'>>;
}

/** SageMaker's endpoints have at most 10 variants. More names were made up, and would make more counts than captures. */
const MAX_VARIANTS = 20;
const NO_CAPTURES: readonly (string | undefined)[] = ['duplicate', 'missing', 'outsideWindow', 'retried'];
const IN_QUARANTINE: readonly (string | undefined)[] = ['quarantined', 'refused'];

/** Returns what a row is about: a trace, or a place in quarantine. */
const subjectOf = ({ traceId, bucket = '', key = '', version = '', start = 0 }: Row<'captures'>): string =>
  traceId ?? JSON.stringify([bucket, key, version, start]);

const isAbove = (a: { precedence?: bigint | undefined }, b: typeof a | undefined): boolean =>
  b === undefined || (a.precedence ?? 0n) >= (b.precedence ?? 0n);

/** @returns the counts. A row of a replay, and what is excluded, is in none. */
export function foldRows(rows: LedgerRows, options: FoldOptions): QualityCounts {
  const lines = new Map<string, Line>();
  for (const row of rows.captures) addLine(lines, row);
  const paid = new Map<string, Row<'verdicts'>>();
  for (const row of rows.verdicts) {
    const line = lines.get(row.traceId ?? '');
    const scorer = row.scorer ?? '';
    if (line !== undefined && isAbove(row, line.verdicts.get(scorer))) line.verdicts.set(scorer, row);
    if (!row.serving || !isPaid(row)) continue;
    const event = `${row.run} ${row.start} ${scorer} ${row.key}`;
    if ((row.attempt ?? 0) >= (paid.get(event)?.attempt ?? 0)) paid.set(event, row);
  }
  const cells = new Cells();
  for (const line of lines.values()) {
    if (line.row.serving) cells.add(line.row, cellOf(line, options));
  }
  // Dollars are those of all events: what was paid for a verdict that is replaced is paid.
  for (const row of paid.values()) cells.add(row, { judgeUsd: row.usd ?? 0 });
  return cells.bounded();
}

const isPaid = ({ usd = 0 }: Row<'verdicts'>): boolean => usd > 0 && isCountable(usd);

function addLine(lines: Map<string, Line>, row: Row<'captures'>): void {
  const subject = subjectOf(row);
  const line: Line = lines.get(subject) ?? { row, verdicts: new Map() };
  lines.set(subject, line);
  // Once a replay's, for ever.
  const serving = (row.serving ?? false) && (line.row.serving ?? false);
  if (isAbove(row, line.row)) line.row = row;
  if (line.row.serving !== serving) line.row = { ...line.row, serving };
  if (!row.evaluated) return;
  if (line.first === undefined || !isAbove(row, line.first)) line.first = row;
  if (isAbove(row, line.last)) line.last = row;
}

/** Adds before names are bounded: often enough that they take no memory, and seldom enough that they take no time. */
const ADDS = 1_000;

class Cells {
  readonly #counts: QualityCounts = {};
  #adds = 0;
  readonly #variants = new Set<string>();

  add(
    { hour = '', variant = '' }: { hour?: string | undefined; variant?: string | undefined },
    cell: QualityCell,
  ): void {
    if (Object.keys(cell).length === 0) return;
    if (this.#variants.size < MAX_VARIANTS) this.#variants.add(variant);
    addTree(branch(branch(this.#counts, hour), this.#variants.has(variant) ? variant : OTHER), cell);
    this.#adds += 1;
    if (this.#adds % ADDS === 0) this.bounded();
  }

  bounded(): QualityCounts {
    return sumHours([{ hours: this.#counts }]);
  }
}

function cellOf({ row, first, last, verdicts }: Line, { measures, ofRun = false }: FoldOptions): QualityCell {
  const { outcome, reason = '' } = row;
  if (NO_CAPTURES.includes(outcome)) return {};
  if (IN_QUARANTINE.includes(outcome)) return { quarantined: { [nameOf(reason)]: 1 } };
  const isCounted = !ofRun || outcome === 'traced';
  if (row.failedCall !== undefined)
    return isCounted ? { failedCalls: { [row.failedCall]: 1 }, ...maskedCounts(row) } : {};
  const cell = isCounted ? captureCell(row) : {};
  const own = [...verdicts.values()].filter(({ found }) => !(ofRun && found));
  const given = new Set(own.filter(({ state }) => state === 'given').map(({ scorer }) => scorer));
  if (first !== undefined && isCounted) addEvaluation(cell, { row, first, last: last ?? first, given });
  for (const verdict of own) {
    if (verdict.state === 'given') addVerdict(cell, verdict, measures);
    else if (isCounted) addTree(cell, { notJudged: { [verdict.scorer ?? '']: { [verdict.state ?? '']: 1 } } });
  }
  return cell;
}

function captureCell(row: Row<'captures'>): QualityCell {
  const { errorKind, replyForm, isEmpty, call, digests = [] } = row;
  const numbers = { inputTokens: row.inputTokens ?? 0, outputTokens: row.outputTokens ?? 0 };
  const tokens = Object.entries(numbers).filter(([, count]) => count !== 0 && isCountable(count));
  const source = call === undefined ? 'dataCapture' : 'client';
  return {
    captures: 1,
    ...Object.fromEntries(tokens),
    ...(errorKind !== undefined && { errorReplies: 1, errorKinds: { [nameOf(errorKind)]: 1 } }),
    ...(replyForm !== undefined && { replies: { [replyForm]: { all: 1, ...(isEmpty && { empty: 1 }) } } }),
    ...(call !== undefined && { byClient: { [call === 'stream' ? 'streams' : 'calls']: 1 } }),
    ...(digests.length > 0 && { digests: { [source]: Object.fromEntries(digests.map((one) => [one, 1])) } }),
    ...maskedCounts(row),
  };
}

function maskedCounts({ masked = [], maskedCounts: counts = [] }: Row<'captures'>): Pick<QualityCell, 'masked'> {
  return masked.length === 0 ? {} : { masked: Object.fromEntries(masked.map((kind, at) => [kind, counts[at] ?? 0])) };
}

/** Adds who could judge a capture, as its first evaluation knew, and why there is no verdict, as its last one did. */
function addEvaluation(
  cell: QualityCell,
  {
    row,
    first,
    last,
    given,
  }: Record<'row' | 'first' | 'last', Row<'captures'>> & { given: ReadonlySet<string | undefined> },
): void {
  // The rows of a table are measured by true answers, and empty replies are counted.
  const isKnown = row.errorKind !== undefined || row.rows !== undefined || (row.replyForm === 'words' && row.isEmpty);
  if (first.unmeasured && !isKnown) cell.unmeasured = 1;
  for (const [at, scorer] of (first.judgeable ?? []).entries()) {
    addTree(cell, { scorers: { [scorer]: { [first.strata?.[at] ?? EVERY_CAPTURE]: { captures: 1 } } } });
  }
  for (const [at, scorer] of (last.notJudged ?? []).entries()) {
    if (!given.has(scorer)) addTree(cell, { notJudged: { [scorer]: { [last.reasons?.[at] ?? '']: 1 } } });
  }
}

function addVerdict(cell: QualityCell, verdict: Row<'verdicts'>, measures: readonly Measure[]): void {
  const { scorer = '', value, number, isCode, stratum, version } = verdict;
  if (stratum === undefined) return;
  const counts: SampleCounts = {};
  if (number === undefined) counts.values = { [nameOf(value ?? '')]: 1 };
  else if (!isCountable(number)) return;
  else {
    counts.numbers = numberCounts(number);
    const own = measures.filter((measure) => measure.scorer === scorer);
    const seen = own.map((one) => [one.name, { cases: 1, passed: one.passes(number) ? 1 : 0 }]);
    if (seen.length > 0) counts.measures = Object.fromEntries(seen);
  }
  if (!isCode && version !== undefined) counts.versions = { [version]: 1 };
  addTree(cell, { scorers: { [scorer]: { [isCode ? EVERY_CAPTURE : stratum]: counts } } });
}
