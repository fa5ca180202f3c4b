/** With `CONTENT=none`, deletes the texts that a run stored temporarily when the run ends. */

import { removeObject } from '../core/aws/remove-object.ts';
import type { Work } from '../core/aws/storage.ts';
import { areaOf } from '../core/contract/work-keys.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';

const AT_ONCE = 32;

/**
 * Deletes the requests and the answers of batch inference.
 *
 * @param replay the replay whose exchanges the run judged; its exchanges are deleted too
 */
export async function removeTexts({ storage, workBucket }: Work, run: string, replay: string | undefined) {
  const prefixes = [areaOf('batchInput', run), areaOf('batchOutput', run)];
  for (const prefix of replay === undefined ? prefixes : [...prefixes, areaOf('replayExchanges', replay)]) {
    const objects = await Array.fromAsync(storage.list(workBucket, prefix));
    await forEachConcurrently(AT_ONCE, objects, ({ key }) => removeObject(storage, workBucket, key));
  }
}
