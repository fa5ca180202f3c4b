/** The counts of label files. */
import type { LabelCounts } from '../core/contract/ground-truth.ts';
import { addCounts } from '../core/values/counts.ts';

/** Returns the sum of counts, and of lines that are no labels. */
export function labelCounts(all: Iterable<LabelCounts> = [], invalid = 0): LabelCounts {
  const none = { joined: 0, repeated: 0, replaced: 0, outdated: 0, waiting: 0, unknown: 0, ambiguous: 0 };
  const sum: LabelCounts = { lines: invalid, ...none, invalid };
  for (const counts of all) addCounts(sum, counts);
  return sum;
}
