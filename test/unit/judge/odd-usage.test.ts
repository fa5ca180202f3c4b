/** Impossible usage reports of a judge are booked at the worst case, and never refund the budget. */

import { readBatchAnswers } from '../../../src/judge/batch/answers.ts';
import { answeredBefore } from '../../../src/judge/errors.ts';
import { createJudgeOver, type JudgeOptions } from '../../../src/judge/judge-capture.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { openAiTransport } from '../../../src/judge/transports/openai.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { chatCapture, completionOf, YES_NO_SCORERS } from './captures.ts';

/** One dollar per million tokens, so that amounts have the magnitude of the tokens. */
const price = ({ inputTokens, outputTokens, cacheReadInputTokens = 0 }: Record<string, number>) =>
  ((inputTokens ?? 0) + (outputTokens ?? 0) + cacheReadInputTokens / 10) / 1e6;

/** A judge at a URL whose answers are scripted. */
const judgeBehind = (fetch: () => Promise<Response>, retry: JudgeOptions['retry'] = {}) =>
  createJudgeOver(
    openAiTransport({ model: 'x', baseUrl: 'http://judge/v1', parameters: readParameters(), fetch: fetch as never }),
    { price: price as never, retry },
  );

function judgeThatReports(usage: unknown) {
  const text = JSON.stringify(completionOf(usage)).replaceAll('"1e999"', '1e999');
  return judgeBehind(async () => new Response(text));
}

const POSSIBLE = { prompt_tokens: 900, completion_tokens: 50, prompt_tokens_details: { cached_tokens: 600 } };

test('trusts a plausible report', async () => {
  const { spend } = await judgeThatReports(POSSIBLE).judge(chatCapture(), YES_NO_SCORERS);
  expect(spend).toEqual({ calls: 1, inputTokens: 900, outputTokens: 50, usd: (300 + 60 + 50) / 1e6 });
});

test('a server that reports cached tokens is seen to miss its cache with instructions that are long enough', async () => {
  const long = YES_NO_SCORERS.map((scorer) => ({ ...scorer, question: scorer.question.repeat(120) }));
  const uses = [
    [long, 0, { cacheCalls: 1, cacheReadTokens: 0 }],
    [YES_NO_SCORERS, 0, {}],
    [long, null, {}],
  ] as const;
  for (const [scorers, cached_tokens, use] of uses) {
    const report = { ...POSSIBLE, prompt_tokens_details: { cached_tokens } };
    const { spend } = await judgeThatReports(report).judge(chatCapture(), scorers);
    expect(spend.cacheCalls).toBe('cacheCalls' in use ? 1 : undefined);
    expect(spend).toMatchObject(use);
  }
});

test.each([
  ['more cached tokens than prompt tokens', { ...POSSIBLE, prompt_tokens_details: { cached_tokens: 3000 } }],
  ['negative cached tokens', { ...POSSIBLE, prompt_tokens_details: { cached_tokens: -3000 } }],
  ['negative prompt tokens', { prompt_tokens: -900, completion_tokens: 50 }],
  ['negative completion tokens', { prompt_tokens: 900, completion_tokens: -5000 }],
  ['fractions of tokens', { prompt_tokens: 900.5, completion_tokens: 50 }],
  ['a number that is not finite', { prompt_tokens: '1e999', completion_tokens: 50 }],
  ['a text instead of a number', { prompt_tokens: 'many', completion_tokens: 50 }],
  ['an absurdly long prompt', { prompt_tokens: 9e9, completion_tokens: 50 }],
  ['an absurdly long answer', { prompt_tokens: 900, completion_tokens: 9e9 }],
  ['an empty prompt', { prompt_tokens: 0, completion_tokens: 0 }],
])('does not trust a report of %s', async (_, usage) => {
  const judge = judgeThatReports(usage);
  const most = judge.maxCostUsd(chatCapture(), YES_NO_SCORERS) ?? 0;
  const { verdicts, spend } = await judge.judge(chatCapture(), YES_NO_SCORERS);
  expect(verdicts.map(({ outcome }) => outcome)).toEqual(['verdict', 'verdict']);
  expect(spend.calls).toBe(1);
  expect(spend.usd).toBeGreaterThan(0.3 * most);
  expect(spend.usd).toBeLessThan(1.2 * most);
});

describe('a response with status 200 that is not an answer', () => {
  const retry = { baseMs: 1, capMs: 1, attempts: 4 };
  const ANSWER = JSON.stringify(completionOf(POSSIBLE));

  /** Scripted responses to consecutive calls, and the number of calls. */
  function judgeThatSays(...texts: string[]) {
    let calls = 0;
    const fetch = async () => {
      calls += 1;
      return new Response(texts[Math.min(calls, texts.length) - 1]);
    };
    return { judge: judgeBehind(fetch, retry), calls: () => calls };
  }
  const OTHERS = [
    ['JSON of another kind', '{"detail":"loading"}'],
    ['truncated JSON', ANSWER.slice(0, -20)],
    ['a stream', `data: ${ANSWER}`],
    ['empty', ''],
  ];

  test.each(OTHERS)('may be billed if it is %s: the worst case is booked and the call retried', async (_, text) => {
    const { judge } = judgeThatSays(text, text, ANSWER);
    const most = judge.maxCostUsd(chatCapture(), YES_NO_SCORERS) ?? 0;
    const { verdicts, spend } = await judge.judge(chatCapture(), YES_NO_SCORERS);
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(['verdict', 'verdict']);
    expect(spend.calls).toBe(3);
    expect(spend.usd).toBeGreaterThan(2 * 0.8 * most);
    expect(spend.usd).toBeLessThan(3 * most);
    const given = judgeThatSays(text);
    const failure = await given.judge.judge(chatCapture(), YES_NO_SCORERS).catch((error: unknown) => error);
    expect(failure).toMatchObject({ name: 'JudgeUnavailable' });
    expect(answeredBefore(failure).spend.calls).toBe(4);
  });

  test('does not exceed a cap', async () => {
    const { judge, calls } = judgeThatSays('{}');
    const most = judge.maxCostUsd(chatCapture(), YES_NO_SCORERS) ?? 0;
    const limit = new OwnLimit(2.5 * most);
    const failure = await judge.judge(chatCapture(), YES_NO_SCORERS, undefined, { limit }).catch((error) => error);
    expect(failure).toMatchObject({ name: 'JudgeHeld' });
    expect(answeredBefore(failure).spend).toMatchObject({ calls: 2 });
    expect(calls()).toBe(2);
    await expect(limit.reserve(most)).resolves.toBe('held');
  });

  test('is an outage if it is an HTML page, which is not from a model', async () => {
    const { judge } = judgeThatSays('\n<!doctype html><title>Sign in</title>', ANSWER);
    const { spend } = await judge.judge(chatCapture(), YES_NO_SCORERS);
    expect(spend).toEqual({ calls: 1, inputTokens: 900, outputTokens: 50, usd: (300 + 60 + 50) / 1e6 });
  });
});

test('applies to the answers of a batch job', () => {
  const modelOutput = {
    output: { message: { content: [{ text: '{}' }] } },
    usage: { inputTokens: -5, outputTokens: 2 },
  };
  const [told] = readBatchAnswers(JSON.stringify({ recordId: 'a', modelOutput })).values();
  expect(told).toMatchObject({ usage: { inputTokens: 36_000, batch: true } });
});
