/** Without texts, the files of batch inference and the exchanges of a replay go when their run ends. */

import { replayKeys, workKeys } from '../../../src/core/contract/work-keys.ts';
import { removeTexts } from '../../../src/monitoring/remove-texts.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

test('the texts of the run go, and nothing else', async () => {
  const memory = new MemoryStorage();
  const texts = [workKeys.batchInput('r', 0, 1), workKeys.batchOutput('r', 'job', 1), replayKeys.exchanges('p', 0)];
  const others = [workKeys.batchInput('r2', 0, 1), workKeys.batchJobs('r'), replayKeys.exchanges('p2', 0)];
  for (const key of [...texts, ...others]) memory.put(key, 'x');
  await removeTexts({ storage: memory.storage, workBucket: 'w' }, 'r', 'p');
  expect([...memory.objects.keys()].toSorted()).toEqual(others.toSorted());
});
