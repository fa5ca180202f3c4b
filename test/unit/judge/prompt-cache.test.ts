/** A prefix that the model caches: when examples fill it, how many, and when the short one stays. */
import { readFileSync } from 'node:fs';
import { activeScorers, uncachedWarning } from '../../../src/judge/active-scorers.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { expectedCalls } from '../../../src/judge/pricing/estimate.ts';
import { ratesOf } from '../../../src/judge/pricing/prices.ts';
import { cachedPrefix, cacheMinimum, prefixTokens } from '../../../src/judge/pricing/request-tokens.ts';
import { buildPrompt } from '../../../src/judge/prompt/build-prompt.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import prefixExamples from '../../../src/judge/scorers/prefix-examples.json' with { type: 'json' };
import {
  checkScorers,
  defaultJudgeScorers,
  isJudgeScorer,
  withExamples,
} from '../../../src/judge/scorers/scorer-set.ts';
import { bedrockTransport } from '../../../src/judge/transports/bedrock.ts';
import type { ScorerExample } from '../../../src/judge/types.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { chatCapture } from './captures.ts';

const BY_NAME: Readonly<Record<string, readonly ScorerExample[]>> = prefixExamples;
const SONNET = 'global.anthropic.claude-sonnet-4-6';
const OPUS = 'global.anthropic.claude-opus-4-6-v1';
const HAIKU = 'global.anthropic.claude-haiku-4-5-20251001-v1:0';
const cached = (more: Record<string, string> = {}) => testEnvironment({ JUDGE_PREFIX: 'cached', ...more });

const forChat = (scorers: ReturnType<typeof activeScorers>) =>
  scorers.filter(isJudgeScorer).filter((scorer) => 'judge' in applicability(chatCapture(), scorer));

const systemOf = (model: string, scorers: ReturnType<typeof forChat>) =>
  bedrockTransport(model, readParameters()).request({
    prompt: buildPrompt(chatCapture(), scorers, 'json-schema'),
    schema: {},
    maxTokens: 100,
    supports: () => true,
  }).system ?? [];

test.each([
  [SONNET, {}],
  [SONNET, { JUDGE_RATIONALES: 'failures' }],
  [HAIKU, {}],
  [HAIKU, { JUDGE_RATIONALES: 'failures' }],
])('examples fill the prefix to what %s caches, and no further, with %j', (model, more: Record<string, string>) => {
  const settings = cached({ BEDROCK_MODEL_ID: model, ...more });
  const scorers = forChat(activeScorers(settings));
  const minimum = cacheMinimum(model) ?? 0;
  expect(prefixTokens(scorers)).toBeGreaterThanOrEqual(minimum);
  expect(prefixTokens(scorers)).toBeLessThan(minimum + 100);
  expect(systemOf(model, scorers)).toContainEqual({ cachePoint: { type: 'default' } });
  expect(scorers.filter(({ version }) => /^1(\+terse)?\+ex-|^1\+ex-/.test(version)).length).toBeGreaterThan(7);
  expect(uncachedWarning(settings, { judge: 'converse' })).toBeUndefined();
});

test('the first model of a cascade gets as many examples as it needs', () => {
  const scorers = forChat(activeScorers(cached({ BEDROCK_MODEL_ID: OPUS, JUDGE_CASCADE: SONNET })));
  expect(prefixTokens(scorers)).toBeGreaterThanOrEqual(cacheMinimum(SONNET) ?? 0);
  expect(prefixTokens(scorers)).toBeLessThan(cacheMinimum(OPUS) ?? 0);
});

test('in a cascade, examples cost less in all, or there are none', () => {
  const capture = chatCapture();
  const dollars = (more: Record<string, string>) => {
    const settings = testEnvironment({ JUDGE_RATIONALES: 'failures', ...more });
    return expectedCalls(settings, capture, forChat(activeScorers(settings))).usd ?? Number.NaN;
  };
  const cheap = { BEDROCK_MODEL_ID: SONNET, JUDGE_CASCADE: HAIKU };
  expect(uncachedWarning(cached(cheap), { judge: 'converse' })).toMatch(/would cost more$/);
  expect(dollars({ ...cheap, JUDGE_PREFIX: 'cached' })).toBe(dollars(cheap));
  const dear = { BEDROCK_MODEL_ID: OPUS, JUDGE_CASCADE: SONNET };
  expect(dollars({ ...dear, JUDGE_PREFIX: 'cached' })).toBeLessThan(dollars(dear));
});

