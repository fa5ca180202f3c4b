/** The predictions that the steps keep for labels: of every capture with a trace, whoever wrote it, and of nothing else. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt } from '../../../src/core/contract/receipts.ts';
import { areaOf } from '../../../src/core/contract/work-keys.ts';
import { RetryableError } from '../../../src/core/errors/errors.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { Ask } from '../../../src/judge/transports/transport.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { captureLine, chatLine, csv, json } from '../../helpers/deployed-captures.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const TIME = '2026-11-20T10:00:00Z';
const row = (value: number): string => captureLine(`row-${value}`, TIME, csv('1,2'), csv(String(value)));
const errorReply = captureLine('error', TIME, csv('1,2'), json({ error: { code: 500, message: 'out of memory' } }));
const traceOf = (line: string): string => traceIdOf('7', Buffer.from(line));

type Step = (rig: Rig, request: ChunkRequest) => Promise<LogReceipt | EvaluateReceipt>;

class Rig {
  readonly memory = new MemoryStorage();
  readonly storage = this.memory.storage;
  readonly store = new MemoryTraces();

  values = async (): Promise<unknown[]> =>
    (await storedPredictions(this.storage)).map(({ prediction }) => prediction.value);
  request = (lines: readonly string[], more: Partial<ChunkRequest> = {}): ChunkRequest =>
    chunkRequest(this.memory, lines, more);
}

const log: Step = ({ storage, store }, request) =>
  logChunk(request, { storage, store, environment, requestId: `r${Math.random()}`, ...memoryWriting() });

const evaluateWith =
  (model?: (ask: Ask) => never): Step =>
  ({ storage, store }, request) =>
    evaluateChunk(request, {
      ...{ storage, store, environment, requestId: `r${Math.random()}`, ...memoryWriting() },
      judge: scriptedJudge(model).judge,
      scorers: scorersFor().filter(isJudgeScorer).slice(0, 1),
      always: () => undefined,
    });
const evaluate = evaluateWith();

describe.each([
  ['LogTraces', log],
  ['EvaluateTraces', evaluate],
])('%s', (_, step) => {
  test('keeps the predictions of what is traced: of each capture once, of no error reply and of nothing in quarantine', async () => {
    const rig = new Rig();
    const lines = [row(1), 'no json', row(2), row(3), errorReply, row(3)];
    rig.store.refuses.add(traceOf(row(2)));
    await step(rig, rig.request(lines));
    expect(await storedPredictions(rig.storage)).toEqual([
      expect.objectContaining({ traceId: traceOf(row(1)), second: Date.parse(TIME) / 1000, prediction: { value: 1 } }),
      expect.objectContaining({ traceId: traceOf(row(3)), prediction: { value: 3 } }),
    ]);
    expect(rig.store.posts).toHaveLength(3);
  });

  test('keeps them again where the traces are there already, and each counts once', async () => {
    const rig = new Rig();
    const lines = Array.from({ length: 60 }, (_, value) => row(value));
    await step(rig, rig.request(lines, { run: 'first' }));
    const keys = () => [...rig.memory.objects.keys()].filter((key) => key.startsWith(areaOf('ledger')));
    const before = keys();
    await step(rig, rig.request(lines, { run: 'second' }));
    expect(rig.store.posts).toHaveLength(60);
    expect(await rig.values()).toHaveLength(60);
    for (const key of before) rig.memory.objects.delete(key);
    expect(await rig.values()).toHaveLength(60);
  });

  test('keeps one prediction of each when it is killed and takes the lines one by one', async () => {
    const rig = new Rig();
    const lines = [1, 2, 3, 4].map(row);
    const { putJson } = rig.memory;
    rig.memory.putJson = () => Promise.reject(new Error('killed'));
    await expect(step(rig, rig.request(lines))).rejects.toThrow('killed');
    rig.memory.putJson = putJson;
    expect(await rig.values()).toEqual([1, 2, 3, 4]);
    await step(rig, rig.request(lines, { progress: { kills: 1 } }));
    expect((await rig.values()).sort()).toEqual([1, 2, 3, 4]);
  });

  test('fails when they cannot be written, and the next attempt writes them', async () => {
    const rig = new Rig();
    const { putBytes } = rig.memory;
    rig.memory.putBytes = () => Promise.reject(new RetryableError('StorageUnavailable', 'S3 failed', {}));
    await expect(step(rig, rig.request([row(1)]))).rejects.toMatchObject({ name: 'StorageUnavailable' });
    rig.memory.putBytes = putBytes;
    await step(rig, rig.request([row(1)], { attempt: 1 }));
    expect(await rig.values()).toEqual([1]);
  });
});

test('EvaluateTraces keeps them also when the judge fails', async () => {
  const rig = new Rig();
  const away = (): never => {
    throw new RetryableError('JudgeUnavailable', 'The judge is away');
  };
  const chats = [chatLine('a'), chatLine('b')];
  await expect(evaluateWith(away)(rig, rig.request(chats))).rejects.toThrow('The judge is away');
  expect(await storedPredictions(rig.storage)).toHaveLength(2);
});

test('EvaluateTraces keeps those of the traces that it only evaluates, and none without a trace', async () => {
  const rig = new Rig();
  await log(rig, rig.request([row(1)], { run: 'other' }));
  rig.memory.objects.clear();
  const request = rig.request([row(1), row(2)]);
  await evaluate(rig, { ...request, chunk: { ...request.chunk, traced: true } });
  expect(await rig.values()).toEqual([1]);
});
