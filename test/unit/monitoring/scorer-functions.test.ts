/** Scorers that are functions: the evaluate step in memory, with Lambda's client and a server at its wire. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import { scorerFunctionsSchema } from '../../../src/core/settings/scorer-functions-setting.ts';
import { AdaptiveLimiter } from '../../../src/judge/calls/limiter.ts';
import { connectFunctions } from '../../../src/judge/functions/connect.ts';
import { functionScorer } from '../../../src/judge/scorers/scorer-set.ts';
import { putAll } from '../../../src/limits/many-items.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import { type Invoked, lambdaServer, valuesFor } from '../../doubles/lambda-server.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { ChunkRig, CODE, JUDGED, LLM } from '../../helpers/chunk-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const NAME = 'faithfulness';
const ARN = 'arn:aws:lambda:eu-west-1:123456789012:function:scores:7';

const scorerOf = (more: object = {}) =>
  functionScorer(NAME, scorerFunctionsSchema.parse({ [NAME]: { arn: ARN, values: 'number', ...more } })[NAME] as never);

type Answer = Parameters<typeof lambdaServer>[0];
let close: (() => Promise<void>) | undefined;
afterEach(() => close?.());
beforeAll(() => {
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'k', AWS_SECRET_ACCESS_KEY: 's' });
});

class Functions {
  readonly rig = new ChunkRig();
  readonly table = new MemoryTable();
  readonly answers = memoryLimits(this.table);
  lambda: Awaited<ReturnType<typeof lambdaServer>> = undefined as never;

  static async start(answer: Answer = (request) => valuesFor(request)): Promise<Functions> {
    const made = new Functions();
    made.lambda = await lambdaServer(answer);
    close = made.lambda.close;
    return made;
  }

  /** What a chunk is evaluated with besides the rig's own. */
  async more(request: ChunkRequest, of: object = {}, limit?: OwnLimit) {
    // A new function of Lambda for each attempt.
    const { table } = this.rig.writing;
    const retry = { attempts: 3, baseMs: 1 };
    const connect = connectFunctions({ limits: {}, limiter: new AdaptiveLimiter(), table, retry });
    const { scorers, functions } = await connect([...LLM, scorerOf(of), ...CODE], request.run, limit);
    return { scorers, functions, answers: this.answers, putAll, ...(limit && { limit }) };
  }

  async evaluate(count: number, ...of: [of?: object, limit?: OwnLimit]) {
    const request = this.rig.request('r', {}, 0, lines(count));
    return this.rig.evaluate(request, await this.more(request, ...of));
  }

  async failed(count: number, ...of: [of?: object, limit?: OwnLimit]) {
    const request = this.rig.request('r', {}, 0, lines(count));
    return this.rig.failed(request, await this.more(request, ...of));
  }

  /** What MLflow has of a scorer: values, or codes of errors, in the order of the traces. */
  given(scorer = NAME) {
    return [...this.rig.store.assessments.values()].map((all) =>
      all.filter(({ name }) => name === scorer).map(({ value, error }) => value ?? error?.code),
    );
  }

  /** How often each record was asked about, by its prompt. */
  get asked(): number[] {
    const records = this.lambda.requests.flatMap((request) => request.records);
    return [...Map.groupBy(records, ({ request }) => request?.text).values()].map(({ length }) => length);
  }
}

const lines = (count: number) => Array.from({ length: count }, (_, n) => chatLine(`line ${n}`));
const each = (count: number, ...all: unknown[]) => Array.from({ length: count }, () => all);

test('a function gets the records of a chunk together, and its verdicts come with the others', async () => {
  const used = await Functions.start();
  const cell = await used.evaluate(60);
  expect([used.given(), used.asked]).toEqual([each(60, 0.5), Array(60).fill(1)]);
  expect(used.lambda.requests.length).toBeLessThan(5);
  expect(used.lambda.paths[0]).toContain('function:scores:7/invocations');
  expect(used.lambda.requests[0]?.records[0]).toMatchObject({
    variant: 'Blue',
    request: { text: expect.stringContaining('line 0'), messages: [{ role: 'system' }, { role: 'user' }] },
    reply: { text: expect.any(String), messages: [{ role: 'assistant' }] },
  });
  expect(JSON.stringify(cell)).toContain(NAME);
  const [stored] = [...used.rig.store.assessments.values()].flat().filter(({ name }) => name === NAME);
  expect(stored).toMatchObject({ sourceId: 'lambda:/scores:7', sourceType: 'CODE' });
});

