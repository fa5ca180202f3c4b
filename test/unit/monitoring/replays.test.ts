/** Requests of replays among captures, and runs over the exchanges of a replay, which compare replies and count nothing else. */

import { exchangeLine, exchangeTraceId } from '../../../src/captures/trace/exchange.ts';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ExchangeFacts } from '../../../src/captures/types.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt } from '../../../src/core/contract/receipts.ts';
import { areaOf, markKeys, truthKeys } from '../../../src/core/contract/work-keys.ts';
import { CallFailure } from '../../../src/judge/errors.ts';
import { PAIRWISE_SCORER, pairwiseJudge } from '../../../src/judge/pairwise.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { ModelAnswer } from '../../../src/judge/types.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { pairReader } from '../../../src/monitoring/evaluate/reply-pair.ts';
import { Marks, registerReplay, replayInferenceId } from '../../../src/replay/marks/believe.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits, memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { captureLine, chatLine, chatReply, chatRequest, csv, json } from '../../helpers/deployed-captures.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const TIME = '2026-11-20T10:00:00Z';
const AT_MS = Date.parse(TIME);
const RUN = 'replay-1';
const environment = testEnvironment();

describe('captures that are marked as requests of replays', () => {
  const DAY_MS = 86_400_000;

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
});

