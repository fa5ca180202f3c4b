/** The command that completes a run of an earlier version. */
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { readPlanReceipts } from '../../../src/monitoring/receipts.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const KEY = 'e/AllTraffic/2026/11/20/10/a.jsonl';
const memory = new MemoryStorage();
memory.put('starts/one.jsonl', `${JSON.stringify({ bucket: 'b', key: KEY })}\n`);
memory.put(
  'starts/two.jsonl',
  ['10/a.jsonl', '10/ab.jsonl', '11/b.jsonl']
    .map((name) => `${JSON.stringify({ bucket: 'b', key: `e/${name}` })}\n`)
    .join(''),
);
const event = { detail: { bucket: { name: 'b' }, object: { key: KEY } } };
memory.put(workKeys.plan('first', 0), { contract: 2, input: event });
memory.put(workKeys.plan('again', 0), { contract: 2, input: { retry: { run: 'first', what: 'failed' } } });

test.each([
  [event, `s3://b/${KEY}`],
  [{ ...event, evaluate: false }, `s3://b/${KEY} --no-evaluate`],
  [
    { bucket: 'b', prefix: 'e/', from: '2026-11-20T00:00:00Z', judge: 'batch', sampleRate: 0.1, budgetUsd: 5 },
    's3://b/e/ --from 2026-11-20T00:00:00Z --sample-rate 0.1 --batch',
  ],
  [{ files: { key: 'starts/one.jsonl' } }, `s3://b/${KEY}`],
  [{ bucket: 'b', prefix: "our's (v 2)/" }, String.raw`'s3://b/our'\''s (v 2)/'`],
  [{ files: { key: 'starts/two.jsonl' } }, 's3://b/e/'],
  [{ retry: { run: 'again', what: 'held' }, reevaluate: true }, `s3://b/${KEY} --reevaluate`],
])('%j is completed by its captures', async (input, args) => {
  memory.put(workKeys.plan('run', 0), { contract: 2, input });
  await expect(readPlanReceipts({ storage: memory.storage, workBucket: 'work' }, 'run').next()).rejects.toThrow(
    `complete it with "inference-monitor process ${args}"`,
  );
});

test('a run whose captures are not known any more is started again with its own input', async () => {
  memory.put(workKeys.plan('run', 0), { contract: 2, input: { retry: { run: 'gone', what: 'held' } } });
  await expect(readPlanReceipts({ storage: memory.storage, workBucket: 'work' }, 'run').next()).rejects.toThrow(
    'start it again with its own input',
  );
});
