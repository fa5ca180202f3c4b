/** Folds rows of the ledger to counts by hour and variant: those of a run, or those of the endpoint as all runs together know it. */

import type { QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { WINDOW } from '../ledger/excluded.ts';
import { addEvent, inForce, isAbove, isTraced, subjectOf } from '../ledger/precedence.ts';
import type { Column, Row, Table } from '../ledger/tables.ts';
import { bound, isCountable, MAX_VARIANTS, nameOf, numberCounts, OTHER } from './cell.ts';
import { addCount, addTree, branch } from './count-tree.ts';
import type { Measure } from './objectives.ts';
import { EVERY_CAPTURE } from './sample.ts';

interface FoldOptions {
  /** Of the objectives. */
  measures: readonly Measure[];
  /** Only what the run of the rows has done itself: traces that it wrote, and verdicts that it gave. */
  ofRun?: boolean;
  /** Whether a capture is in a window that is excluded now. A run counts by the windows that it has read. */
  isExcluded?: ((row: Pick<Folded<'captures'>, 'time' | 'variant' | 'traceId'>) => boolean) | undefined;
}

/** The columns that counts are made of: a fold sees no others. */
const EVENT = ['hour', 'variant', 'serving', 'precedence', 'traceId', 'run', 'key', 'start', 'attempt'] as const;
export const FOLDED = {
  captures: [
    ...EVENT,
    ...['bucket', 'version', 'outcome', 'reason', 'errorKind', 'failedCall', 'call', 'inputTokens'],
    ...['outputTokens', 'rows', 'replyForm', 'isEmpty', 'digests', 'masked', 'maskedCounts', 'evaluated'],
    ...['judgeable', 'strata', 'unmeasured', 'notJudged', 'reasons', 'time', 'notTraffic'],
  ],
  verdicts: [...EVENT, 'scorer', 'state', 'found', 'value', 'number', 'isCode', 'version', 'stratum', 'usd'],
  inferences: [...EVENT, 'index', 'value', 'number', 'scores', 'classes', 'isCounted'],
} as const satisfies { [T in Table]?: readonly Column<T>[] };

type Folded<T extends keyof typeof FOLDED> = Pick<Row<T>, Extract<(typeof FOLDED)[T][number], Column<T>>>;
export type FoldedRows = { [T in keyof typeof FOLDED]: Folded<T>[] };

/** The tables that counts are made of. */
export const COUNTED = Object.keys(FOLDED) as (keyof typeof FOLDED)[];

/** What is known of a subject: the row that counts, and the first and the last evaluation. */
export interface Line {
  row: Folded<'captures'>;
  /** Each run that has traced it did so by a rule that says that it is no traffic. */
  isByRule: boolean;
  first?: Folded<'captures'>;
  last?: Folded<'captures'>;
}

const NO_CAPTURES: readonly (string | undefined)[] = ['duplicate', 'missing', 'outsideWindow', 'retried'];
const IN_QUARANTINE: readonly (string | undefined)[] = ['quarantined', 'refused'];

/** @returns the counts. Replays are in none. Of other captures that are no traffic, only the number is. */
export function foldRows(rows: FoldedRows, { measures, ofRun = false, isExcluded }: FoldOptions): QualityCounts {
  const verdictsOf = Map.groupBy(rows.verdicts, ({ traceId }) => traceId);
  const predictionsOf = Map.groupBy(rows.inferences, ({ traceId }) => traceId);
  const cells = new Cells();
  const lines = new Map<string, Line>();
  for (const row of rows.captures) addLine(lines, row);
  for (const line of lines.values()) {
    const { row } = line;
    if (!row.serving) continue;
    const cell = cells.of(row);
    const isCounted = !ofRun || row.outcome !== 'alreadyThere';
    const isLeftOut = ofRun ? row.notTraffic !== undefined : line.isByRule || (isExcluded?.(row) ?? false);
    if (isCounted) addOutcome(cell, row, isLeftOut);
    if (!isTraced(row) || row.failedCall !== undefined || isLeftOut) continue;
    const verdicts = inForce(verdictsOf.get(row.traceId) ?? [], ({ scorer }) => scorer);
    if (isCounted) {
      const predictions = predictionsOf.get(row.traceId) ?? [];
      addPredictions(cell, inForce(predictions, ({ index }) => index).values());
      addEvaluation(cell, line, verdicts);
    }
    for (const verdict of verdicts.values()) {
      if (ofRun && verdict.found) continue;
      if (verdict.state === 'given') addVerdict(cell, verdict, measures);
      else if (isCounted) addCount(within(cell, 'notJudged', verdict.scorer ?? ''), verdict.state ?? '');
    }
  }
  // Dollars are those of all events: what was paid for a verdict that is replaced is paid.
  for (const verdicts of verdictsOf.values()) {
    const events = new Map<string, Folded<'verdicts'>>();
    for (const row of verdicts) addEvent(events, row);
    for (const row of events.values()) {
      if (row.serving && row.usd && isCountable(row.usd)) addCount(cells.of(row), 'judgeUsd', row.usd);
    }
  }
  return cells.bounded();
}

function addLine(lines: Map<string, Line>, row: Folded<'captures'>): void {
  const subject = subjectOf(row);
  const line: Line = lines.get(subject) ?? { row, isByRule: true };
  lines.set(subject, line);
  // Once a replay's, for ever.
  const serving = (row.serving ?? false) && (line.row.serving ?? false);
  if (isAbove(row, line.row)) line.row = row;
  if (line.row.serving !== serving) line.row = { ...line.row, serving };
  if (isTraced(row) && (row.notTraffic ?? WINDOW) === WINDOW) line.isByRule = false;
  // What no judge was to be asked about says nothing of the scorers.
  if (!row.evaluated || row.notTraffic !== undefined) return;
  if (line.first === undefined || !isAbove(row, line.first)) line.first = row;
  if (isAbove(row, line.last)) line.last = row;
}

/** Names are bounded after so many rows: often enough that they take no memory, and seldom enough that they take no time. */
const ROWS = 1_000;

class Cells {
  readonly #counts: QualityCounts = {};
  #rows = 0;
  readonly #variants = new Set<string>();

  of({ hour = '', variant = '' }: { hour?: string | undefined; variant?: string | undefined }): QualityCell {
    if (this.#variants.size < MAX_VARIANTS) this.#variants.add(variant);
    this.#rows += 1;
    if (this.#rows % ROWS === 0) this.bounded();
    return within(this.#counts, hour, this.#variants.has(variant) ? variant : OTHER);
  }

  /** Returns the counts without cells of rows that count nowhere. */
  bounded(): QualityCounts {
    for (const [hour, variants] of Object.entries(this.#counts)) {
      for (const [variant, cell] of Object.entries(variants)) {
        if (Object.keys(cell).length === 0) delete variants[variant];
        else bound(cell);
      }
      if (Object.keys(variants).length === 0) delete this.#counts[hour];
    }
    return this.#counts;
  }
}

/** Returns the counts under these names. */
const within = (tree: object, ...names: string[]): object => names.reduce(branch, tree);

function addOutcome(cell: QualityCell, row: Folded<'captures'>, isLeftOut: boolean): void {
  const { outcome, reason = '', failedCall, errorKind, replyForm, call, digests = [] } = row;
  if (NO_CAPTURES.includes(outcome)) return;
  if (IN_QUARANTINE.includes(outcome)) {
    addCount(within(cell, 'quarantined'), nameOf(reason));
    return;
  }
  if (call !== undefined && failedCall === undefined)
    addCount(within(cell, 'byClient'), call === 'stream' ? 'streams' : 'calls');
  if (isLeftOut) {
    if (failedCall === undefined) addCount(cell, 'notTraffic');
    return;
  }
  for (const [at, kind] of (row.masked ?? []).entries()) addCount(within(cell, 'masked'), kind, row.maskedCounts?.[at]);
  if (failedCall !== undefined) {
    addCount(within(cell, 'failedCalls'), failedCall);
    return;
  }
  addCount(cell, 'captures');
  for (const tokens of ['inputTokens', 'outputTokens'] as const) {
    if (row[tokens] && isCountable(row[tokens])) addCount(cell, tokens, row[tokens]);
  }
  if (errorKind !== undefined) {
    addCount(cell, 'errorReplies');
    addCount(within(cell, 'errorKinds'), nameOf(errorKind));
  }
  if (replyForm !== undefined) {
    addCount(within(cell, 'replies', replyForm), 'all');
    if (row.isEmpty) addCount(within(cell, 'replies', replyForm), 'empty');
  }
  for (const digest of digests)
    addCount(within(cell, 'digests', call === undefined ? 'dataCapture' : 'client'), digest);
}

/** Returns the predicted class or number, as text: where the reply has only scores, the class of the largest one. */
export function predictedName({ value, scores = [], classes }: Folded<'inferences'>): string | undefined {
  if (value !== undefined || scores.length === 0) return value;
  const likeliest = scores.indexOf(Math.max(...scores));
  return classes?.[likeliest] ?? String(likeliest);
}

/** Counts predictions by name, and those that write a number as well: all rows of a column together say what they are. */
function addPredictions(cell: QualityCell, predictions: Iterable<Folded<'inferences'>>): void {
  const own: QualityCell = {};
  for (const row of predictions) {
    const name = predictedName(row);
    if (!row.isCounted || name === undefined) continue;
    addCount(within(own, 'predictions', 'classes'), nameOf(name));
    if (row.number !== undefined) addTree(within(own, 'predictions', 'numbers'), numberCounts(row.number));
  }
  bound(own);
  addTree(cell, own);
}

/** Adds who could judge a capture, as its first evaluation knew, and why there is no verdict, as its last one did. */
function addEvaluation(cell: QualityCell, { row, first, last }: Line, verdicts: ReadonlyMap<unknown, unknown>): void {
  // The rows of a table are measured by true answers, and empty replies are counted.
  const isKnown = row.errorKind !== undefined || row.rows !== undefined || (row.replyForm === 'words' && row.isEmpty);
  if (first?.unmeasured && !isKnown) addCount(cell, 'unmeasured');
  for (const [at, scorer] of (first?.judgeable ?? []).entries()) {
    addCount(within(cell, 'scorers', scorer, first?.strata?.[at] ?? EVERY_CAPTURE), 'captures');
  }
  for (const [at, scorer] of (last?.notJudged ?? []).entries()) {
    if (!verdicts.has(scorer)) addCount(within(cell, 'notJudged', scorer), last?.reasons?.[at] ?? '');
  }
}

function addVerdict(cell: QualityCell, verdict: Folded<'verdicts'>, measures: readonly Measure[]): void {
  const { scorer = '', value = '', number, isCode, stratum, version } = verdict;
  if (stratum === undefined || (number !== undefined && !isCountable(number))) return;
  const sample = within(cell, 'scorers', scorer, isCode ? EVERY_CAPTURE : stratum);
  if (number === undefined) addCount(within(sample, 'values'), nameOf(value));
  else {
    addTree(sample, { numbers: numberCounts(number) });
    for (const measure of measures) {
      if (measure.scorer !== scorer) continue;
      addTree(sample, { measures: { [measure.name]: { cases: 1, passed: measure.passes(number) ? 1 : 0 } } });
    }
  }
  if (!isCode && version !== undefined) addCount(within(sample, 'versions'), version);
}
