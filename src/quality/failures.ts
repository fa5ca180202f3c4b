/** Captures that failed an objective, a few of which a person looks at first. */
import type { ObservedFailure, QualityFailures } from '../core/contract/quality.ts';

/** A person looks at this many captures. */
export const SHOWN_FAILURES = 5;
/** An endpoint has at most 10 variants. */
const MAX_FAILURES = 10 * SHOWN_FAILURES;

/** Adds failures, and keeps the worst of each variant, since an objective may be about one, or about all but one. */
export function addFailures(kept: QualityFailures, more: QualityFailures): void {
  for (const [measure, failures] of Object.entries(more)) {
    // A guideline may be named `constructor`.
    const all = [...(Object.hasOwn(kept, measure) ? (kept[measure] ?? []) : []), ...failures];
    const byVariant = [...Map.groupBy(all, ({ variant }) => variant).values()];
    kept[measure] = byVariant.flatMap((own) => worst(own)).slice(0, MAX_FAILURES);
  }
}

/** Returns the captures that failed the most objectives, the latest first among equals, each once. */
export function worst(failures: readonly ObservedFailure[]): ObservedFailure[] {
  const each = new Map(failures.map((failure) => [failure.traceId, failure]));
  return [...each.values()].toSorted((a, b) => b.failing - a.failing || b.second - a.second).slice(0, SHOWN_FAILURES);
}
