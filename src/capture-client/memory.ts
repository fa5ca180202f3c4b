/** Bounds the memory of calls that run or wait to be written, and of batches. */
import type { Call } from './call.ts';

/** Over the bound, the largest calls lose their contents. */
export function bound(calls: Iterable<Call>, batches: Iterable<Buffer>, most: number): void {
  let used = 0;
  for (const { size } of calls) used += size;
  for (const { length } of batches) used += length;
  if (used <= most) return;
  for (const call of [...calls].sort((a, b) => b.size - a.size)) {
    if (used <= most) return;
    used -= call.size;
    for (const side of [call.request, call.reply]) if (side.kept.length > 0) side.leaveOut('memory');
    call.mostPieces = call.pieces.length;
    used += call.size;
  }
}
