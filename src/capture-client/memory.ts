/** Bounds the memory of calls that run or wait to be written, and of batches: over the bound, the largest calls lose their contents. */
import type { Call } from './call.ts';

/** @returns whether the memory is over its bound even without contents */
export function isOverBound(calls: Iterable<Call>, batches: Iterable<Buffer>, most: number): boolean {
  const largest = [...calls].sort((a, b) => b.size - a.size);
  let used = largest.reduce((sum, { size }) => sum + size, 0);
  for (const { length } of batches) used += length;
  for (const call of largest) {
    if (used <= most) return false;
    used -= call.size;
    for (const side of [call.request, call.reply]) if (side.kept.length > 0) side.leaveOut('memory');
    call.mostPieces = call.pieces.length;
    used += call.size;
  }
  return used > most;
}
