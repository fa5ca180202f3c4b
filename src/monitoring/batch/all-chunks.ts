/** The manifest of all parts of a run, for the Map that follows its batch jobs. */

import type { Storage } from '../../core/aws/storage.ts';
import { TextUpload } from '../../core/aws/uploads.ts';
import type { GatherRequest, JudgeBatchResult } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { readManifest } from '../receipts.ts';

interface GatherDependencies {
  storage: Storage;
  workBucket: string;
}

/**
 * Writes the manifest of all chunks of the run, also those whose requests could not be prepared.
 *
 * @returns whether there are any
 */
export async function writeBatchManifest(run: string, { storage, workBucket }: GatherDependencies): Promise<boolean> {
  const manifest = new TextUpload(storage, workBucket, workKeys.batchManifest(run));
  let isEmpty = true;
  for await (const line of readManifest(storage, workBucket, run)) {
    await manifest.writeLine(line);
    isEmpty = false;
  }
  await manifest.close();
  return !isEmpty;
}

/** Gathers the chunks of a run whose jobs nobody can check: its captures are traced, with the answers that there are. */
export async function gatherChunks(
  { run: { name } }: GatherRequest,
  deps: GatherDependencies,
): Promise<JudgeBatchResult> {
  return {
    outcome: (await writeBatchManifest(name, deps)) ? 'ready' : 'empty',
    pollSeconds: 0,
    manifest: { bucket: deps.workBucket, key: workKeys.batchManifest(name) },
  };
}
