/** What was sent for a trace, as attempts and runs tell each other. */
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import type { StoredTrace } from '../../../src/mlflow/types.ts';
import { SentTraces } from '../../../src/monitoring/write/sent-traces.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';

const memory = new MemoryTable();
const table = new LimitsTable(memory.client, 'table');
const OPTIONS = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' } as const;
beforeEach(() => memory.items.clear());

let owners = 0;
async function sentOf(more: Partial<ChunkRequest> = {}, startedAtMs?: number, ids = ['tr-1']): Promise<SentTraces> {
  owners += 1;
  const request = chunkRequest(new MemoryStorage(), ['line'], more);
  const sent = new SentTraces(table, request, `owner-${owners}`, startedAtMs);
  await sent.read(ids);
  return sent;
}
/** Claims the traces, and saves what was sent for each. */
const saved = (sent: SentTraces, assessmentIds: string[] = [], ids = ['tr-1']): Promise<void> =>
  sent.claimed(ids, async (claimed) => {
    for (const id of claimed) await sent.save(id, assessmentIds);
  });
const stored = (...ids: string[]) =>
  ({ traceId: 'tr-1', assessments: ids.map((assessmentId) => ({ assessmentId })) }) as unknown as StoredTrace;

test('an absent trace was deleted for later attempts, retries, runs of events and overlapping runs, and not for a new run', async () => {
  const before = Date.now() - 1;
  const first = await sentOf();
  expect(first.isWritten('tr-1')).toBe(false);
  await saved(first);
  const later = Date.now() + 1;
  const isWritten = async (more: Partial<ChunkRequest>, startedAtMs = later) =>
    (await sentOf(more, startedAtMs)).isWritten('tr-1');
  expect(await isWritten({ attempt: 1 })).toBe(true);
  expect(await isWritten({ run: 'retry', options: { ...OPTIONS, continues: ['run'] } })).toBe(true);
  expect(await isWritten({ run: 'retry', options: { ...OPTIONS, continues: ['another'] } })).toBe(true);
  expect(await isWritten({ run: 'files-again' })).toBe(true);
  expect(await isWritten({ run: 'overlaps' }, before)).toBe(true);
  expect(await isWritten({ run: 'anew' })).toBe(false);
});

test('a verdict that was sent and is absent was deleted, for every run', async () => {
  await saved(await sentOf(), ['a-1', 'a-2']);
  const other = await sentOf({ run: 'other' });
  await saved(other, ['a-3']);
  const third = await sentOf({ run: 'third' });
  const deleted = ['a-1', 'a-2', 'a-3', 'a-4'].map((id) => third.wasDeleted(stored('a-2'), id));
  expect(deleted).toEqual([true, false, true, false]);
});

test('batches that DynamoDB does in part are completed, and an expired item counts as absent', async () => {
  memory.batchItems = 20;
  const ids = Array.from({ length: 130 }, (_, n) => `tr-${n}`);
  await saved(await sentOf(), [], ids);
  expect(memory.items.size).toBe(130);
  Object.assign(memory.items.get('sent#tr-129') ?? {}, { ttl: { N: '1' } });
  const sent = await sentOf({ attempt: 1 }, undefined, ids);
  expect(ids.filter((id) => !sent.isWritten(id))).toEqual(['tr-129']);
});

test('the claim of a function that was killed before it posted says nothing of what was sent', async () => {
  const killed = await sentOf();
  const work = killed.claimed(['tr-1'], async () => {
    memory.onWrite = () => {
      throw new Error('killed');
    };
    throw new Error('killed');
  });
  await expect(work).rejects.toThrow('killed');
  memory.onWrite = undefined;
  expect(memory.items.get('sent#tr-1')).toMatchObject({ owner: {}, chunk: { S: 'run/00000000' }, revision: {} });
  const next = await sentOf({ attempt: 1 });
  expect([next.isWritten('tr-1'), next.isOfChain('tr-1'), next.countedBy('tr-1')]).toEqual([false, false, undefined]);
});
