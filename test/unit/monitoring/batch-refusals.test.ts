/** Batch inference with a model of which nothing was learned, and with records that the job refuses. */
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../../src/core/errors/errors.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { afterAnswers } from '../../../src/judge/errors.ts';
import { Learned } from '../../../src/judge/models/learned.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { Budget, runScope } from '../../../src/limits/budget.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { goodAnswer } from '../../doubles/scripted-judge.ts';
import { answered, batchRig, useJudgeServer } from '../../helpers/batch-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const MODEL = 'anthropic.claude-sonnet-4-6';
const RECORDS = 100;
const environment = testEnvironment();
const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);
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
