/** Synchronous work on each of several items in a time that they share, where one item’s fault affects no other item. */
import { unlessFaulty } from '../../core/process/own-fault.ts';

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
  const workOnAll = (): void => {
    for (const item of items) {
      const ofItem = (fault: string): R => failed(item, fault);
      results.push(unlessFaulty(Infinity, () => work(item), ofItem));
    }
  };
  unlessFaulty(ms, workOnAll, () => {
    const late = items.slice(results.length);
    const fault = `OutOfTime: ${late[0]?.name} took the rest of ${ms / 1000} s`;
    results.push(...late.map((item) => failed(item, fault)));
  });
  return results;
}
