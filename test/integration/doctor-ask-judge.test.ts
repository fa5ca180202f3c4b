/** `doctor --ask-judge`: one call, whose most is said before, and which teaches the functions of a deployed stack. */
import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { checkAnswer } from '../../bin/doctor/ask-judge.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { Learned } from '../../src/judge/models/learned.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { createItemTable } from '../helpers/item-table.ts';
import { testEnvironment } from '../helpers/test-environment.ts';
import { useStandIn } from './judge/setup.ts';

const rig = useStandIn();
const MODEL = 'us.anthropic.claude-sonnet-6';
const JUDGE_PRICES = `{"${MODEL}":{"input":2,"output":10}}`;
const before = { ...process.env };
let ministack: MiniStack;

beforeAll(async () => {
  ministack = await startMiniStack();
  await createItemTable(ministack.url, 'limits');
  const keys = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
  const servers = { AWS_ENDPOINT_URL_BEDROCK_RUNTIME: rig.standIn.url, AWS_ENDPOINT_URL_DYNAMODB: ministack.url };
  Object.assign(process.env, keys, servers);
});
afterAll(async () => {
  process.env = before;
  await ministack?.stop();
});

let said: string[] = [];
beforeEach(() => {
  said = [];
  jest.spyOn(process.stderr, 'write').mockImplementation((text) => said.push(String(text)) > 0);
});
afterEach(() => jest.restoreAllMocks());

/** @param table of the deployed stack */
const asked = (settings: Record<string, string> = { JUDGE_PRICES }, table = 'limits') => {
  const send = async () => ({ Environment: { Variables: { BUDGET_TABLE: table } } });
  const context = { lambda: { send } as never, region: 'us-east-1', settings: testEnvironment(settings) as never };
  return checkAnswer(context, MODEL);
};

test.each([
  ['answers', {}, 'ok', /^The judge answered 9 of 9 questions in \d+ tokens, for \$0\.00/, 1],
  ['leaves out scorers', { fault: 'missing-keys' }, 'error', /JudgeScorerMissing/, 1],
  ['is cut', { fault: 'cut' }, 'warning', /thinks for longer/, 1],
  ['refuses every request', { models: { '*': { state: 'denied' } } }, 'error', /did not answer/, 1],
] as const)(
  'a judge that %s is asked once, and its most is said before',
  async (_, behavior, level, message, calls) => {
    rig.behave(behavior);
    expect(await asked(undefined, '')).toMatchObject({ level, message: expect.stringMatching(message) });
    expect(said.join('')).toMatch(/^Asking us\.anthropic\.claude-sonnet-6 one question, for \$0\.0\d+ at most\./);
    expect(rig.standIn.counts.calls).toBe(calls);
  },
);

test('keeps what the model refuses for the functions of a deployed stack', async () => {
  rig.behave({ models: { '*': { jsonSchema: 'rejected', temperature: 'rejected' } } });
  expect(await asked()).toMatchObject({ level: 'ok' });
  expect(rig.standIn.counts).toMatchObject({ answered: 1, refused: 2 });
  const learned = new Learned(MODEL, limitsTable({ BUDGET_TABLE: 'limits' }));
  await learned.ready();
  expect(learned.refused).toEqual(['json-schema', 'temperature']);
});

test('a reply that may have been paid for is not asked for again', async () => {
  let calls = 0;
  const broken = createServer((_, response) => {
    calls += 1;
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"output":');
  });
  await once(broken.listen(0, '127.0.0.1'), 'listening');
  const { AWS_ENDPOINT_URL_BEDROCK_RUNTIME: url } = process.env;
  process.env.AWS_ENDPOINT_URL_BEDROCK_RUNTIME = `http://127.0.0.1:${(broken.address() as AddressInfo).port}`;
  const found = await asked(undefined, '').finally(() => broken.close());
  process.env.AWS_ENDPOINT_URL_BEDROCK_RUNTIME = url;
  expect(found).toMatchObject({ level: 'error', message: expect.stringMatching(/may have cost \$0\.01\d+\.$/) });
  expect(said.join('')).toMatch(/for \$0\.01\d+ at most/);
  expect(calls).toBe(1);
});

test('asks nothing at an unknown price', async () => {
  expect(await asked({})).toMatchObject({ level: 'warning' });
  expect(said).toEqual([]);
});
