/** Falls of a scorer against the same hours of the weeks before, over four spans, and how large a fall could have gone unseen. */

import { DAY_MS, HOUR_MS } from '../captures/files/capture-path.ts';
import type { SampledShare } from '../core/statistics/share.ts';
import { sum } from '../core/values/sum.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import { added, capturesIn, isWeekend, judgedIn, type Series, type Strata, shareOf, within } from './series.ts';

/** A short span shows a crash within hours, a long one a decline. */
export const SPANS_MS = [6 * HOUR_MS, DAY_MS, 3 * DAY_MS, 14 * DAY_MS] as const;
/** A span is compared with the weeks before it. */
export const BASELINE_MS = 28 * DAY_MS;
/** Verdicts before that hours of the week need to be compared by themselves. */
const FEWEST = 30;

/** Two shares that fail, of as many independent cases. */
export type Comparison = Record<'before' | 'after', SampledShare>;

/** One side of a comparison: the hours of some variants in a window. */
interface Side {
  window: TimeWindow;
  /** Absent: all. */
  variant?: string | undefined;
}

/** Hours that are alike, before and after. */
interface Pair {
  variant: string;
  slot: number;
  before: Strata;
  after: Strata;
}

/** Compares a span that ends now with the weeks before it. Returns `undefined` if too little of it can be compared. */
export function compareSpan(
  series: Series,
  { spanMs, nowMs, variant, factor }: { spanMs: number; nowMs: number; factor: number } & Pick<Side, 'variant'>,
): Comparison | undefined {
  const fromMs = nowMs - spanMs;
  const past = { window: { fromMs: fromMs - BASELINE_MS, toMs: fromMs }, variant };
  return compare(series, past, { window: { fromMs, toMs: nowMs }, variant }, factor);
}

/**
 * Compares the same hours of the week if each has enough earlier verdicts, else weekdays and weekends, else all hours.
 * The weights are those of the later captures, so that neither different traffic nor its division among variants
 * changes a share. Hours of the week and variants without earlier verdicts are left out.
 *
 * @param factor number of verdicts worth one independent verdict
 * @returns `undefined` if less than half of the later captures can be compared
 */
export function compare(series: Series, before: Side, after: Side, factor: number): Comparison | undefined {
  const slots: Pair[] = [];
  let all = 0;
  for (const part of series.parts) {
    if (after.variant !== undefined && part.variant !== after.variant) continue;
    const now = within(part, after.window);
    if (now === undefined) continue;
    all += capturesIn(now);
    const of = before.variant ?? part.variant;
    const earlier = series.parts.find(({ variant, slot }) => variant === of && slot === part.slot);
    const past = earlier && within(earlier, before.window);
    if (past && judgedIn(past) > 0 && judgedIn(now) > 0) slots.push({ ...part, before: past, after: now });
  }
  const groups = [
    slots,
    joined(slots, ({ variant, slot }) => `${isWeekend(slot)} ${variant}`),
    joined(slots, ({ variant }) => variant),
  ];
  const pairs = (groups.find((some) => some.every(hasEnough)) ?? groups[2] ?? []).filter(hasEnough);
  const captures = sum(pairs.map((pair) => capturesIn(pair.after)));
  if (captures === 0 || captures < all / 2) return undefined;
  const now = shareOf(pairs.map((pair) => pair.after).reduce((a, b) => added(a, b)));
  const parts = pairs.map((pair) => ({ weight: capturesIn(pair.after) / captures, ...shareOf(pair.before) }));
  const share = sum(parts.map((part) => part.weight * part.share));
  const of = 1 / sum(parts.map((part) => part.weight ** 2 / part.of));
  return { before: { share, of: of / factor }, after: { share: now.share, of: now.of / factor } };
}

const hasEnough = ({ before }: Pair): boolean => judgedIn(before) >= FEWEST;

/** Adds up the pairs that are alike. */
const joined = (pairs: readonly Pair[], keyOf: (pair: Pair) => string): Pair[] =>
  [...Map.groupBy(pairs, keyOf).values()].map((some) => {
    const [{ variant, slot } = { variant: '', slot: 0 }] = some;
    const all = (side: 'before' | 'after') => some.map((pair) => pair[side]).reduce((a, b) => added(a, b));
    return { variant, slot, before: all('before'), after: all('after') };
  });
