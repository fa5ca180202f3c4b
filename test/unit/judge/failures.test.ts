/** What can go wrong between the judge and a model: failures of calls, the API key, and odd reports and responses. */

import { readBatchAnswers } from '../../../src/judge/batch/answers.ts';
import { answeredBefore, judgingError } from '../../../src/judge/errors.ts';
import { createJudgeOver, type JudgeOptions } from '../../../src/judge/judge-capture.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { loadApiKey, parseApiKey } from '../../../src/judge/transports/api-key.ts';
import { readAwsFailure } from '../../../src/judge/transports/bedrock-failures.ts';
import { readChatFailure } from '../../../src/judge/transports/chat.ts';
import { openAiTransport } from '../../../src/judge/transports/openai.ts';
import { sageMakerTransport } from '../../../src/judge/transports/sagemaker.ts';
import type { CallUsage } from '../../../src/judge/types.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { askOf, chatCapture, completionOf, YES_NO_SCORERS } from './captures.ts';
import TABLE from './failures.json' with { type: 'json' };

const aws = (name: string, status: number | undefined, message = name, headers: Record<string, string> = {}) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode: status }, $response: { headers } });

describe('errors of the AWS SDK', () => {
  test.each(TABLE.aws)('classifies $name $status $message as $kind', ({ name, status, message, kind, feature }) => {
    const failure = readAwsFailure(aws(name, status, message));
    expect([failure.kind, failure.feature]).toEqual([kind, feature]);
    expect(failure.message).toBe(status === undefined ? name : `${name}: HTTP ${status}`);
  });

  test('reads Retry-After, and gives precedence to an aborted signal', () => {
    expect(readAwsFailure(aws('ThrottlingException', 429, 'x', { 'retry-after': '3' })).retryAfterMs).toBe(3000);
    expect(readAwsFailure(aws('AbortError', undefined), AbortSignal.abort()).kind).toBe('aborted');
  });
});

test('a denial by a service control policy names the policy, and which profiles it may allow', () => {
  const policy = 'arn:aws:organizations::111122223333:policy/o-abc/service_control_policy/p-1234';
  const denied = (words: string) =>
    judgingError(
      readAwsFailure(
        aws(
          'AccessDeniedException',
          403,
          `User: arn:aws:sts::111122223333:assumed-role/r/s is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:::foundation-model/m with an explicit deny in ${words}`,
        ),
      ),
      'bedrock:/global.m',
    );
  expect(denied(`a service control policy: ${policy}`)).toMatchObject({
    name: 'JudgeRefused',
    message: expect.stringMatching(
      new RegExp(
        `denied bedrock:InvokeModel on arn:aws:bedrock:::foundation-model/m by a service control policy: ${policy}; expected: a BEDROCK_MODEL_ID whose regions .*us\\. or eu\\..*"unspecified"`,
      ),
    ),
  });
  expect(denied('an identity-based policy').message).not.toContain('expected:');
});

describe('errors of a chat completion server', () => {
  test.each(TABLE.chat)('classifies $status $text as $kind', ({ status, text, kind, feature }) => {
    const failure = readChatFailure(status, text, undefined);
    expect([failure.kind, failure.feature]).toEqual([kind, feature]);
  });
});

describe('errors of a SageMaker endpoint', () => {
  const failureOf = (error: object, signal?: AbortSignal) => {
    const client = { send: () => Promise.reject(Object.assign(new Error('whole message'), error)) };
    return sageMakerTransport('judge', readParameters(), client as never).send(askOf(), signal);
  };

  test.each([
    [404, 'no such route', 'refused', /^The container of the endpoint answered HTTP 404/],
    [429, 'slow down', 'throttled', /^The container of the endpoint answered HTTP 429/],
    [500, undefined, 'unavailable', /^The container of the endpoint answered HTTP 500/],
  ])('an answer %i of the container decides the kind', async (status, text, kind, message) => {
    const error = { name: 'ModelError', OriginalStatusCode: status, OriginalMessage: text };
    await expect(failureOf(error)).rejects.toMatchObject({ kind, message: expect.stringMatching(message), status });
  });

  test('without an answer of the container, the SDK’s error decides', async () => {
    const failed = { name: 'ModelError', $metadata: { httpStatusCode: 424 } };
    await expect(failureOf(failed)).rejects.toMatchObject({ kind: 'unavailable', status: 424 });
    const stopped = failureOf({ name: 'ModelError', OriginalStatusCode: 404 }, AbortSignal.abort());
    await expect(stopped).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('a missing endpoint is refused, another invalid request is rejected', async () => {
    const invalid = (message: string) =>
      failureOf({ name: 'ValidationError', message, $metadata: { httpStatusCode: 400 } });
    await expect(invalid('Endpoint judge of account 1 not found.')).rejects.toMatchObject({ kind: 'refused' });
    await expect(invalid('Body is empty.')).rejects.toMatchObject({ kind: 'rejected' });
  });
});

// ---------------------------------------------------------------------------------------------------- the API key

const parameters = readParameters();
const where = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:judge';
const client = (answer: () => unknown) => ({ send: async () => answer() }) as never;
const failing = (name: string, status: number | undefined) =>
  client(() => {
    throw Object.assign(new Error('no'), { name, $metadata: { httpStatusCode: status } });
  });

test.each([
  ['sk-1', 'sk-1'],
  [' sk-1\n', 'sk-1'],
  ['{"api_key":"sk-1","other":1}', 'sk-1'],
])('reads the key from %j', (text, key) => {
  expect(parseApiKey(text, where)).toBe(key);
});

test.each(['', ' ', '{"api_key":sk-live-SECRET"}', '{"key":"sk-live-SECRET"}', '{"api_key":["sk-live-SECRET"]}'])(
  'rejects %j without quoting it',
  async (text) => {
    const error = await loadApiKey(
      client(() => ({ SecretString: text })),
      where,
    ).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ name: 'JudgeSecretUnreadable' });
    expect(`${error} ${(error as Error).cause}`).not.toMatch(/SECRET|sk-live/);
  },
);

