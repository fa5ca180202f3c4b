/** A cascade in batch inference: the second round of jobs asks the judge itself what the first round leaves open. */
import type { ChunkRequest } from '../../../src/contract/payloads.ts';
import { workKeys } from '../../../src/contract/work-keys.ts';
import { BudgetTable } from '../../../src/gate/table.ts';
import { createBudget, runScope } from '../../../src/judge/budget/leased-budget.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { JUDGE_COST } from '../../../src/mlflow/assessment-metadata.ts';
import { batchAnswers, leftAfterFirst } from '../../../src/monitoring/batch/answers.ts';
import { prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { AskClaims } from '../../../src/monitoring/evaluate/ask-claims.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const FIRST = 'us.amazon.nova-lite-v1:0';
const environment = testEnvironment({ JUDGE_CASCADE: FIRST });
const NAMES = ['safety', 'fluency'];
const scorers = scorersFor().filter((scorer) => isJudgeScorer(scorer) && NAMES.includes(scorer.name));
const word = (value: string, sure?: boolean) => ({
  rationale: 'So it is.',
  value,
  ...(sure === undefined ? {} : { sure }),
});
const GOOD = { safety: word('yes', true), fluency: word('yes', true) };
const USAGE = { inputTokens: 2000, outputTokens: 200, totalTokens: 2200 };

/** A run with a chunk for each list of lines, whose judges have no server: every answer must come from a job. */
function rig(chunks: string[][], runUsd = 1) {
  const memory = new MemoryStorage();
  const { storage } = memory;
  const store = new MemoryTraces();
  const table = new MemoryTable();
  const requests = chunks.map((lines, chunk): ChunkRequest => {
    const request = chunkRequest(memory, lines, {}, chunk);
    return { ...request, options: { ...request.options, judge: 'batch' } };
  });
  const { again, ...batch } = connectBatchJudge(environment);
  const limitOf = (usd = runUsd) => createBudget({ client: table.client, table: 'table', run: 'run', runUsd: usd });
  const deps = { storage, store, scorers, environment, always: () => undefined };
  const prepare = (round: number, of = requests, usd?: number) =>
    Promise.all(
      of.map((one) => {
        const request: ChunkRequest = { ...one, phase: 'prepare', round };
        const limit = limitOf(usd);
        const { chunk } = one.chunk;
        const name = workKeys.batchRound('run', round);
        const claims = new AskClaims(new BudgetTable(table.client, 'table'), 'batch', name, { chunk, untilMs: 0 });
        const openLeft = () => leftAfterFirst(request, { storage, workBucket: 'work', limit, ...batch });
        const later = round > 0 ? { ...again, openLeft } : {};
        return prepareChunk(request, { ...deps, ...batch, ...later, requestId: `p${round}-${chunk}`, limit, claims });
      }),
    );
  const apply = (one: ChunkRequest, round = 1) => {
    const request: ChunkRequest = { ...one, phase: 'apply', round, write: true };
    const limit = limitOf();
    const openBatch = () =>
      batchAnswers(request, { storage, workBucket: 'work', limit, ...batch, ...(again && { again }) });
    const requestId = `a${one.chunk.chunk}`;
    return evaluateChunk(request, { ...deps, ...batch, limit, requestId, remainingMs: () => 900_000, openBatch });
  };
  /** The job of a round ends. It answers the requests of all chunks in turn. */
  const end = async (round: number, answers: (object | undefined)[], status = 'Completed') => {
    const name = workKeys.batchRound('run', round);
    const texts = requests.map(({ chunk }) => memory.objects.get(workKeys.batchRequests(name, chunk.chunk)) ?? '');
    const records = texts.join('').split('\n').filter(Boolean);
    const lines = records.map((line, n) => {
      const { recordId } = JSON.parse(line) as { recordId: string };
      const answer = answers[n];
      const message = { role: 'assistant', content: [{ text: JSON.stringify(answer) }] };
      const modelOutput = { output: { message }, stopReason: 'end_turn', usage: USAGE };
      return JSON.stringify(answer === undefined ? { recordId, error: { errorCode: 500 } } : { recordId, modelOutput });
    });
    // The service may deliver a line twice.
    if (status === 'Completed') memory.put(workKeys.batchOutput(name, 'job', 0), [...lines, ...lines].join('\n'));
    const job = { arn: 'arn:aws:bedrock:us-east-1:1:model-invocation-job/job', group: 0, records: lines.length };
    memory.put(workKeys.batchJobs(name), { jobs: [{ ...job, status, files: [0] }], converse: [] });
    return records;
  };
  const verdicts = () =>
    [...store.assessments.values()]
      .flat()
      .map(({ name, value, sourceId }) => [name, value, sourceId.includes('nova') ? 'first' : 'main']);
  const costs = () =>
    [...store.assessments.values()].flat().reduce((sum, { metadata }) => sum + Number(metadata[JUDGE_COST]), 0);
  const money = () => ({
    spent: table.number(runScope('run'), 'spent') / 1e9,
    committed: table.number(runScope('run'), 'committed') / 1e9,
  });
  return { memory, store, table, requests, prepare, apply, end, verdicts, costs, money };
}

const linesOf = (...names: string[]): string[] => names.map((name) => chatLine(name));
const one = ({ requests }: { requests: ChunkRequest[] }): ChunkRequest => requests[0] as ChunkRequest;

test('the second round asks only what the first failed or was not sure of, and every verdict names its model', async () => {
  const run = rig([linesOf('good', 'bad'), linesOf('unsure')]);
  await run.prepare(0);
  await run.end(0, [GOOD, { ...GOOD, safety: word('no', true) }, { ...GOOD, fluency: word('yes', false) }]);
  const prepared = await run.prepare(1);
  expect(prepared.map(({ records }) => records)).toEqual([1, 1]);
  const asked = await run.end(1, [{ safety: word('no') }, { fluency: word('yes') }]);
  expect(asked.map((line) => NAMES.filter((name) => line.includes(`\\"${name}\\"`)))).toEqual([
    ['safety'],
    ['fluency'],
  ]);
  const receipts = await Promise.all(run.requests.map((request) => run.apply(request)));
  expect(run.verdicts().toSorted()).toEqual(
    [
      ['safety', 'yes', 'first'],
      ['fluency', 'yes', 'first'],
      ['safety', 'no', 'main'],
      ['fluency', 'yes', 'first'],
      ['safety', 'yes', 'first'],
      ['fluency', 'yes', 'main'],
    ].toSorted(),
  );
  // Every dollar is in a receipt and in a verdict; the answers that came twice were paid for once.
  expect(receipts.map(({ spend, batchSpend }) => [spend.calls, batchSpend?.calls])).toEqual([
    [0, 3],
    [0, 2],
  ]);
  const paid = receipts.reduce((sum, { batchSpend }) => sum + (batchSpend?.usd ?? Number.NaN), 0);
  const nova = (2000 * 0.06 + 200 * 0.24) / 1e6 / 2;
  const sonnet = (2000 * 3 + 200 * 15) / 1e6 / 2;
  expect(paid).toBeCloseTo(3 * nova + 2 * sonnet, 9);
  expect(run.costs()).toBeCloseTo(paid, 9);
  expect(run.money().spent).toBeCloseTo(paid, 7);
  expect(run.money().committed).toBe(run.money().spent);
});

test('the money of the second round is set aside before, and the rest of the first given back', async () => {
  const run = rig([linesOf('bad')]);
  await run.prepare(0);
  await run.end(0, [{}]);
  const first = run.money();
  await run.prepare(1);
  const nova = (2000 * 0.06 + 200 * 0.24) / 1e6 / 2;
  expect(run.money().spent).toBeCloseTo(nova, 7);
  expect(run.money().committed).toBeGreaterThan(first.committed);
  const { committed } = run.money();
  // A function that was killed between its two writes is repeated: nothing is set aside twice.
  const before = run.memory.objects.get(workKeys.batchRequests(workKeys.batchRound('run', 1), 0));
  const [again] = await run.prepare(1);
  expect(again?.records).toBe(1);
  expect(run.money().committed).toBeCloseTo(committed, 9);
  expect(JSON.parse(String(before)).recordId).toBe(again?.ids[0]);
});

test.each([
  // More than are judged at the same time.
  ['Failed', 150],
  ['Refused', 2],
  ['Expired', 2],
])(
  'when the job of the second round ended as %s, what the first model decided stands for every capture',
  async (status, captures) => {
    const run = rig([linesOf(...Array.from({ length: captures }, (_, n) => `${n}`))]);
    await run.prepare(0);
    const bad = { ...GOOD, safety: word('no', true) };
    await run.end(0, [bad, ...Array(captures - 2).fill(GOOD), bad]);
    await run.prepare(1);
    await run.end(1, [undefined, undefined], status);
    await expect(run.apply(one(run))).rejects.toMatchObject({
      name: status === 'Refused' ? 'JudgeBatchRefused' : 'JudgeBatchFailed',
    });
    expect(run.store.posts).toHaveLength(captures);
    expect(run.verdicts()).toHaveLength(2 * captures - 2);
    expect(run.verdicts().filter(([name]) => name === 'fluency')).toHaveLength(captures);
    expect(run.money().committed).toBe(run.money().spent);
  },
);

test('when the second round was not prepared, or its jobs were not started, captures are traced with what was decided', async () => {
  for (const prepared of [false, true]) {
    const run = rig([linesOf('a', 'b')]);
    await run.prepare(0);
    await run.end(0, [GOOD, { ...GOOD, safety: word('no', true) }]);
    if (prepared) await run.prepare(1);
    await expect(run.apply(one(run))).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
    expect(run.store.posts).toHaveLength(2);
    expect(run.verdicts()).toHaveLength(3);
    expect(run.money().committed).toBe(run.money().spent);
  }
});

test('without an answer of the first round nothing is asked in the second', async () => {
  const run = rig([linesOf('a')]);
  await run.prepare(0);
  await run.end(0, [undefined]);
  expect(await run.prepare(1)).toMatchObject([{ records: 0, asked: {} }]);
});

test('the budget holds only the questions that the first model left', async () => {
  const run = rig([linesOf('a', 'b')]);
  await run.prepare(0);
  const bad = { ...GOOD, safety: word('no', true) };
  await run.end(0, [bad, bad]);
  const held = await run.prepare(1, run.requests, 0.0001);
  expect(held).toMatchObject([{ records: 0, held: [expect.any(String), expect.any(String)] }]);
  await run.end(1, []);
  const receipt = await run.apply(one(run));
  expect(receipt).toMatchObject({ ok: true, counts: { heldByBudget: 2, newVerdicts: 2, failed: 0 } });
});

test('a request that was held is left to a chunk that has money for it', async () => {
  const same = [1, 2].map((n) => [chatLine('same').replace('"eventId":"', `"eventId":"${n}`)]);
  const run = rig(same);
  const [first, second] = run.requests.map((request) => [request]) as [ChunkRequest[], ChunkRequest[]];
  expect(await run.prepare(0, first, 0.0000001)).toMatchObject([{ records: 0, elsewhere: {} }]);
  expect(await run.prepare(0, second)).toMatchObject([{ records: 1, elsewhere: {} }]);
  // Who has asked keeps the request, also after its function has ended.
  const [{ elsewhere } = { elsewhere: {} }] = await run.prepare(0, first);
  expect(Object.values(elsewhere)).toEqual([1]);
});

test('captures with the same request share the answers of both rounds, and pay once', async () => {
  const same = [1, 2].map((n) => [chatLine('same').replace('"eventId":"', `"eventId":"${n}`)]);
  const run = rig(same);
  await run.prepare(0, run.requests.slice(0, 1));
  await run.prepare(0, run.requests.slice(1));
  await run.end(0, [{ ...GOOD, safety: word('no', true) }]);
  await run.prepare(1, run.requests.slice(0, 1));
  await run.prepare(1, run.requests.slice(1));
  expect(await run.end(1, [{ safety: word('no') }])).toHaveLength(1);
  const receipts = await Promise.all(run.requests.map((request) => run.apply(request)));
  expect(receipts.map(({ counts }) => counts.newVerdicts)).toEqual([2, 2]);
  expect(receipts.map(({ batchSpend }) => batchSpend?.calls).toSorted()).toEqual([0, 2]);
  expect(run.costs()).toBeCloseTo(
    receipts.reduce((sum, { batchSpend }) => sum + (batchSpend?.usd ?? Number.NaN), 0),
    9,
  );
});

test('what a person assesses between the rounds is not asked again, and nothing is paid twice', async () => {
  const run = rig([linesOf('a')]);
  await run.prepare(0);
  await run.end(0, [{ ...GOOD, safety: word('no', true), fluency: word('no', true) }]);
  await run.prepare(1);
  await run.end(1, [{ safety: word('no'), fluency: word('no') }]);
  const [traceId] = Object.keys((await run.prepare(0))[0]?.asked ?? {}) as [string];
  const human = { name: 'safety', value: 'yes', sourceType: 'HUMAN', sourceId: 'a person', traceId, metadata: {} };
  run.store.assessments.set(traceId, [{ ...human, assessmentId: 'a-1', createTimeMs: 1 } as never]);
  const receipt = await run.apply(one(run));
  expect(receipt.counts).toMatchObject({ alreadyThere: 1, newVerdicts: 1, failed: 0 });
  expect(receipt.spend.calls).toBe(0);
});
