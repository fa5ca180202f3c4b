/** Captures that are marked as requests of replays: believed where their registration is known, and traffic otherwise. */
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt } from '../../../src/core/contract/receipts.ts';
import { areaOf, markKeys, truthKeys } from '../../../src/core/contract/work-keys.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { Marks, registerReplay, replayInferenceId } from '../../../src/replay/marks/believe.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const TIME = '2026-11-20T10:00:00Z';
const AT_MS = Date.parse(TIME);
const DAY_MS = 86_400_000;
const RUN = 'replay-1';
const environment = testEnvironment();
const scorers = scorersFor().slice(0, 3);

/** A captured request with an inference id. */
const lineOf = (name: string, inferenceId: string | undefined, timeMs = AT_MS, more: object = {}): string => {
  const record = JSON.parse(chatLine(name, new Date(timeMs).toISOString().replace('.000', '')));
  Object.assign(record.eventMetadata, { inferenceId, ...more });
  return JSON.stringify(record);
};

class Rig {
  readonly memory = new MemoryStorage();
  readonly store = new MemoryTraces();
  readonly judge = scriptedJudge();
  readonly #tags: Record<string, string>[] = [];

  constructor() {
    const { writeTraces } = this.store;
    this.store.writeTraces = (experiment, traces, ...more) => {
      this.#tags.push(...traces.map(({ tags }) => tags));
      return writeTraces(experiment, traces, ...more);
    };
  }

  async mark(atMs = AT_MS): Promise<string> {
    return (await registerReplay(this.memory.storage, 'work', { run: RUN, atMs })).id;
  }

  log(lines: readonly string[]): Promise<LogReceipt> {
    const { storage } = this.memory;
    return logChunk(chunkRequest(this.memory, lines), {
      storage,
      store: this.store,
      environment,
      requestId: 'r',
      ...memoryWriting(),
    });
  }

  evaluate(lines: readonly string[], more: Partial<ChunkRequest> = {}): Promise<EvaluateReceipt> {
    const { storage } = this.memory;
    return evaluateChunk(chunkRequest(this.memory, lines, more), {
      ...{ storage, store: this.store, environment, requestId: 'r', ...memoryWriting() },
      judge: this.judge.judge,
      scorers,
      always: () => undefined,
    });
  }

  tags = (): Record<string, string>[] => this.#tags;
}

const believed = { replay_run: RUN, sent_by_replay: 'true' };

test('a request of a registered replay is traced with its run, and neither judged nor counted nor indexed', async () => {
  const rig = new Rig();
  const id = await rig.mark();
  const lines = [lineOf('one', replayInferenceId(id, RUN, 'e', 0)), lineOf('two', undefined)];
  const receipt = await rig.evaluate(lines);
  expect(receipt.log?.counts.traced).toBe(2);
  expect(receipt.reasons).toMatchObject({ sentByReplay: scorers.length });
  expect(receipt.counts.notJudgeable).toBeGreaterThanOrEqual(scorers.length);
  const [cell] = Object.values(Object.values(receipt.quality ?? {})[0] ?? {});
  expect(cell).toMatchObject({ captures: 1 });
  expect(rig.tags()).toEqual([expect.objectContaining(believed), expect.not.objectContaining(believed)]);
  expect(await storedPredictions(rig.memory.storage)).toHaveLength(1);
  const judged = Object.values(receipt.verdicts).flatMap((values) => Object.values(values));
  expect(Math.max(...judged)).toBe(1);
});

test('the same where nothing is judged', async () => {
  const rig = new Rig();
  const id = await rig.mark();
  const receipt = await rig.log([lineOf('one', replayInferenceId(id, RUN, 'e', 0))]);
  expect(receipt.counts).toMatchObject({ traced: 1, written: 1 });
  expect(receipt.quality).toBeUndefined();
  expect(rig.tags()).toEqual([expect.objectContaining(believed)]);
  expect([...rig.memory.objects.keys()].some((key) => key.startsWith(truthKeys.prefix))).toBe(false);
});

