/** Asking which of two replies is better, in both orders. */
import type { Capture } from '../../../src/captures/types.ts';
import { RetryableError } from '../../../src/core/errors/errors.ts';
import { afterAnswers, answeredBefore, JudgeHeld } from '../../../src/judge/errors.ts';
import { judgePair, PAIRWISE_SCORER, pairwiseJudge, type ReplyPair } from '../../../src/judge/pairwise.ts';
import type { Judge, JudgeMoney, Verdict } from '../../../src/judge/types.ts';

const pair: ReplyPair = {
  messages: [{ role: 'user', content: 'q' }],
  before: { role: 'assistant', content: 'captured' },
  after: { role: 'assistant', content: 'new' },
};
const usage = { inputTokens: 10, outputTokens: 2, usd: 0.001 };
const spend = { calls: 1, ...usage };
const unreadable = { code: 'JudgeReplyUnreadable', message: 'no JSON' };

/** A judge with a script for each order: its answer, an error verdict, or what it throws. */
function judgeOf(capturedFirst: unknown, newFirst: unknown) {
  const seen: string[][] = [];
  const limits: unknown[] = [];
  const judge: Judge = {
    sourceId: 'test:/judge',
    maxCostUsd: () => 0.25,
    async judge(capture, scorers, _signal, money) {
      const replies = (capture.conversation?.replies ?? []).map(({ content }) => String(content));
      seen.push(replies);
      limits.push(money?.limit);
      const said = replies[0] === 'captured' ? capturedFirst : newFirst;
      if (said instanceof Error) throw said;
      const scorer = scorers[0]?.name ?? '';
      const verdict: Verdict =
        typeof said === 'string'
          ? { scorer, usage, outcome: 'verdict', value: said, rationale: `because ${said}` }
          : { scorer, usage, outcome: 'error', error: unreadable };
      return { verdicts: [verdict], spend };
    },
  };
  return { judge, seen, limits };
}

const caught = async (judge: Judge, money?: JudgeMoney): Promise<Error> =>
  judgePair(judge, pair, undefined, money).then(
    () => new Error('nothing was thrown'),
    (error: Error) => error,
  );

const EQUAL = 'equally good';

test.each([
  ['reply 2', 'reply 1', 'better'],
  ['reply 1', 'reply 2', 'worse'],
  [EQUAL, EQUAL, 'same'],
  // Only one order sees a difference.
  [EQUAL, 'reply 1', 'same'],
  [EQUAL, 'reply 2', 'same'],
  ['reply 1', EQUAL, 'same'],
  ['reply 2', EQUAL, 'same'],
  // The same position wins both times.
  ['reply 1', 'reply 1', 'undecided'],
  ['reply 2', 'reply 2', 'undecided'],
])('%s with the captured reply first and %s with the new one first: %s', async (straight, swapped, value) => {
  const { judge, seen } = judgeOf(straight, swapped);
  const result = await judgePair(judge, pair);
  expect(seen.map((pair) => pair.join())).toEqual(['captured,new', 'new,captured']);
  expect(result).toEqual({
    verdicts: [
      {
        scorer: PAIRWISE_SCORER.name,
        outcome: 'verdict',
        value,
        rationale: `Reply 1 captured, reply 2 new: because ${straight}\n\nReply 1 new, reply 2 captured: because ${swapped}`,
        usage: { inputTokens: 20, outputTokens: 4, usd: 0.002 },
      },
    ],
    spend: { calls: 2, inputTokens: 20, outputTokens: 4, usd: 0.002 },
  });
  expect(PAIRWISE_SCORER.values).toMatchObject({ values: expect.arrayContaining([value]) });
});

test.each<[string, unknown, unknown]>([
  ['the first order', null, 'reply 1'],
  ['the second order', 'reply 2', null],
  ['both orders', null, null],
])('an error verdict of %s is the verdict, and an answer to the other order is kept', async (_, straight, swapped) => {
  const { verdicts, spend: paid } = await judgePair(judgeOf(straight, swapped).judge, pair);
  const [verdict, ...kept] = verdicts;
  expect(verdict).toMatchObject({ scorer: PAIRWISE_SCORER.name, outcome: 'error', error: unreadable });
  const answered = [straight, swapped].filter((said) => typeof said === 'string');
  expect(kept.map((one) => one.outcome === 'verdict' && one.value)).toEqual(answered);
  expect(paid).toMatchObject({ calls: 2, usd: 0.002 });
});

