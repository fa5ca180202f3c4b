/** The log step with one chunk, in memory, and a scripted MLflow server; and what attempts and runs tell each other of it. */
import { gzipSync } from 'node:zlib';
import type { CaptureRange, ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { QuarantineEntry } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { collectGarbage } from '../../../src/core/process/memory.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { SentTraces } from '../../../src/monitoring/write/sent-traces.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryWriting } from '../../doubles/memory-table.ts';
import { chunkOf, chunkRequest } from '../../helpers/chunk-request.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';
import { captureOf, jsonSide } from '../captures/arbitraries.ts';

const environment = testEnvironment();

const mlflow = useScriptedMlflow();
beforeEach(() => mlflow.start());

async function logged(records: (object | string)[], range: Partial<CaptureRange> = {}, settings = {}) {
  const storage = new MemoryStorage();
  const lines = records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record)));
  const request = chunkRequest(storage, lines);
  const deps = {
    storage: storage.storage,
    store: mlflow.client,
    environment: { ...environment, ...settings },
    requestId: 'r',
    ...memoryWriting(),
  };
  const receipt = await logChunk(
    { ...request, chunk: chunkOf([{ ...request.chunk.ranges[0], ...range } as CaptureRange]) },
    deps,
  );
  const quarantine = await storage.getJsonLines<QuarantineEntry>('', workKeys.quarantine('run', 0));
  return { ...receipt, quarantine };
}

const asked = (content: string): object => ({ messages: [{ role: 'user', content }] });
const good = (content: string): object => captureOf(jsonSide('INPUT', asked(content), 'plain'), undefined);

test('traces a tool call whose name is not a string', async () => {
  const reply = (name: unknown) => [{ generated_text: 'x', tool_calls: [{ function: { name, arguments: {} } }, null] }];
  const odd = (name: unknown) => captureOf(undefined, jsonSide('OUTPUT', reply(name), 'plain'));
  const { counts } = await logged([good('a'), odd({ toString: 1 }), odd(17), good('b')]);
  expect(counts).toMatchObject({ lines: 4, traced: 4, quarantined: 0 });
});

test('quarantines a line whose trace cannot be built, and its duplicate; traces the others', async () => {
  const { eventMetadata, ...timeless } = good('no time') as { eventMetadata: object };
  // The time of the file replaces the missing time of the capture, and is invalid.
  const { counts, quarantine } = await logged([good('a'), timeless, good('b'), timeless], { objectTimeMs: 9e15 });
  expect(counts).toMatchObject({ lines: 4, traced: 2, written: 2, quarantined: 2 });
  expect(quarantine).toMatchObject([
    { line: 2, reason: { name: 'TraceNotBuilt', message: expect.stringContaining('RangeError') } },
    { line: 4, reason: { name: 'TraceNotBuilt' } },
  ]);
});

test('counts error replies to the same request as one for the messages about quality', async () => {
  const inferenceTime = new Date().toISOString();
  const refused = {
    observedContentType: null,
    mode: 'OUTPUT' as const,
    encoding: 'BASE64' as const,
    data: btoa('{"code":424,"message":"down"}'),
  };
  const failed = (n: number, content: string): object => ({
    ...captureOf(jsonSide('INPUT', asked(content), 'plain'), refused),
    eventMetadata: { eventId: `e-${n}`, inferenceTime },
  });
  const settings = { QUALITY_OBJECTIVES: [{ errorReplies: { atMost: 0.02 } }] };
  const { failures } = await logged([failed(1, 'a'), failed(2, 'b'), failed(3, 'a')], {}, settings);
  const found = failures?.['error replies']?.map(({ count = 1, severity, causes }) => [count, severity, causes]);
  expect(found?.toSorted()).toEqual([
    [1, 'task', 0],
    [2, 'task', 0],
  ]);
});

describe('content that needs more memory than is available', () => {
  const MIB = 1024 ** 2;
  const { AWS_LAMBDA_FUNCTION_MEMORY_SIZE: before } = process.env;
  beforeEach(() => {
    // Leaves room for a small process next to this one. Garbage of other tests would become room later.
    collectGarbage();
    const size = Math.round(process.memoryUsage.rss() / MIB) + 320;
    process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = String(size);
  });
  afterEach(() => {
    delete process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE;
    if (before !== undefined) process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = before;
  });

  test('is tried out in a separate process, and traced as captured when that process is killed', async () => {
    const body = gzipSync(`[${'[],'.repeat(20 * MIB)}1]`).toString('base64');
    const bomb = captureOf({ ...jsonSide('INPUT', 1, 'plain'), data: body, encoding: 'BASE64' }, undefined);
    const { counts, quarantine } = await logged([good('a'), bomb, good('b')]);
    expect({ counts, quarantine }).toMatchObject({ counts: { lines: 3, written: 3 }, quarantine: [] });
    const notes = mlflow.server
      .to('/v1/traces')
      .filter(({ body }) => body.includes('it needs more memory than a function'));
    expect(notes).toHaveLength(1);
  });

  test('goes to quarantine with the setting to change if it does not fit even as captured', async () => {
    const bomb = `{"captureData":{},"more":[${'[],'.repeat(5 * MIB)}1]}`;
    const { counts, quarantine } = await logged([good('a'), bomb, good('b')]);
    expect(counts).toMatchObject({ lines: 3, written: 2, quarantined: 1 });
    expect(quarantine).toMatchObject([{ line: 2, reason: { name: 'LineTooHeavy' } }]);
    expect(quarantine[0]?.reason.message).toMatch(/LAMBDA_MEMORY_MB.*MAX_LINE_BYTES/);
    expect(quarantine[0]).not.toHaveProperty('base64');
  });
});

describe('what was sent for a trace', () => {
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
});