test.each(['sk-live\nSECRET', 'sk-live SECRET', 'sk-livé-SECRET', '{"api_key":"sk-live\\nSECRET"}'])(
  'rejects %j, which is not valid in a header, without quoting it',
  (text) => {
    const parse = () => parseApiKey(text, where);
    expect(parse).toThrow(expect.objectContaining({ name: 'JudgeSecretUnreadable' }));
    expect(parse).not.toThrow(/SECRET/);
    expect(() => openAiTransport({ model: 'x', apiKey: text, parameters })).toThrow(/no API key/);
  },
);

test('refuses a binary secret', async () => {
  const binary = client(() => ({ SecretBinary: new Uint8Array([1]) }));
  await expect(loadApiKey(binary, where)).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
});

test.each([
  ['ThrottlingException', 400, 'JudgeUnavailable'],
  ['InternalServiceError', 500, 'JudgeUnavailable'],
  ['TimeoutError', undefined, 'JudgeUnavailable'],
  ['AccessDeniedException', 400, 'JudgeSecretUnreadable'],
  ['ResourceNotFoundException', 400, 'JudgeSecretUnreadable'],
])('turns %s of Secrets Manager (status %s) into %s', async (name, status, expected) => {
  await expect(loadApiKey(failing(name, status), where)).rejects.toMatchObject({ name: expected });
});

type KeySource = Parameters<typeof openAiTransport>[0]['apiKey'];
/** A judge at a URL whose answers are scripted. */
const judgeBehind = (fetch: unknown, options: JudgeOptions, apiKey?: KeySource) => {
  const server = { model: 'x', baseUrl: 'http://judge/v1', apiKey, parameters, fetch: fetch as never };
  return createJudgeOver(openAiTransport(server), options);
};

/** A judge behind a URL that gives scripted answers to consecutive requests. */
function judgeOver(replies: ((request: Request) => Response)[], apiKey: string | (() => Promise<string>) = 'sk-1') {
  const seen: Request[] = [];
  const fetch = async (url: string | URL, init: RequestInit) => {
    const request = new Request(url, init);
    seen.push(request);
    return (replies[seen.length - 1] ?? (() => new Response('{}', { status: 500 })))(request);
  };
  const retry = { attempts: 1, baseMs: 1, capMs: 1, forMs: 1 };
  const judge = judgeBehind(fetch, { retry }, apiKey);
  return { seen, ask: () => judge.judge(chatCapture(), YES_NO_SCORERS) };
}
const refused = () => new Response('', { status: 401 });
const answered = () => Response.json(completionOf());
const keysOf = (seen: Request[]) => seen.map((request) => request.headers.get('authorization'));

test('reloads a key once when the server no longer accepts it', async () => {
  const keys = ['sk-old', 'sk-new'];
  const { seen, ask } = judgeOver([refused, answered, answered], async () => keys.shift() ?? 'none');
  expect((await ask()).verdicts[0]).toMatchObject({ outcome: 'verdict' });
  await ask();
  expect(keysOf(seen)).toEqual(['Bearer sk-old', 'Bearer sk-new', 'Bearer sk-new']);
});

test('ends as JudgeRefused if the reloaded key is the same', async () => {
  const { seen, ask } = judgeOver([refused, answered], async () => 'sk-1');
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused' });
  expect(seen).toHaveLength(1);
});

test('a key that cannot be read fails each verdict by its own name, until it can be read', async () => {
  let isThere = false;
  const { seen, ask } = judgeOver([answered], async () => parseApiKey(isThere ? 'sk-1' : '', 'arn'));
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
  expect(seen).toEqual([]);
  isThere = true;
  expect((await ask()).verdicts[0]).toMatchObject({ outcome: 'verdict' });
});

test('does not follow a redirect, and names its target', async () => {
  const location = 'https://elsewhere.example/path?token=SECRET';
  const { seen, ask } = judgeOver([() => new Response('', { status: 307, headers: { location } })]);
  const message = expect.stringMatching(/judge redirects to https:\/\/elsewhere\.example \(HTTP 307\).*JUDGE_BASE_URL/);
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused', message });
  expect(seen.map(({ redirect }) => redirect)).toEqual(['manual']);
});

// ----------------------------------------------------------------------------------------------- reports of usage

/** One dollar per million tokens, so that amounts have the magnitude of the tokens. */
const price = ({ inputTokens, outputTokens, cacheReadInputTokens = 0 }: CallUsage) =>
  (inputTokens + outputTokens + cacheReadInputTokens / 10) / 1e6;

function judgeThatReports(usage: unknown) {
  const text = JSON.stringify(completionOf(usage)).replaceAll('"1e999"', '1e999');
  return judgeBehind(async () => new Response(text), { price });
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
    return { judge: judgeBehind(fetch, { price, retry }), calls: () => calls };
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