test.each(['captured', 'new'])(
  'what was answered before the order with the %s reply first failed is not asked again',
  async (first) => {
    const throttled = afterAnswers(new RetryableError('JudgeThrottled', 'slow down'), {
      verdicts: [],
      spend: { ...spend, calls: 3, usd: 0.0005 },
    });
    const limit = { reserve: async () => undefined as never };
    const failing = first === 'captured' ? judgeOf(throttled, 'reply 1') : judgeOf('reply 2', throttled);
    const error = await caught(failing.judge, { limit });
    expect(error.name).toBe('JudgeThrottled');
    const before = answeredBefore(error);
    expect(before.verdicts).toHaveLength(1);
    expect(before.verdicts[0]?.scorer).not.toBe(PAIRWISE_SCORER.name);
    expect(before.spend).toEqual({ calls: 4, inputTokens: 20, outputTokens: 4, usd: 0.0015 });
    expect(failing.limits).toEqual([limit, limit]);

    const again = judgeOf('reply 2', 'reply 1');
    // Answers to other questions, and errors, are none.
    const strangers: Verdict[] = [
      { scorer: 'safety', usage, outcome: 'verdict', value: 'yes', rationale: '' },
      { scorer: before.verdicts[0]?.scorer ?? '', usage, outcome: 'error', error: unreadable },
    ];
    const result = await judgePair(again.judge, pair, undefined, { known: [...strangers, ...before.verdicts] });
    expect(again.seen).toEqual([first === 'captured' ? ['captured', 'new'] : ['new', 'captured']]);
    expect(result.verdicts).toEqual([
      expect.objectContaining({ value: 'better', usage: { ...usage, inputTokens: 20, outputTokens: 4, usd: 0.002 } }),
    ]);
    // What was paid before is in the spend of the call that failed.
    expect(result.spend).toMatchObject({ calls: 1, usd: 0.001 });
  },
);

describe('if both orders fail', () => {
  const throttled = (): Error => new RetryableError('JudgeThrottled', 'slow down');
  const held = (): Error => new JudgeHeld();

  test.each([
    ['throttled, held', throttled(), held(), 'JudgeThrottled'],
    ['held, throttled', held(), throttled(), 'JudgeThrottled'],
    ['held, held', held(), held(), 'JudgeHeld'],
  ])('%s: the failure is the one that a retry can fix', async (_, straight, swapped, name) => {
    const error = await caught(judgeOf(straight, swapped).judge);
    expect(error.name).toBe(name);
    expect(answeredBefore(error)).toMatchObject({ verdicts: [], spend: { calls: 0, usd: 0 } });
  });

  test('a question that is held keeps the other order’s answer', async () => {
    const error = await caught(judgeOf('reply 2', held()).judge);
    expect(error).toBeInstanceOf(JudgeHeld);
    expect(answeredBefore(error)).toMatchObject({ verdicts: [{ value: 'reply 2' }], spend: { calls: 1, usd: 0.001 } });
  });
});

describe('the judge of pairs', () => {
  const exchange = {} as Capture;

  test('answers for an exchange about its pair, and costs two questions at most', async () => {
    const { judge, seen } = judgeOf('reply 2', 'reply 1');
    const pairs = pairwiseJudge(judge, async () => pair);
    expect(pairs.sourceId).toBe('test:/judge');
    expect(pairs.maxCostUsd(exchange, [PAIRWISE_SCORER])).toBe(0.5);
    expect(pairwiseJudge({ ...judge, maxCostUsd: () => null }, async () => pair).maxCostUsd(exchange, [])).toBeNull();
    const { verdicts } = await pairs.judge(exchange, [PAIRWISE_SCORER]);
    expect(verdicts).toMatchObject([{ scorer: PAIRWISE_SCORER.name, value: 'better' }]);
    expect(seen).toHaveLength(2);
  });

  test('gives an exchange whose pair cannot be read an error, which costs nothing', async () => {
    const { judge, seen } = judgeOf('reply 2', 'reply 1');
    const error = { code: 'CaptureChanged', message: 'gone' };
    const result = await pairwiseJudge(judge, async () => ({ error })).judge(exchange, [PAIRWISE_SCORER]);
    expect(result).toMatchObject({
      verdicts: [{ scorer: PAIRWISE_SCORER.name, outcome: 'error', error, usage: { usd: 0 } }],
      spend: { calls: 0, usd: 0 },
    });
    expect(seen).toEqual([]);
  });
});