test('its answers are read and stored together, also where DynamoDB does a part of a batch', async () => {
  const used = await Functions.start();
  await used.evaluate(60);
  // Those of the judge are two for each record.
  expect(used.table.requests).toBeLessThan(2 * 60 + 20);
  used.table.batchItems = 10;
  const request = { ...used.rig.request('r', { reevaluate: true }, 0, lines(60)), attempt: 1 };
  await used.rig.evaluate(request, await used.more(request));
  expect(used.asked).toEqual(Array(60).fill(1));
});

test('long texts are cut and marked, also those that JSON makes six times as long', async () => {
  const used = await Functions.start();
  const long = ['a'.repeat(300_000), '\u0001'.repeat(200_000), '😀'.repeat(100_000)].map((text) => chatLine(text));
  const request = used.rig.request('r', {}, 0, [...long, chatLine('short')]);
  await used.rig.evaluate(request, await used.more(request));
  const records = used.lambda.requests.flatMap((one) => one.records);
  expect(records.map(({ cut }) => cut)).toEqual([...each(3, 'request', 'reply'), undefined]);
  for (const { request: side, reply } of records) {
    expect(Buffer.byteLength(JSON.stringify(side?.messages))).toBeLessThan(256 * 1024 + 10);
    expect(Buffer.byteLength(JSON.stringify(side?.text))).toBeLessThanOrEqual(256 * 1024);
    expect(reply?.messages).toHaveLength(1);
  }
});

test('with CONTENT=none, a verdict has no words; a share of 0 asks about nothing', async () => {
  const said = { results: [{ value: 0.5, rationale: 'It quotes: line 0' }] };
  const used = await Functions.start(() => ({ body: said }));
  const request = used.rig.request('r', {}, 0, lines(1));
  const redaction = { kinds: [], fields: [], patterns: [], allow: [], content: 'none' as const, key: 'k' };
  const environment = { ...testEnvironment(), redaction };
  await used.rig.evaluate(request, { ...(await used.more(request)), environment });
  expect(used.given()).toEqual(each(1, 0.5));
  expect(JSON.stringify([...used.rig.store.assessments.values()])).not.toContain('line 0');
  const other = await Functions.start();
  await other.evaluate(3, { share: 0 });
  expect([other.lambda.requests.length, other.given(), other.given(JUDGED)]).toEqual([0, each(3), each(3, 'yes')]);
});

test('the traces do not wait for a slow function, whose verdicts follow', async () => {
  const used = await Functions.start(async (request) => {
    while (used.rig.store.posts.length < 60) await sleep(5);
    return valuesFor(request);
  });
  const cell = await used.evaluate(60);
  expect([used.given(), used.given(JUDGED)]).toEqual([each(60, 0.5), each(60, 'yes')]);
  expect(JSON.stringify(cell)).toContain(NAME);
});

const error = { errorType: 'ValueError', errorMessage: 'of the function' };
const said =
  (...results: object[]) =>
  () => ({ body: { results } });
const failed =
  (errorMessage: string, errorType = error.errorType) =>
  () => ({ error: { errorType, errorMessage } });
