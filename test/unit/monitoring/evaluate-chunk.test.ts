/** The evaluate step with chunks in memory: the judge and the budget are real, the model and MLflow are doubles. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt } from '../../../src/core/contract/receipts.ts';
import { areaOf, workKeys } from '../../../src/core/contract/work-keys.ts';
import { PermanentError, RetryableError } from '../../../src/core/errors/errors.ts';
import { cascade } from '../../../src/judge/cascade.ts';
import { CallFailure } from '../../../src/judge/errors.ts';
import type { JudgeOptions } from '../../../src/judge/judge-capture.ts';
import { isCodeScorer, isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { Ask } from '../../../src/judge/transports/transport.ts';
import type { CodeScorer, JudgeScorer, ModelAnswer, Scorer } from '../../../src/judge/types.ts';
import { Lock } from '../../../src/limits/lock.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { MlflowRefusedError } from '../../../src/mlflow/errors.ts';
import { JUDGE_COST } from '../../../src/mlflow/types.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import type { EvaluateDependencies } from '../../../src/monitoring/evaluate/types.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { goodAnswer, scriptedJudge, told } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { LoopRounds } from '../../helpers/loop-rounds.ts';
import { putPlan } from '../../helpers/planned-run.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { captureOf, jsonSide } from '../captures/arbitraries.ts';

const environment = testEnvironment();
const ASKED = scorersFor().filter(isJudgeScorer).slice(0, 2);
const ANSWER = { calls: 1, usd: (1000 * 3 + 100 * 15) / 1e6 };

class Rig {
  readonly storage = new MemoryStorage();
  readonly table = new MemoryTable();
  /** The judge's answers. */
  readonly answers = new MemoryTable();
  readonly store = new MemoryTraces({ hasAll: true });
  readonly asks: Ask[];
  readonly deps: Omit<EvaluateDependencies, 'requestId'>;
  #requests = 0;

  constructor(
    model?: (ask: Ask, text: string) => ModelAnswer | Promise<ModelAnswer>,
    { scorers = ASKED as readonly Scorer[], ...options }: JudgeOptions & { scorers?: readonly Scorer[] } = {},
  ) {
    const { judge, asks } = scriptedJudge(model, options);
    this.asks = asks;
    const remainingMs = () => 900_000;
    const { store } = this;
    this.deps = {
      storage: this.storage.storage,
      store,
      judge,
      scorers,
      environment,
      always: () => undefined,
      table: memoryLimits(this.table),
      answers: memoryLimits(this.answers),
      remainingMs,
    };
  }

  request(lines: readonly string[], more: Partial<ChunkRequest> = {}, chunk = 0): ChunkRequest {
    return chunkRequest(this.storage, lines, more, chunk);
  }

  evaluate(request: ChunkRequest, deps: Partial<EvaluateDependencies> = {}): Promise<EvaluateReceipt> {
    this.#requests += 1;
    const requestId = `r${this.#requests}`;
    return evaluateChunk(request, { ...this.deps, requestId, ...deps });
  }

  /** The number of questions whose answers are kept. */
  get answered(): number {
    return [...this.answers.items.values()].filter(({ answer }) => answer !== undefined).length;
  }

  /** Returns the summary of the run by the receipts of its first two chunks. */
  summary(): Promise<RunSummary> {
    putPlan(this.storage, 'run', [[0, 1].map((chunk) => ({ chunk, lines: 0, ranges: [{}] }))]);
    return summarizeRun({ storage: this.storage.storage, workBucket: 'work' }, { name: 'run', startTime: '' });
  }

  /** Kills the function before it writes its next receipt. */
  dieBeforeReceipt(): void {
    const put = this.storage.putJson;
    this.storage.putJson = async (bucket, key, value) => {
      if (key.includes('/receipts/')) throw new Error('killed');
      await put.call(this.storage, bucket, key, value);
    };
  }

  live(): void {
    Reflect.deleteProperty(this.storage, 'putJson');
  }
}