describe('the exchanges of a replay', () => {
  const FILE = 'e/AllTraffic/2026/11/20/09/captured.jsonl';

  const idOf = (name: string): string => exchangeTraceId('7', RUN, name);
  const { name: SCORER } = PAIRWISE_SCORER;

  /** Prefers the new reply, in whichever order it is shown. */
  const preferNew = (text: string): ModelAnswer => {
    const isNewFirst = text.indexOf('NEW') < text.indexOf('OLD');
    return told(JSON.stringify({ [SCORER]: { rationale: 'So it is.', value: isNewFirst ? 'reply 1' : 'reply 2' } }));
  };

  class Rig {
    readonly memory = new MemoryStorage();
    readonly store = new MemoryTraces();
    readonly answers = new MemoryTable();
    readonly texts: string[] = [];
    /** Throws for a call that fails. */
    fault: (text: string) => void = () => {};
    #attempts = 0;

    /** Captures a line. @returns its place */
    captured(name: string, line = captureLine(name, TIME, json(chatRequest(name)), json(chatReply(`OLD ${name}`)))) {
      const { key, etag, size } = this.memory.put(`${FILE}-${name}`, `${line}\n`);
      return { bucket: 'b', key, etag, start: 0, end: size - 2 };
    }

    /** An exchange about a captured request. */
    exchange(name: string, captured?: ExchangeFacts['captured'], inferenceId?: string, reply?: object): string {
      const facts: ExchangeFacts = {
        ...{
          requestId: name,
          run: RUN,
          target: 'e2',
          mlflowRun: 'm',
          startMs: AT_MS,
          endMs: AT_MS + 40,
          scheduledMs: AT_MS,
        },
        ...{ status: 200, file: FILE, line: 1, captured },
      };
      const replied = json(reply ?? chatReply(`NEW ${name}`));
      const record = JSON.parse(captureLine(name, TIME, json(chatRequest(name)), replied));
      record.eventMetadata.inferenceId = inferenceId;
      return exchangeLine(facts, record);
    }

    #request(lines: readonly string[], isReplay: boolean) {
      const request = chunkRequest(this.memory, lines);
      const options = { ...request.options, ...(isReplay && { replay: { run: RUN, experimentId: '7' } }) };
      return { ...request, options };
    }

    evaluate(lines: readonly string[], isReplay = true): Promise<EvaluateReceipt> {
      const { storage } = this.memory;
      const { judge } = scriptedJudge((_, text) => {
        this.fault(text);
        this.texts.push(text);
        return preferNew(text);
      });
      const request = this.#request(lines, isReplay);
      this.#attempts += 1;
      const requestId = `r${this.#attempts}`;
      return evaluateChunk(request, {
        ...{ storage, store: this.store, environment, requestId, ...memoryWriting() },
        answers: memoryLimits(this.answers),
        judge: pairwiseJudge(judge, pairReader(storage, environment)),
        scorers: [PAIRWISE_SCORER],
        always: () => undefined,
      });
    }

    log(lines: readonly string[], isReplay = true): Promise<LogReceipt> {
      const { storage } = this.memory;
      const deps = { storage, store: this.store, environment, requestId: 'r', ...memoryWriting() };
      return logChunk(this.#request(lines, isReplay), deps);
    }

    index = () => storedPredictions(this.memory.storage);
  }

  test('an exchange is judged against the captured reply, and counts in no rate and no prediction', async () => {
    const rig = new Rig();
    const { counts, reasons, verdicts, ...receipt } = await rig.evaluate([
      rig.exchange('differs', rig.captured('differs')),
      rig.exchange('same'),
    ]);
    expect(counts).toMatchObject({ newVerdicts: 1, notJudgeable: 1, failed: 0 });
    expect(reasons).toEqual({ nothingToCompare: 1 });
    expect({ ...verdicts[SCORER] }).toEqual({ better: 1 });
    expect(rig.texts).toHaveLength(2);
    for (const text of rig.texts) expect(text).toMatch(/OLD differs[\s\S]*NEW differs|NEW differs[\s\S]*OLD differs/);
    expect(receipt).not.toHaveProperty('quality');
    expect(await rig.index()).toEqual([]);
    expect(rig.store.posts.toSorted()).toEqual([idOf('differs'), idOf('same')].toSorted());
    expect(rig.store.assessments.get(idOf('differs'))).toMatchObject([{ name: SCORER, value: 'better' }]);
  });

  test('its mark of a replay does not keep it from being judged, as it does elsewhere', async () => {
    const rig = new Rig();
    const { id } = await registerReplay(rig.memory.storage, 'work', { run: RUN, atMs: AT_MS });
    const line = rig.exchange('marked', rig.captured('marked'), replayInferenceId(id, RUN, 'e', 0));
    expect(await rig.evaluate([line])).toMatchObject({ counts: { newVerdicts: 1 }, reasons: {} });
    const elsewhere = await rig.evaluate([line], false);
    expect(elsewhere).toMatchObject({ counts: { newVerdicts: 0 }, reasons: { sentByReplay: 1 } });
  });

  test('the same lines are captures like any other where they are not those of a replay', async () => {
    const rig = new Rig();
    const line = rig.exchange('forged', rig.captured('forged'));
    const receipt = await rig.evaluate([line], false);
    expect(receipt).toMatchObject({ counts: { newVerdicts: 0 }, reasons: { nothingToCompare: 1 } });
    expect(receipt.quality).toBeDefined();
    expect(rig.texts).toEqual([]);
    expect(rig.store.posts).toEqual([traceIdOf('7', Buffer.from(line))]);
    expect(await rig.index()).toHaveLength(1);
  });

  test('without a judge, an exchange is traced, and counts in no rate and no prediction either', async () => {
    const rig = new Rig();
    const lines = [rig.exchange('a'), rig.exchange('b')];
    const receipt = await rig.log(lines);
    expect(receipt.counts).toMatchObject({ lines: 2, written: 2 });
    expect(receipt).not.toHaveProperty('quality');
    expect(await rig.index()).toEqual([]);
    expect(rig.store.posts.toSorted()).toEqual([idOf('a'), idOf('b')].toSorted());
    const other = new Rig();
    expect((await other.log(lines, false)).quality).toBeDefined();
    expect(await other.index()).toHaveLength(2);
  });

  test.each<[string, (rig: Rig) => ExchangeFacts['captured'], string]>([
    ['was overwritten', (rig) => ({ ...rig.captured('x'), etag: 'another' }), 'CaptureChanged'],
    [
      'is no message',
      (rig) => rig.captured('x', captureLine('x', TIME, csv('1,2'), csv('0.9'))),
      'CapturedReplyUnreadable',
    ],
    [
      'cannot be decoded',
      (rig) =>
        rig.captured(
          'x',
          captureLine('x', TIME, json(chatRequest('x')), { ...csv('1'), encoding: 'UNKNOWN' as 'CSV' }),
        ),
      'CapturedReplyUnreadable',
    ],
    ['is no capture', (rig) => rig.captured('x', '{"captureData":'), 'CapturedReplyUnreadable'],
  ])('a captured reply that %s costs the verdict of its exchange alone', async (_, placeOf, code) => {
    const rig = new Rig();
    const receipt = await rig.evaluate([rig.exchange('x', placeOf(rig)), rig.exchange('y', rig.captured('y'))]);
    expect(receipt.counts).toMatchObject({ newVerdicts: 1, failed: 1 });
    expect(rig.store.assessments.get(idOf('x'))).toMatchObject([{ error: { code } }]);
    expect(rig.store.assessments.get(idOf('y'))).toMatchObject([{ value: 'better' }]);
  });

  test('an attempt that follows one which got only one order’s answer asks about the other', async () => {
    const rig = new Rig();
    const line = rig.exchange('half', rig.captured('half'));
    rig.fault = (text) => {
      if (text.indexOf('NEW') < text.indexOf('OLD')) throw new CallFailure('throttled', 'slow down');
    };
    await expect(rig.evaluate([line])).rejects.toMatchObject({ name: 'JudgeThrottled' });
    expect(rig.texts).toHaveLength(1);
    rig.fault = () => {};
    const { counts, spend } = await rig.evaluate([line]);
    expect(counts).toMatchObject({ newVerdicts: 1 });
    expect(rig.texts).toHaveLength(2);
    expect(spend).toMatchObject({ calls: 1 });
    // The verdict has the cost of both.
    expect(rig.store.assessments.get(idOf('half'))).toMatchObject([
      { value: 'better', metadata: { 'mlflow.assessment.judgeInputTokens': '2000' } },
    ]);
  });

  test('exchanges whose texts are the same, but not the captured replies, are asked about one by one', async () => {
    const rig = new Rig();
    const lines = ['one', 'two'].map((name) => {
      const line = rig.exchange('twin', rig.captured(name));
      return line.replace('"requestId":"twin"', `"requestId":"${name}"`);
    });
    const { counts } = await rig.evaluate(lines);
    expect(counts).toMatchObject({ newVerdicts: 2 });
    expect(rig.texts).toHaveLength(4);
  });

  test('a reply that only calls a tool is compared, too', async () => {
    const rig = new Rig();
    const call = { type: 'function', function: { name: 'find', arguments: '{"parcel":"NEW"}' } };
    const reply = { choices: [{ message: { role: 'assistant', content: null, tool_calls: [call] } }] };
    const { counts } = await rig.evaluate([rig.exchange('tool', rig.captured('tool'), undefined, reply)]);
    expect(counts).toMatchObject({ newVerdicts: 1 });
    expect(rig.store.assessments.get(idOf('tool'))).toMatchObject([{ value: 'better' }]);
  });
});