/** The answer about records of which one has a fault, and what becomes of that one; of all, if it is the function's own fault. */
const FAULTS: [what: string, of: object, bad: (answer: Invoked) => Invoked, code: string][] = [
  ['a value of NaN', {}, () => ({ body: '{"results":[{"value":NaN}]}' }), 'ScorerWrongValue'],
  ['an infinite value', {}, () => ({ body: '{"results":[{"value":1e999}]}' }), 'ScorerWrongValue'],
  ['a value of another type', {}, said({ value: 'high' }), 'ScorerWrongValue'],
  ['a boolean for yes or no', { values: 'yes-no' }, said({ value: true }), 'ScorerWrongValue'],
  ['a category in another case', { values: ['a', 'b'] }, said({ value: 'A' }), 'ScorerWrongValue'],
  ['a negative cost', {}, said({ value: 1, usd: -1 }), 'ScorerWrongValue'],
  ['the name of another scorer', {}, said({ value: 1, name: 'other' }), 'ScorerUnknownName'],
  ['an error of the record', {}, said({ error: { name: 'A', message: 'b' } }), 'ScorerFailed'],
  ['no result', {}, said(), 'ScorerWrongLength'],
  ['a result too many', {}, said({ value: 1 }, { value: 1 }), 'ScorerWrongLength'],
  ['no JSON', {}, () => ({ body: '<html>' }), 'ScorerReplyUnreadable'],
  ['null', {}, () => ({ body: 'null' }), 'ScorerReplyUnreadable'],
  ['a reply of 2 MB', {}, said({ value: 1, rationale: 'a'.repeat(2e6) }), 'ScorerReplyTooLong'],
  ['a reply over 6 MB', {}, failed('too long', 'Function.ResponseSizeTooLarge'), 'ScorerReplyTooLong'],
  ['an exception', {}, failed('of the function'), 'ScorerFailed'],
  ['its own time-out', {}, failed('Task timed out after 3.00 seconds'), 'ScorerTimedOut'],
  ['no reply', { seconds: 3 }, () => 'hang', 'ScorerTimedOut'],
];

test.each(FAULTS)('%s is an error of the record alone', async (_, of, bad, code) => {
  const value = 'values' in of ? (of.values === 'yes-no' ? 'yes' : 'a') : 0.5;
  const used = await Functions.start((request) => {
    const good = valuesFor(request, () => value);
    if (!request.records.some((record) => record.request?.text.includes('line 3'))) return good;
    const given = bad(good);
    if (typeof given === 'string' || !('body' in given) || !/Value|Name|Failed/.test(code)) return given;
    if (request.records.length === 1) return given;
    // With the others in one reply.
    const [result] =
      /\[(.*)\]/.exec(typeof given.body === 'string' ? given.body : JSON.stringify(given.body))?.slice(1) ?? [];
    const results = request.records.map((record) =>
      record.request?.text.includes('line 3') ? result : JSON.stringify({ value }),
    );
    return { body: `{"results":[${results}]}` };
  });
  await used.evaluate(5, of);
  const good = [[value], [value], [value], [code], [value]];
  expect([used.given().toSorted(), used.given(JUDGED)]).toEqual([good.toSorted(), each(5, 'yes')]);
});

test('a function that fails with every record is not asked about each', async () => {
  const used = await Functions.start(() => ({ error }));
  await used.evaluate(100);
  expect([used.given(), used.given(JUDGED)]).toEqual([each(100, 'ScorerFailed'), each(100, 'yes')]);
  expect(used.lambda.requests.length).toBeLessThan(50);
});

test.each([
  ['was deleted', { status: 404, refused: 'ResourceNotFoundException' } as const, 'ScorerRefused'],
  ['may not be invoked', { status: 403, refused: 'AccessDeniedException' } as const, 'ScorerRefused'],
  ['lacks the scorer', { body: { error: { name: 'UnknownScorer', message: 'has a' } } }, 'ScorerRefused'],
  ['is throttled', { status: 429, refused: 'TooManyRequestsException' } as const, 'ScorerThrottled'],
])('a function that %s fails the chunk by name, and costs no other verdict', async (_, answer, name) => {
  const used = await Functions.start(() => answer);
  await used.failed(20);
  expect([used.given(), used.given(JUDGED)]).toEqual([each(20), each(20, 'yes')]);
  const receipts = JSON.stringify([...used.rig.storage.objects.values()].map(String));
  expect(receipts).toContain(name);
});

