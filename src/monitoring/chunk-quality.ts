/** What a run has done with a chunk: from the receipts of its attempts, each of which reports all attempts so far. */
import type { QualityCounts } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
import { addTree, takeFarthest } from '../quality/count-tree.ts';
import { type ChunkState, partsDone, type StepState } from './receipts.ts';

/** @param lines of the chunk */
export function qualityOfChunk({ log, evaluate, failedCounts }: ChunkState, lines: number): QualityCounts {
  const counts = ofStep(
    evaluate,
    lines,
    failedCounts.filter(({ step }) => step === 'evaluate'),
  );
  // Where the captures of a run are traced without its judge after all, both steps know them.
  takeFarthest(
    counts,
    ofStep(
      log,
      lines,
      failedCounts.filter(({ step }) => step === 'log'),
    ),
  );
  return counts;
}

function ofStep<R extends Receipt>(
  step: StepState<R>,
  lines: number,
  failed: ChunkState['failedCounts'],
): QualityCounts {
  const counts: QualityCounts = {};
  const { parts, whole } = partsDone(step, lines);
  for (const { quality } of parts) addTree(counts, quality ?? {});
  if (whole || failed.length === 0) return counts;
  // What the attempts at the missing part have written is in MLflow although they failed. Each knows a part of it.
  const next = parts.at(-1)?.part?.to ?? 0;
  const missing: QualityCounts = {};
  for (const { part, quality } of failed) if ((part?.from ?? 0) === next) takeFarthest(missing, quality ?? {});
  addTree(counts, missing);
  for (const { part, quality } of failed) if (part === undefined) takeFarthest(counts, quality ?? {});
  return counts;
}