/** The request of a retry, with the answers of the first chunk of the run. */
function withAnswersOf(request: ChunkRequest): ChunkRequest {
  const options = { ...request.options, continues: ['run'] };
  return { ...request, options, chunk: { ...request.chunk, chunk: 7 } };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

const LINES = ['a', 'b', 'c'].map((name) => chatLine(name));
const away = (): never => {
  throw new RetryableError('MlflowUnavailable', 'MLflow is away');
};

describe('a capture that provokes an exception', () => {
  const scorerOf = (name: string, score: CodeScorer['score']): CodeScorer => ({
    ...{ kind: 'code', name, version: '1', description: '' },
    score,
  });
  const odd = (request: unknown): string =>
    JSON.stringify(
      captureOf(
        jsonSide('INPUT', request, 'plain'),
        jsonSide('OUTPUT', { choices: [{ message: { role: 'assistant', content: 'hi' } }] }, 'plain'),
      ),
    );

  test.each([undefined, 5])(
    'such as tool calls that are not a list does not affect the others, with a budget of %p',
    async (usd) => {
      const rig = new Rig();
      const hostile = [{}, 5, 'x', [null]].map((calls) =>
        odd({ messages: [{ role: 'user', content: 'hi', tool_calls: calls }] }),
      );
      const limit = usd === undefined ? {} : { limit: new OwnLimit(usd) };
      const { counts } = await rig.evaluate(rig.request([...LINES.slice(0, 2), ...hostile, LINES[2] ?? '']), limit);
      expect(counts).toMatchObject({ newVerdicts: 2 * 7, failed: 0 });
    },
  );

  test('in a scorer, a rule or the judge gets error assessments, and the others get verdicts', async () => {
    const bad = (capture: { request?: { text?: string } }): boolean => capture.request?.text?.includes('SSN') === true;
    const fragile = scorerOf('fragile', (capture) => {
      if (bad(capture)) throw new TypeError(`what is ${capture.request?.text}?`);
      return { value: 1 };
    });
    const rig = new Rig(
      ({ prompt }, text) => {
        if (text.includes('SSN')) throw new RangeError(text);
        return told(goodAnswer(prompt.scorers));
      },
      { scorers: [...ASKED, fragile] },
    );
    const lines = [chatLine('a'), chatLine('SSN 078-05-1120'), chatLine('b')];
    const { counts, failedRecorded, evaluatedTraces, verdicts } = await rig.evaluate(rig.request(lines));
    expect(counts).toMatchObject({ newVerdicts: 6, failed: 3 });
    expect([failedRecorded, evaluatedTraces]).toEqual([3, 2]);
    // The values of a scorer that returns numbers are summed.
    expect({ ...verdicts.fragile }).toEqual({ count: 2, sum: 2 });
    const failed = [...rig.store.assessments.values()].flat().filter(({ error }) => error);
    expect(failed.map(({ error }) => error?.code).toSorted()).toEqual([
      'JudgeCaptureFailed',
      'JudgeCaptureFailed',
      'ScorerFailed',
    ]);
    expect(JSON.stringify(failed)).not.toContain('078-05');
    // A rule that throws for a capture which the sample leaves out.
    const rule = new Rig();
    const always = (capture: { request?: { text?: string } }): undefined => {
      if (bad(capture)) throw new TypeError('SSN');
    };
    const options = { ...rule.request(lines).options, sampleRate: 0 };
    const sampled = await rule.evaluate({ ...rule.request(lines), options }, { always });
    expect(sampled.counts).toMatchObject({ notSampled: 4, failed: 2 });
  });

  test('in a rule and before the judge asks gets an error for each scorer', async () => {
    const rig = new Rig();
    const [first, second] = ASKED as [JudgeScorer, JudgeScorer];
    // The rule is asked about the scorer whose sample leaves the capture out.
    const scorers = [{ ...first, sampleRate: 0 }, second];
    const always = (): never => {
      throw new TypeError('in the rule');
    };
    const judge = Object.assign(Object.create(rig.deps.judge), {
      judge: () => {
        throw new RangeError('before the judge asks');
      },
    });
    const { counts } = await rig.evaluate(rig.request(LINES.slice(0, 1)), { scorers, always, judge });
    expect(counts).toMatchObject({ newVerdicts: 0, failed: 2 });
    expect(new Set(rig.store.values)).toEqual(new Set(scorers.map(({ name }) => [name, 'JudgeCaptureFailed'])));
  });

  test.each(['code scorer', 'prompt', 'rule'])(
    'whose %s takes too long gets errors for the scorers that were not reached, and the others get verdicts',
    async (where) => {
      const isSlow = (capture: { request?: { text?: string } }): boolean =>
        capture.request?.text?.includes('slow') === true;
      const forEver = (): never => {
        for (;;) Math.random();
      };
      const code = [
        scorerOf('first', () => ({ value: 1 })),
        scorerOf('second', (capture) => (where === 'code scorer' && isSlow(capture) ? forEver() : { value: 2 })),
        scorerOf('third', () => ({ value: 3 })),
      ];
      // The first prompt that is built is that of the first capture.
      let asked = 0;
      const [safe, other] = ASKED as [JudgeScorer, JudgeScorer];
      const question = {
        ...safe,
        get question() {
          asked += 1;
          return where === 'prompt' && asked === 1 ? forEver() : safe.question;
        },
      };
      const rig = new Rig(undefined, { scorers: [question, other, ...code], timeMs: 400 });
      const lines = [chatLine('slow'), ...LINES];
      const rule = (capture: { request?: { text?: string } }): string | undefined =>
        where === 'rule' && isSlow(capture) ? forEver() : 'always';
      const request = rig.request(lines);
      const options = { ...request.options, sampleRate: 0 };
      const { counts } = await rig.evaluate({ ...request, options }, { always: rule, timeMs: 400 });
      const failed = [...rig.store.assessments.values()].flat().filter(({ error }) => error);
      const said = Object.fromEntries(failed.map(({ name, error }) => [name, `${error?.code}: ${error?.message}`]));
      const { name } = safe;
      expect(said).toEqual(
        {
          'code scorer': {
            second: 'ScorerFailed: OutOfTime: second took the rest of 0.4 s',
            third: 'ScorerFailed: OutOfTime: second took the rest of 0.4 s',
          },
          prompt: {
            [name]: 'JudgeCaptureFailed: OutOfTime: the size of the prompt took the rest of 0.4 s',
            [other.name]: 'JudgeCaptureFailed: OutOfTime: the size of the prompt took the rest of 0.4 s',
          },
          rule: {
            [name]: `JudgeCaptureFailed: OutOfTime: ${name} took the rest of 0.4 s`,
            [other.name]: `JudgeCaptureFailed: OutOfTime: ${name} took the rest of 0.4 s`,
          },
        }[where],
      );
      expect(counts).toMatchObject({ newVerdicts: lines.length * 5 - 2, failed: 2 });
    },
  );

  test('does not lose its other verdicts when MLflow refuses one', async () => {
    const rig = new Rig(({ prompt }, text) =>
      told(goodAnswer(prompt.scorers).replace('So it is.', text.includes('rude') ? 'refused' : 'So it is.')),
    );
    rig.store.fault = (assessments) => {
      const facts = { where: 'w', got: 'refused text', said: 'no', status: 400, errorCode: 'INVALID_PARAMETER_VALUE' };
      if (assessments.some(({ rationale }) => rationale === 'refused')) throw new MlflowRefusedError('no', facts);
    };
    const { counts } = await rig.evaluate(rig.request([...LINES, chatLine('rude')]));
    expect(counts).toMatchObject({ newVerdicts: 7, failed: 1 });
    expect(rig.store.values).toContainEqual([ASKED[0]?.name, 'AssessmentRefused']);
    rig.store.fault = () => {
      throw new TypeError('cannot be written');
    };
    const other = rig.request([chatLine('another')], {}, 1);
    await expect(rig.evaluate(other)).rejects.toThrow('cannot be written');
  });
});

test('answers that cannot be used are in the dollars of the counts', async () => {
  const rig = new Rig(() => told('I would rather not.'));
  const { spend, counts, quality = {} } = await rig.evaluate(rig.request(LINES));
  const [cell] = Object.values(quality).flatMap((variants) => Object.values(variants));
  expect([counts.failed, counts.newVerdicts]).toEqual([6, 0]);
  expect(cell?.judgeUsd).toBeCloseTo(spend.usd ?? Number.NaN, 8);
});

describe('an answer is paid once', () => {
  test('when MLflow is unavailable and a later attempt writes it', async () => {
    const rig = new Rig();
    rig.store.fault = away;
    await expect(rig.evaluate(rig.request(LINES))).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    // A redriven execution starts at the first attempt again.
    await expect(rig.evaluate(rig.request(LINES))).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    rig.store.fault = () => {};
    const receipt = await rig.evaluate(rig.request(LINES, { attempt: 1 }));
    expect(receipt.counts).toMatchObject({ newVerdicts: 6, failed: 0 });
    expect(receipt.spend.calls).toBe(0);
    expect(rig.asks).toHaveLength(3);
    expect((await rig.summary()).spend).toMatchObject({ calls: 3, usd: expect.closeTo(3 * ANSWER.usd) });
  });

  test('when the retry of a failed run uses it', async () => {
    const rig = new Rig();
    rig.store.fault = away;
    await expect(rig.evaluate(rig.request(LINES))).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    rig.store.fault = () => {};
    const retryOf = (request: ChunkRequest): ChunkRequest => withAnswersOf({ ...request, run: 'retry' });
    const { counts, spend } = await rig.evaluate(retryOf(rig.request(LINES)));
    expect(counts.newVerdicts).toBe(6);
    expect([spend.calls, rig.asks.length]).toEqual([0, 3]);
    // The retry asks again about scorers that got no verdict.
    const mute = new Rig(() => told('no'));
    await mute.evaluate(mute.request(LINES.slice(0, 1)));
    await mute.evaluate(retryOf(mute.request(LINES.slice(0, 1))));
    expect(mute.asks).toHaveLength(6);
  });

  test.each(['before', 'after'])(
    'when the function is killed %s MLflow has it, and the next receipt reports it',
    async (when) => {
      const rig = new Rig();
      rig.dieBeforeReceipt();
      if (when === 'before') rig.store.fault = away;
      await expect(rig.evaluate(rig.request(LINES))).rejects.toThrow('killed');
      // The next attempt is killed too.
      await expect(rig.evaluate(rig.request(LINES, { attempt: 1 }))).rejects.toThrow('killed');
      rig.live();
      rig.store.fault = () => {};
      const paid = { r1: expect.objectContaining({ calls: 3, usd: expect.closeTo(3 * ANSWER.usd) }) };
      for (const attempt of [2, 3]) {
        const { spend, paidByOthers } = await rig.evaluate(rig.request(LINES, { attempt }));
        expect([spend.calls, paidByOthers]).toEqual([0, paid]);
      }
      expect(rig.asks).toHaveLength(3);
      expect(rig.store.values).toHaveLength(6);
      expect((await rig.summary()).spend).toMatchObject({ calls: 3, usd: expect.closeTo(3 * ANSWER.usd) });
    },
  );

  test('even if an attempt that was presumed killed resumes and reports it too', async () => {
    const waiting: (() => void)[] = [];
    let standsStill = true;
    const rig = new Rig(async ({ prompt }, text) => {
      if (standsStill && text.includes('tardy')) await new Promise<void>((resolve) => waiting.push(resolve));
      return told(goodAnswer(prompt.scorers));
    });
    const lines = Array.from({ length: 42 }, (_, n) => chatLine(n < 40 ? `n${n}` : `tardy${n}`));
    const frozen = rig.evaluate(rig.request(lines));
    while (waiting.length < 2 || rig.answered < 40) await settled();
    standsStill = false;
    const second = await rig.evaluate(rig.request(lines, { progress: { kills: 1 } }));
    expect(second.paidByOthers).toEqual({ r1: expect.objectContaining({ calls: 40 }) });
    for (const resume of waiting) resume();
    const first = await frozen;
    expect([first, second].map(({ spend }) => spend.calls)).toEqual([42, 2]);
    expect(rig.asks).toHaveLength(44);
    rig.storage.put(`${areaOf('manifest', 'run')}0.jsonl`, `${JSON.stringify(rig.request(lines).chunk)}\n`);
    expect((await rig.summary()).spend).toMatchObject({ calls: 44 });
  });

  test('when the next attempt asks about the rest of a throttled or held capture', async () => {
    let throttled = true;
    const rig = new Rig(({ prompt }) => {
      if (throttled && prompt.scorers[0] === ASKED[1]) throw new CallFailure('throttled', 'slow down');
      return told(goodAnswer(prompt.scorers.slice(0, 1)));
    });
    rig.store.fault = away;
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1)))).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    rig.store.fault = () => {};
    const before = rig.asks.length;
    const held = await rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: 1 }), { limit: new OwnLimit(0) });
    expect(held.counts).toMatchObject({ newVerdicts: 1, heldByBudget: 1 });
    throttled = false;
    const { counts } = await rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: 2 }));
    // An attempt counts what the run has written in all of them.
    expect(counts).toMatchObject({ newVerdicts: 2, alreadyThere: 0 });
    expect(rig.asks.slice(before).map(({ prompt }) => prompt.scorers)).toEqual([[ASKED[1]]]);
  });

  test.each([0, 1])(
    'in a cascade, whose first model is not asked again after the judge failed (run %p)',
    async (isRetry) => {
      const first = scriptedJudge(() => told(JSON.stringify({ [ASKED[0]?.name ?? '']: { value: 'no', sure: true } })), {
        maxAnswers: 1,
      });
      let fails = true;
      const rig = new Rig(({ prompt }) => {
        if (fails) throw new CallFailure('throttled', 'slow down');
        return told(goodAnswer(prompt.scorers));
      });
      const judge = cascade(first.judge, rig.deps.judge);
      const line = rig.request(LINES.slice(0, 1));
      for (const attempt of [0, 1]) {
        await expect(rig.evaluate({ ...line, attempt }, { judge })).rejects.toMatchObject({ name: 'JudgeThrottled' });
      }
      expect(first.asks).toHaveLength(1);
      // Another question is a question to the first model too.
      const scorers = ASKED.map((scorer) => ({ ...scorer, version: 'new' }));
      await expect(rig.evaluate({ ...line, attempt: 2 }, { judge, scorers })).rejects.toThrow();
      fails = false;
      const next = isRetry ? withAnswersOf({ ...line, run: 'retry' }) : { ...line, attempt: 3 };
      const { counts, spend } = await rig.evaluate(next, { judge });
      expect(counts).toMatchObject({ newVerdicts: 2, failed: 0 });
      expect([first.asks.length, spend.calls]).toEqual([2, 1]);
    },
  );

  test('by one of two concurrent retries, and for the missing verdicts of a partly written capture', async () => {
    const rig = new Rig();
    await rig.evaluate(rig.request(LINES), { limit: new OwnLimit(0) });
    const retries = ['one', 'two'].map((run) => rig.evaluate(withAnswersOf(rig.request(LINES, { run }))));
    await Promise.all(retries);
    expect(rig.asks).toHaveLength(3);
    // Killed after the first verdict of each trace.
    for (const [id, all] of rig.store.assessments) rig.store.assessments.set(id, all.slice(0, 1));
    // No person has deleted the others.
    rig.table.items.clear();
    const { counts, spend } = await rig.evaluate(withAnswersOf(rig.request(LINES, { run: 'three' })));
    expect([counts.newVerdicts, counts.alreadyThere, spend.calls, rig.asks.length]).toEqual([3, 3, 0, 3]);
  });

  test('also if it is too long for an item, and again when it has expired', async () => {
    const rationale = 'So it is.'.repeat(440);
    const scorers = Array.from({ length: 80 }, (_, n) => ({ ...(ASKED[0] as JudgeScorer), name: `scorer ${n}` }));
    const told80 = ({ prompt }: Ask) => told(goodAnswer(prompt.scorers).replaceAll('So it is.', rationale));
    const rig = new Rig(told80, { scorers });
    rig.store.fault = away;
    const attempt = (n: number) => rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: n })).catch(() => undefined);
    await attempt(0);
    const [[key = '', item] = []] = rig.answers.items;
    const place = `answers/${key.replace('#', '/')}.json`;
    expect([item?.answer, rig.storage.objects.get(place)?.includes(rationale)]).toEqual([{ S: place }, true]);
    await attempt(1);
    expect(rig.asks).toHaveLength(1);
    rig.answers.items.set(key, { ...item, ttl: { N: String(Math.floor(Date.now() / 1000) - 1) } });
    await attempt(2);
    expect(rig.asks).toHaveLength(2);
  });

  test('and is written, if it cannot be kept; then the attempt fails by name', async () => {
    const rig = new Rig();
    rig.answers.onWrite = () => {
      if (rig.asks.length > 0) throw Object.assign(new Error('away'), { name: 'InternalServerError' });
    };
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1)))).rejects.toMatchObject({
      name: 'BudgetTableUnavailable',
    });
    rig.answers.onWrite = undefined;
    const { counts } = await rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: 1 }));
    expect([counts.newVerdicts, rig.asks.length]).toEqual([2, 1]);
  });

  test('but asked again for a different question, model or run', async () => {
    const rig = new Rig();
    rig.store.fault = away;
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1)))).rejects.toThrow();
    const changed = ASKED.map((scorer) => ({ ...scorer, version: 'new' }));
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: 1 }), { scorers: changed })).rejects.toThrow();
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1), { run: 'another' }))).rejects.toThrow();
    const { judge, asks } = scriptedJudge();
    const other = Object.assign(Object.create(judge), { sourceId: 'test:/another' });
    await expect(rig.evaluate(rig.request(LINES.slice(0, 1), { attempt: 2 }), { judge: other })).rejects.toThrow();
    expect([rig.asks.length, asks.length]).toEqual([3, 1]);
  });
});