describe('money', () => {
  const spentOf = async (used: Functions): Promise<number> => {
    const receipts = [...used.rig.storage.objects].filter(([key]) => key.includes('/receipts/'));
    return receipts.reduce((sum, [, bytes]) => sum + JSON.parse(String(bytes)).spend.usd, 0);
  };
  const judge = 20 * ((1000 * 3 + 100 * 15) / 1e6);

  test.each([
    ['its maximum', (request: never) => valuesFor(request), 0.2],
    ['what it reports', priced(0.001), 0.02],
    ['its maximum for a call without an answer too', brokenOnce(), 0.4],
  ])('a record costs %s', async (_, answer, usd) => {
    const used = await Functions.start(answer as Answer);
    await used.evaluate(20, { usdPerRecord: 0.01 }, new OwnLimit(100));
    expect(await spentOf(used)).toBeCloseTo(judge + usd, 9);
    expect(used.given()).toEqual(each(20, 0.5));
  });

  test('verdicts without room in the budget are held, and the others are given', async () => {
    const used = await Functions.start();
    await used.evaluate(20, { usdPerRecord: 1 }, new OwnLimit(7));
    expect(used.given().flat()).toEqual(Array(6).fill(0.5));
    expect(used.given(JUDGED)).toEqual(each(20, 'yes'));
  });

  test('a cost above the maximum is booked, and ends the scorer for the run, and for no other run', async () => {
    const used = await Functions.start(priced(0.5));
    const limit = new OwnLimit(100);
    await used.evaluate(8, { usdPerRecord: 0.01 }, limit);
    expect([used.given().flat().length, used.lambda.requests.length]).toEqual([8, 1]);
    expect(await limit.reserve(100 - 8 * 0.5 + 0.01)).toBe('held');
    const next = used.rig.request('r', {}, 0, [...lines(8), chatLine('another')]);
    await used.rig.evaluate(next, await used.more(next, { usdPerRecord: 0.01 }));
    expect([used.given().flat().length, used.lambda.requests.length]).toEqual([8, 1]);
    const other = { ...next, run: 'r2' };
    await used.rig.evaluate(other, await used.more(other, { usdPerRecord: 1 }));
    expect([used.given().flat().length, used.lambda.requests.length]).toEqual([9, 2]);
  });
});

function priced(usd: number): Answer {
  return ({ records }) => ({ body: { results: records.map(() => ({ value: 0.5, usd })) } });
}

function brokenOnce(): Answer {
  return (request, invocation) => (invocation === 1 ? 'cut' : valuesFor(request));
}

/** What happens to an invocation: the function or its connection fails, or EvaluateTraces is killed in one of its attempts. */
const MISHAPS = [
  'hang',
  'cut',
  'throttled',
  'short',
  'exception',
  'NaN',
  'killed',
  'killed before it is written',
] as const;

test('no verdict is lost or counted twice over 40 kills, throttles and wrong replies', async () => {
  for (let n = 0; n < 40; n += 1) {
    const mishap = MISHAPS[n % MISHAPS.length];
    // The first invocation, or the second of a chunk that has more.
    const [at, count] = n < 24 ? [1, 12] : [2, 60];
    let isKilled = false;
    const used = await Functions.start((request, invocation) => {
      const good = valuesFor(request);
      if (invocation !== at) return good;
      isKilled = mishap === 'killed';
      if (mishap === 'hang' || mishap === 'cut') return mishap;
      if (mishap === 'throttled') return { status: 429, refused: 'TooManyRequestsException' };
      if (mishap === 'short') return { body: { results: [] } };
      if (mishap === 'exception') return { error };
      return mishap === 'NaN' ? { body: '{"results":[NaN]}' } : good;
    });
    used.rig.store.fault = () => {
      if (isKilled) throw new Error('killed');
    };
    const request = used.rig.request('r', {}, 0, lines(count));
    // A busy machine answers within 3 s, too.
    const of = { seconds: mishap === 'hang' ? 3 : 60, usdPerRecord: 0.01 };
    if (mishap === 'killed before it is written') await used.rig.killed(request, await used.more(request, of));
    else if (mishap === 'killed') await used.rig.failed(request, await used.more(request, of)).catch(() => undefined);
    isKilled = false;
    used.rig.store.fault = () => {};
    const again = { ...request, attempt: 1 };
    const cell = await used.rig.evaluate(again, await used.more(again, of));
    expect([mishap, used.given()]).toEqual([mishap, each(count, 0.5)]);
    if (mishap?.startsWith('killed')) expect(used.asked).toEqual(Array(count).fill(1));
    expect(JSON.stringify(cell)).toContain(`"${NAME}"`);
    await used.lambda.close();
  }
});
