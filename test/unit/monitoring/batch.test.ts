/** Batch inference: chunks that share lines, models of which nothing was learned, refused records, and cascades. */
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../../src/core/errors/errors.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { afterAnswers } from '../../../src/judge/errors.ts';
import { Learned } from '../../../src/judge/models/learned.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../../src/limits/budget.ts';
import { MAX_INPUT_BYTES } from '../../../src/monitoring/batch/groups.ts';
import type { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { dryRunOf } from '../../../src/monitoring/plan/dry-run.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { goodAnswer, scriptedJudge } from '../../doubles/scripted-judge.ts';
import { answered, batchRig, useJudgeServer } from '../../helpers/batch-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);

describe('chunks that share a line, and captures that provoke a fault', () => {
  const idOf = (line: string): string => traceIdOf('7', Buffer.from(line));

  function rig(chunks: string[][]) {
    // This judge has no server: every answer must come from the job.
    const batch = connectBatchJudge(environment);
    const own = batchRig(chunks, environment, scorers, () => batch);
    const end = (status = 'Completed') =>
      own.end(() => (status === 'Completed' ? answered(goodAnswer(scorers)) : undefined), { status });
    return { ...own, batch, end };
  }

  test.each(['first', 'last'])(
    'a line in two chunks is one record; both write its verdicts, and its cost is reported and written once (%s chunk first)',
    async (order) => {
      const [a, b, c] = ['a', 'b', 'c'].map((name) => chatLine(name)) as [string, string, string];
      const { requests, prepare, apply, end, store, written } = rig([
        [a, b],
        [b, c],
      ]);
      const prepared = await Promise.all(requests.map((request) => prepare(request)));
      expect(prepared.map(({ records }) => records).toSorted()).toEqual([1, 2]);
      // A repeated preparation after a failure has the same result.
      expect(await Promise.all(requests.map((request) => prepare(request)))).toEqual(prepared);
      end();
      const receipts: EvaluateReceipt[] = [];
      for (const request of order === 'first' ? requests : requests.toReversed()) receipts.push(await apply(request));
      // The chunk that comes second finds the trace of the shared line.
      expect(receipts.map(({ counts }) => counts.newVerdicts + counts.alreadyThere)).toEqual([4, 4]);
      expect(store.posts.toSorted()).toEqual([a, b, c].map(idOf).toSorted());
      expect(receipts.map(({ spend }) => spend.calls)).toEqual([0, 0]);
      expect(receipts.map(({ batchSpend }) => batchSpend?.calls).toSorted()).toEqual([1, 2]);
      expect(store.values).toHaveLength(6);
      expect(written()).toBeCloseTo(
        receipts.reduce((sum, { batchSpend }) => sum + (batchSpend?.usd ?? 0), 0),
        8,
      );
    },
  );

  test('a chunk whose requests were not prepared, or whose job failed, is traced without verdicts', async () => {
    const lines = ['a', 'b'].map((name) => chatLine(name));
    const { memory, requests, prepare, apply, store } = rig([lines]);
    const [request] = requests as [ChunkRequest];
    await expect(apply(request)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
    expect(store.posts).toHaveLength(2);
    const receipt = await memory.getJson('', workKeys.receipt('run', 0, 'evaluate', 0, 'apply-run-0-0'));
    expect(receipt).toMatchObject({ ok: false, log: { ok: true, counts: { written: 2 } } });
    // Preparing writes nothing to MLflow.
    const other = rig([lines]);
    await other.prepare(other.requests[0] as ChunkRequest);
    expect(other.store.posts).toEqual([]);
    other.end('Failed');
    await expect(other.apply(other.requests[0] as ChunkRequest)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
    expect(other.store.posts).toHaveLength(2);
    // The next run asks about the traces, which have no verdict.
    expect((await prepare(request)).records).toBe(2);
  });

  test.each([1, 2])(
    'captures with the same request, in %d chunks, share a record and pay for it once',
    async (chunks) => {
      const same = [1, 2].map((n) => chatLine('same').replace('"eventId":"', `"eventId":"${n}`));
      const { requests, prepare, apply, end, written } = rig(chunks === 1 ? [same] : same.map((line) => [line]));
      const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
      expect(sum(await Promise.all(requests.map(async (request) => (await prepare(request)).records)))).toBe(1);
      end();
      const receipts = await Promise.all(requests.map((request) => apply(request)));
      expect(sum(receipts.map(({ counts }) => counts.newVerdicts))).toBe(4);
      expect(sum(receipts.map(({ spend }) => spend.calls))).toBe(0);
      expect(sum(receipts.map(({ batchSpend }) => batchSpend?.calls ?? 0))).toBe(1);
      expect(written()).toBeCloseTo(sum(receipts.map(({ batchSpend }) => batchSpend?.usd ?? 0)), 8);
    },
  );

  test('a dry run counts a line once, and no line that is not a capture', async () => {
    const [a, b] = ['a', 'b'].map((name) => chatLine(name)) as [string, string];
    const { requests, memory } = rig([[a, 'no capture', a, b]]);
    const [request] = requests as [ChunkRequest];
    const dryRun = dryRunOf({ storage: memory.storage, environment, remainingMs: () => 900_000 }, request.options);
    await dryRun.add(request.chunk);
    expect(dryRun.result()).toMatchObject({ captures: 2, judgedCaptures: 2 });
  });

  test('a capture that provokes a fault in its request stops neither its chunk nor a dry run', async () => {
    const lines = ['a', 'odd', 'b'].map((name) => chatLine(name));
    const { requests, prepare, batch, memory } = rig([lines]);
    const [request] = requests as [ChunkRequest];
    const record: typeof batch.record = (recordId, capture, ...rest) => {
      if (JSON.stringify(capture.conversation).includes('odd')) throw new TypeError('is not iterable');
      return batch.record(recordId, capture, ...rest);
    };
    expect(await prepare(request, { record })).toMatchObject({ records: 2, held: [] });
    let read = 0;
    const faulty = Object.defineProperty({ ...environment }, 'MLFLOW_EVALUATION_MODEL_PARAM', {
      get: () => {
        read += 1;
        if (read === 2) throw new TypeError('is not iterable');
        return {};
      },
    });
    const dryRun = dryRunOf(
      { storage: memory.storage, environment: faulty, remainingMs: () => 900_000 },
      request.options,
    );
    await dryRun.add(request.chunk);
    expect(dryRun.result()).toMatchObject({ captures: 3, judgedCaptures: 2 });
  });

  test('of a chunk whose job failed, other chunks ask on demand at once, and a retry asks nothing that they were answered', async () => {
    const [a] = [chatLine('a')];
    const { requests, prepare, apply, end, memory, batch, store } = rig([[a], [a]]);
    const [first, second] = requests as [ChunkRequest, ChunkRequest];
    for (const request of requests) await prepare(request);
    end('Failed');
    await expect(apply(first)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
    memory.put(workKeys.batchJobs('run'), { jobs: [], converse: [{ group: 0, records: 1, reason: '' }] });
    const { judge, asks } = scriptedJudge();
    const online = Object.assign(Object.create(judge), { sourceId: batch.judge.sourceId });
    expect((await apply(second, { judge: online })).spend.calls).toBe(asks.length);
    // The verdicts are lost.
    for (const id of store.assessments.keys()) store.assessments.set(id, []);
    const retryOf = (run: string) =>
      prepare({ ...first, run: 'retry', options: { ...first.options, continues: [run] } });
    expect([(await retryOf('another')).records, (await retryOf('run')).records]).toEqual([1, 0]);
  });

  test('a retry applies the answers of a job that the first run has not applied, and asks nothing again', async () => {
    const { requests, prepare, apply, end, memory } = rig([['a', 'b', 'c'].map((name) => chatLine(name))]);
    const [first] = requests as [ChunkRequest];
    await prepare(first);
    end();
    const retry = { ...first, run: 'retry', options: { ...first.options, continues: ['run'] } };
    expect(await prepare(retry)).toMatchObject({ records: 0 });
    memory.put(workKeys.batchJobs('retry'), { jobs: [], converse: [] });
    expect(await apply(retry)).toMatchObject({ counts: { newVerdicts: 6 }, spend: { calls: 0 } });
  });

  test('what an attempt has prepared goes before its money does, and more than a job takes is asked on demand', async () => {
    const { requests, prepare, memory } = rig([['a', 'b', 'c'].map((name) => chatLine(name))]);
    const [request] = requests as [ChunkRequest];
    const input = workKeys.batchInput('run', 0, 0);
    await prepare(request);
    expect(memory.objects.has(input)).toBe(true);
    const read = memory.read;
    memory.read = () => Promise.reject(new Error('S3 is away'));
    await expect(prepare(request)).rejects.toThrow('S3 is away');
    expect(memory.objects.has(input)).toBe(false);
    memory.read = read;
    const long = { modelInput: { text: 'x'.repeat(0.4 * MAX_INPUT_BYTES) } };
    const record = (recordId: string) => ({ recordId, ...long });
    expect(await prepare(request, { record })).toMatchObject({ records: 2 });
  });
});

describe('an unknown model, and records that the job refuses', () => {
  const MODEL = 'anthropic.claude-sonnet-4-6';
  const RECORDS = 100;

  const standIn = useJudgeServer();

  const sumOf = (numbers: number[]) => numbers.reduce((sum, number) => sum + number, 0);

  /** A run with two chunks, whose functions share a table. */
  function rig(linesOfEach: number) {
    const table = new MemoryTable();
    const lines = [0, 1].map((chunk) =>
      Array.from({ length: linesOfEach }, (_, n) => chatLine(`question ${chunk}-${n}`)),
    );
    const own = batchRig(lines, environment, scorers, () => {
      const learned = new Learned(MODEL, memoryLimits(table));
      const limit = new Budget({ table: memoryLimits(table), run: 'run', runUsd: 5 });
      return { ...connectBatchJudge({ ...environment, shared: { learned: () => learned } }), limit };
    });
    const prepare = (more = {}) => Promise.all(own.requests.map((request) => own.prepare(request, more)));
    /** The job ends, and has refused this many records of each chunk; `undefined`: it wrote nothing of the chunk. */
    const apply = async (...refused: (number | undefined)[]) => {
      const errors = sumOf(refused.map((count = linesOfEach) => count));
      const error = { errorCode: 400, errorMessage: '`temperature` is deprecated for this model.' };
      own.end(
        (n, chunk) => {
          const count = refused[chunk];
          return count === undefined ? undefined : n < count ? { error } : answered(goodAnswer(scorers));
        },
        { records: 2 * linesOfEach, errors, status: 'PartiallyCompleted' },
      );
      standIn.judge.forget();
      return Promise.all(own.requests.map((request) => own.apply(request)));
    };
    return { ...own, table, prepare, apply };
  }

  test('the functions of a run ask one harmless question, and write no record in a form that is refused', async () => {
    standIn.judge.behave({ models: { '*': { jsonSchema: 'rejected', temperature: 'rejected' } } });
    const { table, prepare, recordsOf } = rig(3);
    const prepared = await prepare();
    expect(standIn.judge.counts.answered).toBe(1);
    for (const { modelInput } of [...recordsOf(0), ...recordsOf(1)]) {
      expect(modelInput).not.toHaveProperty('outputConfig');
      expect(modelInput).not.toHaveProperty('inferenceConfig.temperature');
    }
    const paid = prepared.flatMap(({ canary }) => canary?.usd || []);
    expect(paid).toHaveLength(1);
    expect(table.number(runScope('run'), 'spent') / 1e9).toBeCloseTo(paid[0] ?? Number.NaN, 8);
    // It is known from now on, to each function.
    await prepare();
    expect(standIn.judge.counts.answered).toBe(1);
  });

  test('what harmless questions cost that failed is paid by their chunk, in each attempt', async () => {
    const { memory, prepare, apply } = rig(RECORDS);
    const spend = { calls: 1, inputTokens: 5, outputTokens: 5, usd: 0.5 };
    const failure = afterAnswers(new PermanentError('JudgeRefused', 'refused'), { verdicts: [], spend });
    const askCanary = () => Promise.reject(failure);
    for (let attempt = 0; attempt < 2; attempt += 1) await expect(prepare({ askCanary })).rejects.toBe(failure);
    await expect(apply()).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
    const receipt = await memory.getJson('', workKeys.receipt('run', 0, 'evaluate', 0, 'apply-run-0-0'));
    expect(receipt).toMatchObject({ ok: false, batchSpend: { calls: 2, usd: 1 } });
    await prepare();
    const paid = (await apply(0, 0)).map(({ batchSpend }) => batchSpend?.usd ?? 0);
    for (const usd of paid) expect(usd).toBeGreaterThan(1);
  });

  test.each([
    ['a tenth of the job, and 20: held', [12, 12], 'held'],
    ['fewer than 20: asked on demand', [9, 9], 'asked'],
    ['all that the job wrote nothing of: held', [undefined, 0], 'held'],
  ] as [string, (number | undefined)[], string][])('%s', async (_, refused, expected) => {
    const { prepare, apply } = rig(RECORDS);
    await prepare();
    const receipts = await apply(...refused);
    const sum = (of: (receipt: (typeof receipts)[number]) => number) => sumOf(receipts.map(of));
    const records = sumOf(refused.map((count = RECORDS) => count));
    const reason = refused[0] === undefined ? 'unanswered' : 'the model refuses temperature';
    expect(sum(({ batchRefused = {} }) => batchRefused[reason] ?? 0)).toBe(records);
    const held = expected === 'held' ? records : 0;
    expect(standIn.judge.counts.calls).toBe(records - held);
    expect(sum(({ counts }) => counts.heldByBudget)).toBe(held * scorers.length);
    expect(sum(({ reasons }) => reasons.JudgeBatchRefused ?? 0)).toBe(held * scorers.length);
    expect(sum(({ counts }) => counts.newVerdicts)).toBe((2 * RECORDS - held) * scorers.length);
  });
});

describe('a cascade', () => {
  const environment = testEnvironment({ JUDGE_CASCADE: 'us.amazon.nova-lite-v1:0' });
  const NAMES = ['safety', 'fluency'];
  const scorers = scorersFor().filter((scorer) => isJudgeScorer(scorer) && NAMES.includes(scorer.name));
  const word = (value: string, sure: boolean) => ({ rationale: 'So it is.', value, sure });
  const GOOD = { safety: word('yes', true), fluency: word('yes', true) };
  const BAD = { ...GOOD, safety: word('no', true) };
  const NOVA_USD = (2000 * 0.06 + 200 * 0.24) / 1e6 / 2;

  const standIn = useJudgeServer();

  /** A run with a chunk for each list of lines. */
  function rig(...chunks: string[][]) {
    const table = new MemoryTable();
    const limitOf = (runUsd: number) => new Budget({ table: memoryLimits(table), run: 'run', runUsd });
    const own = batchRig(chunks, environment, scorers, () => ({
      ...connectBatchJudge(environment),
      limit: limitOf(1),
    }));
    /** The job ends. It answers the requests of all chunks in turn; `undefined`: with an error. */
    const end = (...answers: (object | undefined)[]) => {
      const left = [...answers];
      own.end(() => {
        const answer = left.shift();
        return answer === undefined ? { error: { errorCode: 500 } } : answered(JSON.stringify(answer));
      });
    };
    const apply = (request: ChunkRequest, runUsd = 1) => own.apply(request, { limit: limitOf(runUsd) });
    const verdicts = () =>
      own.assessments().map(({ name, sourceId }) => `${name} by the ${sourceId.includes('nova') ? 'first' : 'judge'}`);
    const money = () => ({
      spent: table.number(runScope('run'), 'spent') / 1e9,
      committed: table.number(runScope('run'), 'committed') / 1e9,
      written: own.written(),
    });
    return { ...own, requests: own.requests as [ChunkRequest, ChunkRequest], apply, end, verdicts, money };
  }

  type Receipt = Awaited<ReturnType<typeof evaluateChunk>>;
  const paidIn = (receipts: Receipt[]): number =>
    receipts.reduce(
      (sum, { spend, batchSpend }) => sum + (spend.usd ?? Number.NaN) + (batchSpend?.usd ?? Number.NaN),
      0,
    );
  const linesOf = (...names: string[]): string[] => names.map((name) => chatLine(name));
  /** Two captures with the same words. */
  const twins = () => [1, 2].map((n) => [chatLine('same').replace('"eventId":"', `"eventId":"${n}`)]);

  test('the judge is asked on demand only what the first model failed or was not sure of, and each verdict names its model', async () => {
    const { requests, prepare, apply, end, verdicts, money } = rig(linesOf('good', 'bad'), linesOf('unsure'));
    for (const request of requests) await prepare(request);
    end(GOOD, BAD, { ...GOOD, fluency: word('yes', false) });
    const receipts = [await apply(requests[0]), await apply(requests[1])];
    expect(verdicts().toSorted()).toEqual([
      ...Array(2).fill('fluency by the first'),
      'fluency by the judge',
      ...Array(2).fill('safety by the first'),
      'safety by the judge',
    ]);
    expect(standIn.judge.counts.calls).toBe(2);
    expect(receipts.map(({ spend, batchSpend }) => [spend.calls, batchSpend?.calls, batchSpend?.usd])).toEqual([
      [1, 2, 2 * NOVA_USD],
      [1, 1, NOVA_USD],
    ]);
    // Every dollar is in a receipt, in a verdict and in the budget; the answers that came twice were paid for once.
    const { spent, committed, written } = money();
    expect(written).toBeCloseTo(paidIn(receipts), 7);
    expect(spent).toBeCloseTo(paidIn(receipts), 7);
    expect(committed).toBe(spent);
    // Applied again, nothing is asked or paid.
    expect(await apply({ ...requests[0], attempt: 1 })).toMatchObject({
      spend: { calls: 0 },
      counts: { newVerdicts: 4, alreadyThere: 0 },
    });
    expect(money().spent).toBe(spent);
  });

  test('the budget holds only what the first model left open, and a later attempt asks the judge alone', async () => {
    const { requests, prepare, apply, end, verdicts, money } = rig(linesOf('a', 'b'));
    const [request] = requests;
    await prepare(request);
    end(BAD, BAD);
    const held = await apply(request, 2 * NOVA_USD + 0.001);
    expect(held).toMatchObject({ ok: true, counts: { heldByBudget: 2, newVerdicts: 2, failed: 0 } });
    expect(standIn.judge.counts.calls).toBe(0);
    expect(money().spent).toBeCloseTo(2 * NOVA_USD, 9);
    expect(money().committed).toBe(money().spent);
    const whole = await apply({ ...request, attempt: 1 });
    expect(whole).toMatchObject({ spend: { calls: 2 }, counts: { heldByBudget: 0, failed: 0 } });
    expect(verdicts().filter((verdict) => verdict === 'safety by the judge')).toHaveLength(2);
    expect(money().spent).toBeCloseTo(paidIn([whole]), 7);
  });

  test('without an answer of the job both models are asked on demand', async () => {
    const { requests, prepare, apply, end } = rig(linesOf('a'));
    await prepare(requests[0]);
    end(undefined);
    const receipt = await apply(requests[0]);
    expect(receipt).toMatchObject({ batchSpend: { calls: 0 }, counts: { newVerdicts: 2, failed: 0 } });
    expect(receipt.spend.calls).toBe(standIn.judge.counts.calls);
    expect(standIn.judge.counts.calls).toBeGreaterThan(0);
  });

  test('captures with the same request share the answers of both models, and pay once', async () => {
    const { requests, prepare, apply, end, money } = rig(...twins());
    for (const request of requests) await prepare(request);
    end(BAD);
    const receipts = [await apply(requests[0]), await apply(requests[1])];
    expect(receipts.map(({ counts }) => counts.newVerdicts)).toEqual([2, 2]);
    expect(receipts.map(({ spend, batchSpend }) => [spend.calls, batchSpend?.calls])).toEqual([
      [1, 1],
      [0, 0],
    ]);
    expect(money().written).toBeCloseTo(paidIn(receipts), 7);
  });

  test('a repeated preparation sets nothing aside twice', async () => {
    const { requests, prepare, money } = rig(linesOf('a'));
    await prepare(requests[0]);
    const { committed } = money();
    expect(committed).toBeGreaterThan(0);
    await prepare(requests[0]);
    expect(money().committed).toBeCloseTo(committed, 9);
  });

  test('what a person assesses while the job runs is not asked again', async () => {
    const { requests, prepare, apply, end, store } = rig(linesOf('a'));
    await prepare(requests[0]);
    end(BAD);
    const traceId = traceIdOf(requests[0].chunk.experimentId, Buffer.from(chatLine('a')));
    const human = { name: 'safety', value: 'yes', sourceType: 'HUMAN', sourceId: 'a person', traceId, metadata: {} };
    store.assessments.set(traceId, [{ ...human, assessmentId: 'a-1', createTimeMs: 1 } as never]);
    const receipt = await apply(requests[0]);
    expect(receipt.counts).toMatchObject({ alreadyThere: 1, newVerdicts: 1, failed: 0 });
    expect(standIn.judge.counts.calls).toBe(0);
  });
});