test.each<[string, (id: string) => string]>([
  ['an id that was not registered', () => lineOf('a', replayInferenceId('0123456789abcdef', RUN, 'e', 0))],
  ['the id of a replay that was not registered', () => lineOf('a', replayInferenceId('', RUN, 'e', 0))],
  [
    'the attribute of a replay',
    () => lineOf('a', 'own', AT_MS, { customAttributes: [`replay_run=${RUN};event_id=e`] }),
  ],
  ['a registered id in upper case', (id) => lineOf('a', replayInferenceId(id, RUN, 'e', 0).toUpperCase())],
  ['a registered id with more after it', (id) => lineOf('a', `${replayInferenceId(id, RUN, 'e', 0)}0`)],
  ['a registered id a day later', (id) => lineOf('a', replayInferenceId(id, RUN, 'e', 0), AT_MS + DAY_MS + 1000)],
])('%s is traffic', async (_, line) => {
  const rig = new Rig();
  const receipt = await rig.evaluate([line(await rig.mark())]);
  expect(receipt.reasons).not.toHaveProperty('sentByReplay');
  expect(receipt.quality).toBeDefined();
  expect(Object.keys(receipt.verdicts).length).toBeGreaterThan(0);
  expect(rig.tags()[0]).not.toHaveProperty('sent_by_replay');
  expect(await storedPredictions(rig.memory.storage)).toHaveLength(1);
});

test('a mark is believed for a day by the time of the capture, however late it is read', async () => {
  const rig = new Rig();
  const id = await rig.mark();
  await rig.evaluate([lineOf('a', replayInferenceId(id, RUN, 'e', 0), AT_MS + DAY_MS)]);
  expect(rig.tags()[0]).toMatchObject(believed);
});

test('invented ids cost ten look-ups at most, and requests beyond them count as traffic', async () => {
  const rig = new Rig();
  const asked: string[] = [];
  const { getJson } = rig.memory;
  rig.memory.getJson = (bucket: string, key: string) => {
    if (key.startsWith(areaOf('replayMarks'))) asked.push(key);
    return getJson.call(rig.memory, bucket, key) as never;
  };
  const madeUp = Array.from({ length: 30 }, (_, i) =>
    lineOf(`m${i}`, replayInferenceId(String(i).padStart(16, '0'), RUN, 'e', 0)),
  );
  const own = lineOf('own', replayInferenceId(await rig.mark(), RUN, 'e', 0));
  await rig.log([...madeUp, own, ...madeUp.map((line) => line.replace(TIME, '2026-11-20T10:00:01Z'))]);
  expect(asked).toHaveLength(10);
  expect(rig.tags().some((tags) => 'sent_by_replay' in tags)).toBe(false);
});

test.each(['null', '{}', '[]', '{"run":"replay-1","atMs":"soon"}'])(
  'a registration that is %s is none',
  async (text) => {
    const rig = new Rig();
    const id = await rig.mark();
    await rig.memory.storage.putText('work', markKeys.mark(id), text);
    const receipt = await rig.log([lineOf('a', replayInferenceId(id, RUN, 'e', 0))]);
    expect(receipt.counts).toMatchObject({ traced: 1, written: 1 });
    expect(rig.tags()[0]).not.toHaveProperty('sent_by_replay');
  },
);

test('failed look-ups are not repeated for each capture', async () => {
  const rig = new Rig();
  const id = await rig.mark();
  const getJson = jest.fn(async () => Promise.reject(new Error('denied')));
  const marks = new Marks(Object.assign(rig.memory.storage, { getJson }), 'work');
  const request = { capturedInferenceId: replayInferenceId(id, RUN, 'e', 0), inferenceTimeMs: AT_MS };
  for (let i = 0; i < 3; i += 1) await expect(marks.runOf(request)).rejects.toThrow('denied');
  expect(getJson).toHaveBeenCalledTimes(1);
});
