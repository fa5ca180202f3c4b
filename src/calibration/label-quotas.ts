/** How many traces of each kind to label next, so that the interval of the corrected share gets as narrow as it can. */

/** Judged traces that are alike in what is known before they are labelled. */
export interface LabelStratum {
  /** The judge's verdict passes. */
  passed: boolean;
  /** Traces, labelled ones included. */
  judged: number;
  labelled: number;
  /** Of the labelled ones, those that people pass. */
  good: number;
  /** Traces that cannot be picked any more: labelled, or waiting for a label. */
  taken: number;
}

/** What is presumed of the judge before any label has the weight of this many labels. */
const FIRST = 10;
/** What a stratum has in common with the others of its verdict has the weight of this many labels. */
const SHARED = 10;

/**
 * Returns the part of the labels that the rarer verdict gets while nothing is known of the judge. It is more than its share of
 * the traces, since judges fail good replies more often than they pass bad ones, but not so much more that a judge of the
 * other kind would cost width.
 */
export function firstPart(share: number): number {
  return share > 0.5 ? 1 - firstPart(1 - share) : Math.max(share, Math.min(2.5 * share, 0.23 + 0.4 * share));
}

/**
 * Returns how many traces of each stratum to pick: Neyman's allocation (1934), by the spread of the labels so far.
 *
 * @param next number of traces to pick in all; fewer are picked if there are no more
 */
export function labelQuotas(strata: readonly LabelStratum[], next: number): number[] {
  const judged = strata.reduce((sum, stratum) => sum + stratum.judged, 0);
  const labelled = strata.reduce((sum, stratum) => sum + stratum.labelled, 0);
  const passing = strata.reduce((sum, stratum) => sum + (stratum.passed ? stratum.judged : 0), 0) / judged;
  const first = strata.map(
    ({ passed, judged: of }) =>
      (passed ? firstPart(passing) : 1 - firstPart(passing)) * (of / judged / (passed ? passing : 1 - passing)),
  );
  const spreads = strata.map(({ passed, labelled: n, good, judged: of }) => {
    const alike = strata.filter((stratum) => stratum.passed === passed);
    const sum = (field: 'labelled' | 'good'): number => alike.reduce((all, stratum) => all + stratum[field], 0);
    const common = (sum('good') + 0.5) / (sum('labelled') + 1);
    // Half a label on each side: without, a verdict that was always right would never be looked at again.
    const share = (good + 0.5 + SHARED * common) / (n + 1 + SHARED);
    return of * Math.sqrt(share * (1 - share));
  });
  const total = spreads.reduce((sum, spread) => sum + spread, 0);
  const known = labelled / (labelled + FIRST);
  const parts = spreads.map((spread, index) => known * (spread / total) + (1 - known) * (first[index] ?? 0));
  return fill(strata, parts, next);
}

/**
 * Divides the picks so that all labels together come near to the parts, within what is left of each stratum. Each stratum gets
 * one first: what can never be picked would bias the estimate.
 */
function fill(strata: readonly LabelStratum[], parts: readonly number[], next: number): number[] {
  const quotas = strata.map(() => 0);
  for (let picked = 0; picked < next; picked++) {
    let best = -1;
    let least = Number.POSITIVE_INFINITY;
    for (const [index, { taken, judged }] of strata.entries()) {
      const all = taken + (quotas[index] ?? 0);
      const fullness = all === 0 ? 0 : (all + 0.5) / (parts[index] ?? 0);
      if (all < judged && fullness < least) [best, least] = [index, fullness];
    }
    if (best < 0) break;
    quotas[best] = (quotas[best] ?? 0) + 1;
  }
  return quotas;
}