describe('a request that two chunks of a run make', () => {
  const both = (rig: Rig) => [rig.request(LINES), rig.request([LINES[1] ?? '', chatLine('d')], {}, 1)] as const;

  test('is made once, by the first chunk', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const rig = new Rig(async ({ prompt }) => {
      await promise;
      return told(goodAnswer(prompt.scorers));
    });
    const [first, second] = both(rig);
    const inFlight = [rig.evaluate(first), rig.evaluate(second)];
    setTimeout(resolve, 30);
    const receipts = await Promise.all(inFlight);
    expect(rig.asks).toHaveLength(4);
    expect(receipts.map(({ counts }) => counts.newVerdicts + counts.alreadyThere)).toEqual([6, 4]);
    expect((await rig.summary()).spend).toMatchObject({ calls: 4 });
    // A third chunk finds the answer of the second, which copied it.
    const third = rig.request([LINES[1] ?? ''], {}, 2);
    await rig.evaluate({ ...third, chunk: { ...third.chunk, experimentId: '8' } });
    expect(rig.asks).toHaveLength(4);
  });

  test('is made by the other chunk when the first has failed or was killed', async () => {
    let isRefused = true;
    const rig = new Rig(({ prompt }) => {
      if (isRefused) throw new CallFailure('refused', 'no access');
      return told(goodAnswer(prompt.scorers));
    });
    const [first, second] = both(rig);
    await expect(rig.evaluate(first)).rejects.toMatchObject({ name: 'JudgeRefused' });
    isRefused = false;
    expect((await rig.evaluate(second)).counts.newVerdicts).toBe(4);
    // Killed during the call: its claim is in force until its function has certainly ended.
    const dead = new Rig(() => new Promise<never>(() => {}));
    void dead.evaluate(dead.request(LINES), { remainingMs: () => 160_000 });
    while (dead.answers.items.size < LINES.length) await settled();
    const { judge, asks } = scriptedJudge();
    const [, other] = both(dead);
    // Too little time to wait for it: the trace waits for the next attempt.
    const hurried = dead.evaluate(other, { judge, remainingMs: () => 60_500 });
    await expect(hurried).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
    expect(asks).toHaveLength(1);
    const time = jest.spyOn(Date, 'now');
    time.mockReturnValue(Math.round(performance.timeOrigin + performance.now()) + 161_000);
    try {
      const { counts } = await dead.evaluate({ ...other, attempt: 1 }, { judge });
      expect(counts).toMatchObject({ newVerdicts: 4, alreadyThere: 0 });
    } finally {
      time.mockRestore();
    }
    expect(asks).toHaveLength(2);
  });

  test('is made by the other chunk at once when the budget held the first', async () => {
    const rig = new Rig();
    const [first, second] = both(rig);
    const { counts } = await rig.evaluate(first, { limit: new OwnLimit(0) });
    expect(counts.heldByBudget).toBe(6);
    // Less time than a wait for the claim would take.
    const { judge, asks } = scriptedJudge();
    await rig.evaluate(second, { judge, remainingMs: () => 60_500 });
    expect(asks).toHaveLength(2);
  });

  test('is made once by a chunk in which it occurs again', async () => {
    const rig = new Rig();
    const same = [1, 2, 3].map((n) => chatLine('same').replace('"eventId":"', `"eventId":"${n}`));
    expect(new Set(same).size).toBe(3);
    const { counts, spend } = await rig.evaluate(rig.request(same));
    expect([rig.asks.length, spend.calls, counts.newVerdicts]).toEqual([1, 1, 6]);
    const costs = [...rig.store.assessments.values()].flat().map(({ metadata }) => Number(metadata[JUDGE_COST]));
    expect(costs.reduce((sum, usd) => sum + usd, 0)).toBeCloseTo(spend.usd ?? Number.NaN, 8);
  });
});

