/** What was sent for a trace, as attempts and runs tell each other. */
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { SentTraces } from '../../../src/monitoring/write/sent-traces.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';

const memory = new MemoryTable();
const table = new LimitsTable(memory.client, 'table');
beforeEach(() => memory.items.clear());

let owners = 0;
async function sentOf(more: Partial<ChunkRequest> = {}, ids = ['tr-1']): Promise<SentTraces> {
  owners += 1;
  const request = chunkRequest(new MemoryStorage(), ['line'], more);
  const sent = new SentTraces(table, request, `owner-${owners}`);
  await sent.read(ids);
  return sent;
}
/** Claims the traces, and saves what was sent for each. */
const saved = (sent: SentTraces, assessmentIds: string[] = [], ids = ['tr-1']): Promise<void> =>
  sent.claimed(ids, async (claimed) => {
    for (const id of claimed) await sent.save(id, assessmentIds);
  });

test('batches that DynamoDB does in part are completed, and an expired item counts as absent', async () => {
  memory.batchItems = 20;
  const ids = Array.from({ length: 130 }, (_, n) => `tr-${n}`);
  await saved(await sentOf(), [], ids);
  expect(memory.items.size).toBe(130);
  Object.assign(memory.items.get('sent#tr-129') ?? {}, { ttl: { N: '1' } });
  const sent = await sentOf({ attempt: 1 }, ids);
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
