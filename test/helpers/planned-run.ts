/** The plan of a run in memory, as PlanCaptures leaves it. */

import { CONTRACT } from '../../src/core/contract/contract.ts';
import type { ManifestLine } from '../../src/core/contract/payloads.ts';
import type { PlanReceipt } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import type { MemoryStorage } from '../doubles/memory-storage.ts';

/** Puts the manifests of all parts and their receipts. */
export function putPlan(
  memory: MemoryStorage,
  run: string,
  parts: readonly (readonly object[])[],
  more: Partial<PlanReceipt> = {},
): void {
  for (const [part, chunks] of parts.entries()) {
    const manifest = workKeys.manifest(run, part, 'a');
    const numbered = chunks.map((chunk) => `${JSON.stringify({ contract: CONTRACT, experimentId: '7', ...chunk })}\n`);
    memory.put(manifest, numbered.join(''));
    const lines = (chunks as Partial<ManifestLine>[]).reduce((sum, one) => sum + (one.lines ?? 0), 0);
    memory.put(workKeys.plan(run, part), {
      ...{ contract: CONTRACT, part, outcome: 'planned', objects: 1, chunks: chunks.length, lines, bytes: 0 },
      ...{ scorers: 0, more: part < parts.length - 1, manifest, input: {} },
      options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
      ...more,
    } satisfies PlanReceipt);
  }
}