describe('an answer about several captures with one request', () => {
  const same = [1, 2, 3, 4].map((n) => chatLine('same').replace('"eventId":"', `"eventId":"${n}`));

  test('that cannot be read is no answer for the others', async () => {
    const rig = new Rig(({ prompt }) =>
      told(rig.asks.length <= 3 ? 'I would rather not.' : goodAnswer(prompt.scorers)),
    );
    const { counts, spend } = await rig.evaluate(rig.request(same));
    expect([spend.calls, counts.newVerdicts]).toEqual([4, 6]);
  });

  test('that a content filter ends holds for all of them', async () => {
    const rig = new Rig(() => told('', { stop: 'filtered' }));
    const { spend } = await rig.evaluate(rig.request(same));
    expect(spend.calls).toBe(1);
    const codes = [...rig.store.assessments.values()].flat().map(({ error }) => error?.code);
    expect(codes).toEqual(Array(8).fill('JudgeContentFiltered'));
  });
});

describe('where the traces are written too', () => {
  const idOf = (line = ''): string => traceIdOf('7', Buffer.from(line));
  class Writing extends Rig {
    constructor(...args: ConstructorParameters<typeof Rig>) {
      super(...args);
      this.store.hasAll = false;
    }
  }
  const named = (name: string) => expect.objectContaining({ name });

  test('each absent trace is posted once, with its verdicts, after the answers are saved', async () => {
    const rig = new Writing();
    const saved: boolean[] = [];
    rig.store.fault = (assessments) => {
      saved.push(assessments.length > 0 && rig.answered === LINES.length);
    };
    const { counts, log } = await rig.evaluate(rig.request([...LINES, 'no capture', LINES[0] ?? '']));
    expect(rig.store.posts.toSorted()).toEqual(LINES.map(idOf).toSorted());
    expect([rig.store.singles, saved]).toEqual([0, [true, true, true]]);
    expect(log).toMatchObject({
      ok: true,
      counts: { lines: 5, traced: 4, written: 3, duplicateLine: 1, quarantined: 1 },
    });
    expect(counts).toMatchObject({ newVerdicts: 6, duplicateLine: 2, failed: 0 });
    // Again, everything is there.
    const again = await rig.evaluate(rig.request(LINES, { run: 'again' }));
    expect(again).toMatchObject({ counts: { alreadyThere: 6 }, log: { counts: { alreadyThere: 3 } } });
    expect([rig.store.posts.length, rig.store.singles, rig.asks.length]).toEqual([3, 0, 3]);
  });

  test('verdicts of a trace that exists, and of one that MLflow took only without them, are written singly', async () => {
    const rig = new Writing();
    rig.store.assessments.set(idOf(LINES[0]), []);
    rig.store.refusesAssessmentsOf.add(idOf(LINES[1]));
    const { counts, log } = await rig.evaluate(rig.request(LINES));
    expect([rig.store.posts.length, rig.store.singles]).toEqual([2, 2]);
    expect(counts).toMatchObject({ newVerdicts: 6, failed: 0 });
    expect(log?.counts).toMatchObject({ written: 2, alreadyThere: 1, traced: 3 });
  });

  test('a trace that MLflow refuses is quarantined with its duplicates, and has no verdict', async () => {
    const rig = new Writing();
    rig.store.refuses.add(idOf(LINES[1]));
    const { counts, log } = await rig.evaluate(rig.request([...LINES, LINES[1] ?? '']));
    expect(log).toMatchObject({
      refused: 1,
      counts: { traced: 2, quarantined: 2 },
      quarantineReasons: { MlflowRefused: 2 },
    });
    expect([counts.newVerdicts, counts.duplicateLine]).toEqual([4, 0]);
    // Its answer is paid for: the retry of the quarantined line uses it.
    rig.store.refuses.clear();
    const retry = rig.request([LINES[1] ?? ''], { run: 'retry' }, 4);
    await rig.evaluate(withAnswersOf(retry));
    expect([rig.asks.length, rig.store.posts.length]).toEqual([3, 3]);
  });

  test.each([
    ['refused', 'JudgeRefused', new CallFailure('refused', 'no')],
    ['throttled', 'JudgeThrottled', new CallFailure('throttled', 'no')],
    ['paused', 'JudgeThrottled', new CallFailure('paused', 'no call until later')],
    ['without a key', 'JudgeSecretUnreadable', new PermanentError('JudgeSecretUnreadable', 'no')],
  ])(
    'a judge that is %s keeps no trace from being written, and the next attempt adds the verdicts',
    async (_, name, failure) => {
      // More than are asked about at the same time: most are not started when the judge fails.
      const lines = Array.from({ length: 60 }, (_, n) => chatLine(n === 0 ? 'a' : `n${n}`));
      let fails = true;
      const rig = new Writing(({ prompt }, text) => {
        if (fails && !text.includes('plant a')) throw failure;
        return told(goodAnswer(prompt.scorers));
      });
      await expect(rig.evaluate(rig.request(lines))).rejects.toMatchObject({ name });
      expect(rig.store.posts).toHaveLength(60);
      const receipt = await rig.storage.getJson<EvaluateReceipt>('', workKeys.receipt('run', 0, 'evaluate', 0, 'r1'));
      expect(receipt).toMatchObject({ ok: false, error: named(name), log: { ok: true, counts: { traced: 60 } } });
      fails = false;
      const { counts } = await rig.evaluate(rig.request(lines, { attempt: 1 }));
      expect(counts).toMatchObject({ newVerdicts: 120, alreadyThere: 0 });
      expect([rig.store.posts.length, rig.store.singles]).toEqual([60, 59]);
    },
  );

  test('a judge without a price is not asked under a budget, and keeps no trace from being written', async () => {
    const rig = new Writing(undefined, { price: () => null });
    const judged = rig.evaluate(rig.request(LINES), { limit: new OwnLimit(1) });
    await expect(judged).rejects.toMatchObject({ name: 'JudgePriceUnknown' });
    expect([rig.store.posts.length, rig.asks.length]).toEqual([3, 0]);
  });

  test('a provider whose day is used up holds the verdicts with a reason of its own', async () => {
    const rig = new Writing(() => {
      throw new CallFailure('day', 'Too many tokens per day');
    });
    const held = await rig.evaluate(rig.request(LINES));
    expect(held).toMatchObject({
      counts: { heldByBudget: 6 },
      reasons: { providerDay: 6 },
      log: { counts: { written: 3 } },
    });
    const other = new Writing();
    const ofBudget = await other.evaluate(other.request(LINES), { limit: new OwnLimit(0) });
    expect(ofBudget).toMatchObject({ counts: { heldByBudget: 6 }, log: { counts: { written: 3 } } });
    expect(ofBudget.reasons).not.toHaveProperty('providerDay');
  });

  test('a function without time for the judge has it for the traces', async () => {
    const late = new Writing(
      () => new Promise((_, reject) => setTimeout(() => reject(new CallFailure('aborted', 'canceled')), 200)),
    );
    const attempt = late.evaluate(late.request(LINES), { remainingMs: () => 60_050 });
    await expect(attempt).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
    expect(late.store.posts).toHaveLength(3);
  });

  test('a deleted trace is not written again by a later attempt, a retry or a re-evaluation, but by a new run', async () => {
    const rig = new Writing();
    rig.dieBeforeReceipt();
    await expect(rig.evaluate(rig.request(LINES))).rejects.toThrow('killed');
    rig.live();
    const gone = idOf(LINES[1]);
    rig.store.assessments.delete(gone);
    const later = await rig.evaluate(rig.request(LINES, { attempt: 1 }));
    expect(later).toMatchObject({
      log: { counts: { traced: 3 } },
      counts: { newVerdicts: 4, alreadyThere: 0, notJudgeable: 2 },
      reasons: { traceMissing: 2 },
    });
    const retry = rig.request(LINES, { run: 'retry' });
    await rig.evaluate(withAnswersOf(retry));
    await rig.evaluate({ ...retry, run: 'other', chunk: { ...retry.chunk, traced: true } });
    await rig.evaluate({ ...retry, run: 'anew', options: { ...retry.options, reevaluate: true } });
    expect(rig.store.assessments.has(gone)).toBe(false);
    await rig.evaluate(rig.request(LINES, { run: 'new' }));
    expect(rig.store.assessments.get(gone)).toHaveLength(2);
  });

  /** Deletes a verdict, as a person does. @returns a function that tells the names of those that are left */
  const deleted = ({ store }: Writing, line: string | undefined): (() => string[]) => {
    store.assessments.get(idOf(line))?.splice(0, 1);
    return () => (store.assessments.get(idOf(line)) ?? []).map(({ name }) => name);
  };
  const [first = '', second = ''] = ASKED.map(({ name }) => name);

  test('a deleted verdict is not written again by a later attempt or a retry', async () => {
    const rig = new Writing();
    rig.dieBeforeReceipt();
    await expect(rig.evaluate(rig.request(LINES))).rejects.toThrow('killed');
    rig.live();
    const left = deleted(rig, LINES[1]);
    expect(left()).toEqual([second]);
    const later = await rig.evaluate(rig.request(LINES, { attempt: 1 }));
    expect(later).toMatchObject({ counts: { notJudgeable: 1, newVerdicts: 5 }, reasons: { deletedByPerson: 1 } });
    const others = deleted(rig, LINES[0]);
    await rig.evaluate(withAnswersOf(rig.request(LINES, { run: 'retry' })));
    expect([left(), others()]).toEqual([[second], [second]]);
  });

  test('a verdict that MLflow refused with its trace is written later, also if the function was killed in between', async () => {
    const rig = new Writing();
    rig.store.refusesAssessmentsOf.add(idOf(LINES[1]));
    let singles = 0;
    const write = rig.store.writeAssessments;
    rig.store.writeAssessments = async (trace, assessments) => {
      singles += 1;
      // Killed between the two.
      await write(trace, assessments.slice(0, 1));
      throw new Error('killed');
    };
    await expect(rig.evaluate(rig.request(LINES))).rejects.toThrow('killed');
    rig.store.writeAssessments = write;
    expect([singles > 0, rig.store.assessments.get(idOf(LINES[1]))?.length]).toEqual([true, 1]);
    const later = await rig.evaluate(rig.request(LINES, { attempt: 1 }));
    expect(later.reasons).not.toHaveProperty('deletedByPerson');
    expect(rig.store.assessments.get(idOf(LINES[1]))).toHaveLength(2);
  });

  test('a missing verdict is not added to a trace that another run has written in between', async () => {
    const rig = new Writing();
    const read = rig.store.getTraces;
    // The other run writes after this one has read, and a person deletes a verdict at once.
    rig.store.getTraces = async () => {
      rig.store.getTraces = read;
      await rig.evaluate(rig.request(LINES, { run: 'other' }));
      deleted(rig, LINES[1]);
      return new Map();
    };
    const { counts, reasons, log } = await rig.evaluate(rig.request(LINES));
    expect([counts.alreadyThere, reasons.deletedByPerson, counts.newVerdicts]).toEqual([5, 1, 0]);
    expect(log?.counts.alreadyThere).toBe(3);
    expect(rig.store.assessments.get(idOf(LINES[1]))?.map(({ name }) => name)).toEqual([second]);
  });

  describe('together with other runs over the same lines', () => {
    test('a retry brings back no trace that another run has written, and that a person has deleted since', async () => {
      const rig = new Writing();
      await rig.evaluate(rig.request(LINES, { run: 'other' }));
      rig.store.assessments.delete(idOf(LINES[1]));
      await settled();
      const retry = withAnswersOf(rig.request(LINES, { run: 'retry' }));
      const { reasons, log } = await rig.evaluate(retry);
      expect([rig.store.posts.length, rig.store.assessments.size, reasons.traceMissing]).toEqual([3, 2, 2]);
      expect(log?.counts).toMatchObject({ traced: 3, alreadyThere: 3, written: 0 });
    });

    test('an event that is delivered again after its run brings back no trace that a person has deleted; a person does', async () => {
      const rig = new Writing();
      await rig.evaluate(rig.request(LINES, { run: 'files-one' }));
      rig.store.assessments.delete(idOf(LINES[1]));
      await settled();
      const again = async (run: string) => {
        const { log } = await rig.evaluate(rig.request(LINES, { run }));
        return [rig.store.assessments.size, log?.counts.written];
      };
      expect(await again('files-again')).toEqual([2, 0]);
      expect(await again('by-hand')).toEqual([3, 1]);
    });

    test('what a person deletes while two runs overlap stays deleted: a trace, and a verdict', async () => {
      const rig = new Writing();
      const read = rig.store.getTraces;
      rig.store.getTraces = async () => {
        rig.store.getTraces = read;
        await rig.evaluate(rig.request(LINES, { run: 'other' }));
        rig.store.assessments.delete(idOf(LINES[1]));
        return new Map();
      };
      const { reasons, log } = await rig.evaluate(rig.request(LINES));
      expect([rig.store.posts.length, rig.store.assessments.size, reasons.traceMissing]).toEqual([3, 2, 2]);
      expect(log?.counts).toMatchObject({ traced: 3, alreadyThere: 3, written: 0 });
      // A run that reads the trace after the deletion of a verdict learns of it from the run that wrote it.
      const left = deleted(rig, LINES[0]);
      const third = await rig.evaluate(rig.request(LINES, { run: 'third' }));
      expect([left(), third.reasons.deletedByPerson]).toEqual([[second], 1]);
      expect(rig.store.assessments.get(idOf(LINES[1]))?.map(({ name }) => name)).toEqual([first, second]);
    });

    test.each([
      { what: 'that it did not send is written', sampleRate: 0, judgeVerdicts: 1, deletedByPerson: undefined },
      { what: 'that it sent and a person deleted is not', sampleRate: 1, judgeVerdicts: 0, deletedByPerson: 3 },
    ])(
      'where another run writes the traces meanwhile, a verdict $what',
      async ({ sampleRate, judgeVerdicts, deletedByPerson }) => {
        const scorers = [...scorersFor({ guidelines: {} }).filter(isCodeScorer).slice(0, 1), ...ASKED.slice(0, 1)];
        const rig = new Writing(undefined, { scorers });
        const read = rig.store.getTraces;
        const judged = () =>
          [...rig.store.assessments.values()].map((all) => all.filter(({ name }) => name === first).length);
        rig.store.getTraces = async () => {
          rig.store.getTraces = read;
          const other = rig.request(LINES, { run: 'other' });
          await rig.evaluate({ ...other, options: { ...other.options, sampleRate } });
          for (const all of rig.store.assessments.values()) {
            all.splice(0, all.length, ...all.filter(({ name }) => name !== first));
          }
          return new Map();
        };
        const { reasons, log } = await rig.evaluate(rig.request(LINES));
        expect([judged(), reasons.deletedByPerson]).toEqual([LINES.map(() => judgeVerdicts), deletedByPerson]);
        expect([rig.store.posts.length, log?.counts.alreadyThere]).toEqual([3, 3]);
      },
    );

    test('a run that is repeated brings back no verdict that a person has deleted, also the only one of the judge', async () => {
      const rig = new Writing(undefined, { scorers: ASKED.slice(0, 1) });
      await rig.evaluate(rig.request(LINES, { run: 'one' }));
      const left = deleted(rig, LINES[1]);
      const { reasons } = await rig.evaluate(rig.request(LINES, { run: 'two' }));
      expect([left(), reasons.deletedByPerson]).toEqual([[], 1]);
    });

    test.each(['evaluate', 'log'])(
      'a trace that a person deletes stays deleted, if the run to %s it came first',
      async (firstRun) => {
        const rig = new Writing();
        const { storage, store } = rig;
        const log = (run: string, attempt = 0) => {
          const request = rig.request(LINES, { run, attempt });
          return logChunk(request, { ...rig.deps, storage: storage.storage, requestId: `${run}-${attempt}` });
        };
        const evaluate = (run: string) => rig.evaluate(rig.request(LINES, { run }));
        const [one, other] = firstRun === 'log' ? [log, evaluate] : [evaluate, log];
        // The other run begins before the person deletes the trace.
        const read = storage.read;
        storage.read = async (...given) => {
          storage.read = read;
          await one('one');
          store.assessments.delete(idOf(LINES[1]));
          return read.apply(storage, given);
        };
        await other('other');
        expect(store.assessments.size).toBe(2);
        if (firstRun === 'evaluate') return;
        const { counts } = await log('one', 1);
        expect([counts.traced, store.assessments.size]).toEqual([3, 2]);
      },
    );

    test('a run does not wait for another one longer than its function lives, and posts none of its traces then', async () => {
      const rig = new Writing();
      const lock = new Lock({ table: rig.deps.table, owner: 'other' });
      await lock.during([`sent#${idOf(LINES[1])}`], async () => {
        const late = rig.evaluate(rig.request(LINES), { remainingMs: () => 30_000 });
        await expect(late).rejects.toMatchObject({ name: 'LockTaken' });
      });
      expect(rig.store.posts.toSorted()).toEqual([LINES[0], LINES[2]].map(idOf).toSorted());
      // The answers wait for the next attempt.
      const { counts } = await rig.evaluate(rig.request(LINES, { attempt: 1 }));
      expect([counts.newVerdicts, rig.asks.length]).toEqual([6, 3]);
    });
  });

  test('the first 12 captures are written while the judge is asked about others', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const rig = new Writing(async ({ prompt }) => {
      if (rig.asks.length > 12) await promise;
      return told(goodAnswer(prompt.scorers));
    });
    const evaluated = rig.evaluate(rig.request(Array.from({ length: 70 }, (_, n) => chatLine(`n${n}`))));
    while (rig.store.posts.length < 12) await settled();
    expect([rig.store.posts.length, rig.answered]).toEqual([12, 12]);
    resolve();
    expect((await evaluated).log?.counts.written).toBe(70);
  });

  test('replies are read between the captures of a chunk, however many resume at the same moment', async () => {
    const rounds = new LoopRounds();
    const asked: number[] = [];
    const rig = new Writing(async ({ prompt }) => {
      asked.push(rounds.now);
      return told(goodAnswer(prompt.scorers));
    });
    await rig.evaluate(rig.request(Array.from({ length: 20 }, (_, n) => chatLine(`n${n}`))));
    rounds.stop();
    expect(new Set(asked).size).toBe(20);
  });

  test('the judge is asked no further ahead of MLflow than a batch', async () => {
    const rig = new Writing();
    const { promise, resolve } = Promise.withResolvers<void>();
    const write = rig.store.writeTraces;
    rig.store.writeTraces = (...given) => promise.then(() => write(...given));
    const evaluated = rig.evaluate(rig.request(Array.from({ length: 230 }, (_, n) => chatLine(`n${n}`))));
    // Batches of 12 and 36 are being written, one of 50 waits, and 48 captures are in progress.
    for (let n = 0; n < 40; n += 1) await settled();
    expect(rig.asks.length).toBeLessThanOrEqual(12 + 36 + 50 + 48);
    resolve();
    expect((await evaluated).log?.counts.written).toBe(230);
  });
});

