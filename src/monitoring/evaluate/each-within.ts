/** Synchronous work on each of several items in a time that they share, where one item’s fault affects no other item. */
import { ownFault } from '../../core/process/own-fault.ts';
import { isOutOfTime, withinTime } from '../../core/process/within-time.ts';

/**
 * Does the work on one item after the other.
 *
 * @param failed returns the result of an item whose work throws or runs out of time, given the reason
 * @throws a named error of the work, which affects every item
 */
export function eachWithin<T extends { name: string }, R>(
  ms: number,
  items: readonly T[],
  work: (item: T) => R,
  failed: (item: T, fault: string) => R,
): R[] {
  const results: R[] = [];
  const attempt = (item: T): R => {
    try {
      return work(item);
    } catch (error) {
      const fault = ownFault(error);
      if (fault === undefined) throw error;
      return failed(item, fault);
    }
  };
  if (items.length === 0) return results;
  try {
    withinTime(ms, () => {
      for (const item of items) results.push(attempt(item));
    });
  } catch (error) {
    if (!isOutOfTime(error)) throw error;
    const late = items.slice(results.length);
    const fault = `${error.name}: ${late[0]?.name} took the rest of ${ms / 1000} s`;
    for (const item of late) results.push(failed(item, fault));
  }
  return results;
}