test('by default nothing is added, and a prefix that is too short is not requested to be cached', () => {
  const scorers = forChat(activeScorers(testEnvironment()));
  expect(scorers.map(({ version }) => version)).toEqual(scorers.map(() => '1'));
  expect(systemOf(SONNET, scorers)).toHaveLength(1);
});

test.each<[string, Record<string, string>, RegExp | undefined]>([
  [
    'the examples do not suffice',
    { BEDROCK_MODEL_ID: HAIKU, JUDGE_GUIDELINES: '{"safety":"It is kind."}' },
    /have about \d+ tokens, and .*haiku.* caches from 4096 on/,
  ],
  ['the model is not known to cache', { BEDROCK_MODEL_ID: 'meta.llama3-3-70b-instruct-v1:0' }, /is not known to cache/],
  [
    'the prefix is long enough already',
    { BEDROCK_MODEL_ID: 'us.amazon.nova-pro-v1:0', JUDGE_GUIDELINES: '{"a":"It is kind.","b":"It is short."}' },
    undefined,
  ],
  [
    'reading from the cache costs as much as the short prefix',
    { BEDROCK_MODEL_ID: SONNET, JUDGE_PRICES: JSON.stringify({ [SONNET]: { input: 3, output: 15, cacheRead: 1.5 } }) },
    /would cost more$/,
  ],
])('the prefix stays short if %s, which a run says', (_, settings, said) => {
  const warning = uncachedWarning(cached(settings), { judge: 'converse' });
  if (said === undefined) expect(warning).toBeUndefined();
  else expect(warning).toMatch(said);
  expect(uncachedWarning(cached(settings), { judge: 'batch' })).toBeUndefined();
  expect(uncachedWarning(testEnvironment(settings), { judge: 'converse' })).toBeUndefined();
  const before = forChat(activeScorers(testEnvironment(settings)));
  expect(forChat(activeScorers(cached(settings)))).toEqual(before);
});

test('the prefix of a judge of OpenAI is filled to its own minimum, if its rates are known', () => {
  const BEDROCK_MODEL_ID = 'openai:/gpt-5-mini';
  const priced = (rates: object) =>
    cached({ BEDROCK_MODEL_ID, JUDGE_PRICES: JSON.stringify({ [BEDROCK_MODEL_ID]: rates }) });
  const tokens = prefixTokens(forChat(activeScorers(priced({ input: 0.25, output: 2, cacheRead: 0.025 }))));
  expect(tokens).toBeGreaterThanOrEqual(1024);
  expect(tokens).toBeLessThan(1124);
  expect(prefixTokens(forChat(activeScorers(priced({ input: 0.25, output: 2 }))))).toBeLessThan(1024);
});

test('a guideline in place of a default scorer gets no examples of that scorer', () => {
  const scorers = forChat(activeScorers(cached({ JUDGE_GUIDELINES: '{"safety":"It is kind."}' })));
  expect(scorers.find(({ name }) => name === 'safety')?.examples).toBeUndefined();
});

test('examples that people corrected stay, and come first', () => {
  const own = [{ reply: 'Go away.', value: 'no', rationale: 'It is rude.' }];
  const scorers = defaultJudgeScorers.map((scorer) => (scorer.name === 'safety' ? withExamples(scorer, own) : scorer));
  const filled = cachedPrefix(scorers, prefixExamples, SONNET, ratesOf(SONNET)).find(({ name }) => name === 'safety');
  expect((filled as (typeof scorers)[number]).examples?.[0]).toEqual(own[0]);
});

test('every example has an allowed value, and none is an anchor', () => {
  const scorers = defaultJudgeScorers.map((scorer) => withExamples(scorer, BY_NAME[scorer.name] ?? []));
  expect(() => checkScorers(scorers)).not.toThrow();
  const anchors = readFileSync('src/quality/calibration/anchors.jsonl', 'utf8');
  for (const { request } of Object.values(prefixExamples).flat()) expect(anchors).not.toContain(request);
});