test('a guideline and a value may be named `constructor`', async () => {
  const [scorer] = scorersFor({ guidelines: { constructor: 'It is kind.' } as never }).filter(
    ({ name }) => name === 'constructor',
  );
  const values = { kind: 'categories' as const, values: ['constructor', 'toString'] };
  const rig = new Rig(undefined, { scorers: [{ ...(scorer as Scorer), values } as Scorer] });
  const receipt = await rig.evaluate(rig.request(LINES));
  expect(JSON.parse(JSON.stringify(receipt.verdicts))).toEqual({ constructor: { constructor: 3 } });
  expect({ ...(await rig.summary()).verdictsByScorer.constructor }).toEqual({ constructor: 3 });
  expect(Object.keys(Object)).toEqual([]);
});

describe('spans that are missing', () => {
  const [lacking = ''] = LINES.map((line) => traceIdOf('7', Buffer.from(line)));
  /** @returns the traces that got spans */
  function mendedIn({ store }: Rig): string[] {
    const mended: string[] = [];
    const read = store.getTraces;
    store.getTraces = async (experiment, ids) =>
      new Map(
        [...(await read(experiment, ids))].map(([id, one]) => [
          id,
          id === lacking ? { ...one, lacksSpans: true } : one,
        ]),
      );
    store.mendTraces = (async (_: unknown, traces: { traceId: string }[]) => {
      mended.push(...traces.map(({ traceId }) => traceId));
      return [];
    }) as never;
    return mended;
  }

  test('are added by a retry to all that the earlier run may have written', async () => {
    const rig = new Rig();
    const mended = mendedIn(rig);
    await rig.evaluate({ ...withAnswersOf(rig.request(LINES)), run: 'retry' } as never);
    expect(mended.length).toBe(3);
  });

  test('and never came, which is seen when the traces are read, are added by a run', async () => {
    const rig = new Rig();
    const mended = mendedIn(rig);
    await rig.evaluate(rig.request(LINES));
    expect(mended).toEqual([lacking]);
  });

  test('are left to the next attempt by one that fails, whose counts have what a killed one has written', async () => {
    const rig = new Rig();
    rig.store.hasAll = false;
    const request = rig.request(LINES);
    await rig.evaluate(request);
    // Killed before it saved what it sent.
    rig.table.items.clear();
    rig.store.mendTraces = away as never;
    await expect(rig.evaluate({ ...request, attempt: 1 })).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    const receipt = await rig.storage.getJson<EvaluateReceipt>('', workKeys.receipt('run', 0, 'evaluate', 1, 'r2'));
    expect(receipt).toMatchObject({ counts: { newVerdicts: 6 }, log: { counts: { lines: 3, written: 3 } } });
    const mended = mendedIn(rig);
    await rig.evaluate({ ...request, attempt: 2 });
    expect(mended).toHaveLength(3);
  });
});
