/** A cascade in batch inference: the jobs ask the first model, and the judge itself is asked on demand what they leave open. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../../src/limits/budget.ts';
import type { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { answered, batchRig, useJudgeServer } from '../../helpers/batch-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

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
  const own = batchRig(chunks, environment, scorers, () => ({ ...connectBatchJudge(environment), limit: limitOf(1) }));
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
  receipts.reduce((sum, { spend, batchSpend }) => sum + (spend.usd ?? Number.NaN) + (batchSpend?.usd ?? Number.NaN), 0);
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
