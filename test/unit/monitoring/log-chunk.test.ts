/** One chunk through the step that logs it, with MLflow's wire played by a server. */
import { gzipSync } from 'node:zlib';
import type { ChunkRequest } from '../../../src/contract/payloads.ts';
import type { QuarantineEntry } from '../../../src/contract/receipts.ts';
import { workKeys } from '../../../src/contract/work-keys.ts';
import { createMlflowClient, type MlflowClient } from '../../../src/mlflow/client.ts';
import { logChunk } from '../../../src/monitoring/log/log-chunk.ts';
import { collectGarbage } from '../../../src/shared/memory.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { type ScriptedMlflow, startScriptedMlflow } from '../../doubles/scripted-mlflow.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { captureOf, jsonSide } from '../formats/arbitraries.ts';

const environment = testEnvironment();

let server: ScriptedMlflow;
let store: MlflowClient;
beforeEach(async () => {
  server = await startScriptedMlflow();
  store = createMlflowClient({ trackingUri: server.url });
});
afterEach(async () => {
  store.close();
  await server.stop();
});

async function logged(records: (object | string)[], chunk: Partial<ChunkRequest['chunk']> = {}) {
  const storage = new MemoryStorage();
  const text = records.map((record) => `${typeof record === 'string' ? record : JSON.stringify(record)}\n`).join('');
  const { bucket, key, etag, size } = storage.put('captures.jsonl', text);
  const place = { bucket, key, etag, objectTimeMs: 0, chunk: 0, experimentId: '7' };
  const range = { start: 0, end: size - 1, firstLine: 1, lines: records.length, bytes: size };
  const request: ChunkRequest = {
    run: 'run',
    chunk: { ...place, ...range, ...chunk },
    options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
    attempt: 0,
  };
  const receipt = await logChunk(request, { storage: storage.storage, store, environment, requestId: 'r' });
  const quarantine = (await storage.getText('', workKeys.quarantine('run', 0)))?.text ?? '';
  const entries = quarantine.split('\n').filter((line) => line !== '');
  return { ...receipt, quarantine: entries.map((line) => JSON.parse(line) as QuarantineEntry) };
}

const asked = (content: string): object => ({ messages: [{ role: 'user', content }] });
const good = (content: string): object => captureOf(jsonSide('INPUT', asked(content), 'plain'), undefined);

test('a tool call whose name is no text is traced like any other', async () => {
  const reply = (name: unknown) => [{ generated_text: 'x', tool_calls: [{ function: { name, arguments: {} } }, null] }];
  const odd = (name: unknown) => captureOf(undefined, jsonSide('OUTPUT', reply(name), 'plain'));
  const { counts } = await logged([good('a'), odd({ toString: 1 }), odd(17), good('b')]);
  expect(counts).toMatchObject({ lines: 4, traced: 4, quarantined: 0 });
});

test('a line whose trace cannot be built is in quarantine with its place, and so is its twin; the others are traced', async () => {
  const { eventMetadata, ...timeless } = good('no time') as { eventMetadata: object };
  // The time of the file stands for the captured one, and is none.
  const { counts, quarantine } = await logged([good('a'), timeless, good('b'), timeless], { objectTimeMs: 9e15 });
  expect(counts).toMatchObject({ lines: 4, traced: 2, written: 2, quarantined: 2 });
  expect(quarantine).toMatchObject([
    { line: 2, reason: { name: 'TraceNotBuilt', message: expect.stringContaining('RangeError') } },
    { line: 4, reason: { name: 'TraceNotBuilt' } },
  ]);
});

describe('content that takes more memory than there is', () => {
  const MIB = 1024 ** 2;
  const { AWS_LAMBDA_FUNCTION_MEMORY_SIZE: before } = process.env;
  beforeEach(() => {
    // Beside what this process has there is room for a small one; the garbage of other tests would be room later.
    collectGarbage();
    const size = Math.round(process.memoryUsage.rss() / MIB) + 320;
    process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = String(size);
  });
  afterEach(() => {
    delete process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE;
    if (before !== undefined) process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = before;
  });

  test('is tried out in another process, and kept as captured when that is killed; the lines around it are traced', async () => {
    const body = gzipSync(`[${'[],'.repeat(20 * MIB)}1]`).toString('base64');
    const bomb = captureOf({ ...jsonSide('INPUT', 1, 'plain'), data: body, encoding: 'BASE64' }, undefined);
    const { counts, quarantine } = await logged([good('a'), bomb, good('b')]);
    expect({ counts, quarantine }).toMatchObject({ counts: { lines: 3, written: 3 }, quarantine: [] });
    const notes = server.to('/v1/traces').filter(({ body }) => body.includes('it needs more memory than a function'));
    expect(notes).toHaveLength(1);
  });

  test('that cannot even be kept as captured is in quarantine, with the setting that would take it', async () => {
    const bomb = `{"captureData":{},"more":[${'[],'.repeat(5 * MIB)}1]}`;
    const { counts, quarantine } = await logged([good('a'), bomb, good('b')]);
    expect(counts).toMatchObject({ lines: 3, written: 2, quarantined: 1 });
    expect(quarantine).toMatchObject([{ line: 2, reason: { name: 'LineTooHeavy' } }]);
    expect(quarantine[0]?.reason.message).toMatch(/LAMBDA_MEMORY_MB.*MAX_LINE_BYTES/);
    expect(quarantine[0]).not.toHaveProperty('base64');
  });
});
