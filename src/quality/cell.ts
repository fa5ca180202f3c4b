/**
 * Sums of counts of an hour and a variant. Their size is bounded whatever captures contain: names and bins beyond a
 * limit are merged.
 */
import type { NumberCounts, QualityCell, QualityCounts } from '../core/contract/quality.ts';
import { binOf, boundBins } from '../core/statistics/log-bins.ts';
import { addTree, branch } from './count-tree.ts';

/**
 * Maximum number of names of each kind. A scorer may quote the capture, as language scorers do, and errors, classes and
 * reasons come from captures too.
 */
const MAX_NAMES = 50;
const MAX_NAME_CHARS = 63;
/** Maximum number of digests of calls. The smallest digests of two sources show whether they have calls in common. */
const MAX_DIGESTS = 16;
/** SageMaker's endpoints have at most 10 variants. More names were made up, and would make more counts than captures. */
export const MAX_VARIANTS = 20;
/** Replaces the names beyond a limit. */
export const OTHER = '(other)';

/** Returns the name under which a name from a capture is counted. */
export const nameOf = (text: string): string => text.slice(0, MAX_NAME_CHARS).replace('__proto__', OTHER);

/** A capture may name any number. Beyond this, squares and sums would lose their small terms. */
const MAX_NUMBER = 1e12;
export const isCountable = (number: number): boolean => Math.abs(number) <= MAX_NUMBER;

/** Returns the counts of a number, or no counts if it is out of range. */
export const numberCounts = (number: number): NumberCounts =>
  isCountable(number) ? { bins: { [binOf(number)]: 1 }, sum: number, squares: number * number } : {};

/** Adds counts to the counts of an hour and a variant. */
export function addCell(total: QualityCell, more: QualityCell): void {
  addTree(total, more);
  bound(total);
}

const samplesOf = ({ scorers = {} }: QualityCell) => Object.values(scorers).flatMap((own) => Object.values(own));

/** Returns the counts by names that captures made up. */
const namedIn = (cell: QualityCell) => [
  cell.errorKinds,
  cell.quarantined,
  cell.predictions?.classes,
  ...samplesOf(cell).map(({ values }) => values),
];

/** Adds up names and bins beyond a limit. */
export function bound(cell: QualityCell): void {
  const numbers = [cell.predictions?.numbers, ...samplesOf(cell).map((one) => one.numbers)];
  for (const counts of numbers) if (counts?.bins !== undefined) boundBins(counts.bins);
  for (const counts of namedIn(cell)) boundNames(counts);
  for (const counts of Object.values(cell.digests ?? {})) {
    for (const digest of Object.keys(counts).toSorted().slice(MAX_DIGESTS)) delete counts[digest];
  }
}

function boundNames(counts: Record<string, number> = {}): void {
  const names = Object.keys(counts);
  if (names.length <= MAX_NAMES) return;
  for (const name of names.slice(MAX_NAMES - 1)) {
    if (name === OTHER) continue;
    const count = counts[name] ?? 0;
    delete counts[name];
    addTree(counts, { [OTHER]: count });
  }
}

/** Adds counts to those of the same hours and variants, and bounds the sums. */
export function addHours(total: QualityCounts, more: QualityCounts): void {
  for (const [hour, variants] of Object.entries(more)) {
    for (const [variant, cell] of Object.entries(variants)) addCell(branch(branch(total, hour), variant), cell);
  }
}
