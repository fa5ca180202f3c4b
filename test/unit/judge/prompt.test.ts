/**
 * The prompt of the judge: instructions, questions, the record of what was captured, and which scorers apply to it.
 * `what-is-judged.json` has exchanges: a request, its reply, and the record; or the reason why the reply is not judged.
 * A side with `as` has that content type, any other is JSON.
 */

import { readFileSync } from 'node:fs';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { requestPreview, responsePreview } from '../../../src/captures/trace/preview.ts';
import type { Capture } from '../../../src/captures/types.ts';
import { activeScorers, uncachedWarning } from '../../../src/judge/active-scorers.ts';
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { expectedCalls } from '../../../src/judge/pricing/estimate.ts';
import { ratesOf } from '../../../src/judge/pricing/prices.ts';
import {
  answerTokens,
  askSize,
  cachedPrefix,
  cacheMinimum,
  prefixTokens,
} from '../../../src/judge/pricing/request-tokens.ts';
import { buildPrompt, RUNGS, systemPrompt, userText } from '../../../src/judge/prompt/build-prompt.ts';
import { captureRecord } from '../../../src/judge/prompt/record.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import prefixExamples from '../../../src/judge/scorers/prefix-examples.json' with { type: 'json' };
import {
  checkScorers,
  defaultJudgeScorers,
  isJudgeScorer,
  withExamples,
} from '../../../src/judge/scorers/scorer-set.ts';
import { answerByRule } from '../../../src/judge/stand-in/answer.ts';
import { readOwnPrompt } from '../../../src/judge/stand-in/read-prompt.ts';
import { bedrockTransport } from '../../../src/judge/transports/bedrock.ts';
import type { JudgeScorer, ScorerExample } from '../../../src/judge/types.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf } from '../captures/arbitraries.ts';
import { chatCapture, exchangeCapture, plainCapture, textPayload, toolCallCapture } from './captures.ts';
import cases from './what-is-judged.json' with { type: 'json' };

const asked = defaultJudgeScorers.filter((scorer) => 'judge' in applicability(chatCapture(), scorer));
const values = { kind: 'number', min: 1, max: 5 } as const;
const asks = { name: 'rating', version: '1', question: 'How good is it?' };
const rating: JudgeScorer = { kind: 'judge', ...asks, values, needs: ['reply'] };

test('begins with the same text for every capture, so that it can be cached', () => {
  const one = buildPrompt(chatCapture(), asked, 'json-schema');
  const other = buildPrompt(chatCapture({ user: 'Something else?' }), asked, 'json-schema');
  expect(other.system).toBe(one.system);
  expect(one.system).not.toContain(one.fence);
  expect(other.fence).not.toBe(one.fence);
});

test('lists every question and its values in the instructions, on every rung', () => {
  for (const rung of RUNGS) {
    const system = systemPrompt([...asked, rating], rung);
    for (const { question } of asked) expect(system).toContain(question);
    expect(system).toContain('coherence ("coherent" or "somewhat coherent" or "incoherent"): ');
    expect(system).toContain('rating (a number from 1 to 5): ');
  }
});

test('puts captured text only into the record', () => {
  const marker = 'ZEBRA-7731';
  const prompt = buildPrompt(chatCapture({ system: marker, user: marker, reply: marker }), asked, 'prompt');
  const outside = `${prompt.system}${prompt.user.before}${prompt.user.after}`;
  expect(outside).not.toContain(marker);
  expect(prompt.user.record.split(marker)).toHaveLength(4);
  expect(userText(prompt)).toBe(`${prompt.user.before}\n${prompt.user.record}\n${prompt.user.after}`);
});

test('asks for the rationale before the value in the schema, and allows only the listed values', () => {
  const schema = answerSchema([...asked, rating]) as {
    required: string[];
    properties: Record<
      string,
      { required: string[]; properties: Record<string, unknown>; additionalProperties: boolean }
    >;
  };
  expect(schema.required).toEqual([...asked, rating].map(({ name }) => name));
  for (const entry of Object.values(schema.properties)) {
    expect(Object.keys(entry.properties)).toEqual(['rationale', 'value']);
    expect(entry).toMatchObject({ required: ['rationale', 'value'], additionalProperties: false });
  }
  const coherence = ['coherent', 'somewhat coherent', 'incoherent'];
  expect(schema.properties.coherence?.properties.value).toEqual({ type: 'string', enum: coherence });
  // Models refuse `minimum` and `maximum` in an enforced schema.
  expect(schema.properties.rating?.properties.value).toEqual({ type: 'number' });
});

test('puts a scorer’s examples after its question', () => {
  const example = { request: 'Is it there?', reply: 'No idea.', value: 2, rationale: 'It does not help.' };
  const system = systemPrompt([{ ...rating, examples: [example] }], 'json-schema');
  expect(system).toContain(
    'How good is it?\nExample: {"request":"Is it there?","reply":"No idea.","rationale":"It does not help.","value":2}',
  );
});

test('states the problem of an earlier answer in a correction', () => {
  const { user } = buildPrompt(chatCapture(), asked, 'prompt', { correction: 'safety was not answered' });
  expect(user.after).toMatch(/^An earlier answer could not be used: safety was not answered\. Answer/);
});

test('bounds an answer by the number of its scorers', () => {
  expect([1, 2].map((scorers) => answerTokens(scorers))).toEqual([230, 360]);
  // A model that counts more tokens for the same text gets them.
  const properties = { tokens: 1.3 };
  expect(answerTokens(2, { properties, thinkingTokens: 50 })).toBe(518);
  expect(answerTokens(2, { properties, maxTokens: 77 })).toBe(77);
  expect(askSize(chatCapture(), asked.slice(0, 2))).toMatchObject({ maxOutputTokens: 360, outputTokens: 216 });
});

// ----------------------------------------------------------------------------------- prefixes that a model caches

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
  // The second has a higher minimum, and the last is not known to cache.
  for (const model of [SONNET, HAIKU, 'meta.llama3-3-70b-instruct-v1:0'])
    expect(systemOf(model, scorers)).toHaveLength(1);
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

// -------------------------------------------------------------------------------------- several prompts in a call

function decoded(request: unknown, reply: unknown): Capture {
  return decodedOf(lineOf(jsonRecord(request, reply)));
}

/** Returns the lines of the record below its first heading. */
function linesOf(capture: Capture): string[] {
  const { fence, text } = captureRecord(capture, 24_000);
  return text.replaceAll(`#${fence} `, '# ').split('\n').slice(2, -1);
}

const ASKED = ['How tall is a fern?', 'Does moss flower?'];
const SAID = ['Up to a meter.', 'No, it has spores.'];
const PAIRED = ['# prompt 1 of 2', ASKED[0], '# REPLY to prompt 1 of 2', SAID[0]].concat([
  '# prompt 2 of 2',
  ASKED[1],
  '# REPLY to prompt 2 of 2',
  SAID[1],
]);
const needs = { needs: ['request', 'reply'] } as const;

test.each<[string, unknown, unknown]>([
  ['summaries', { inputs: ASKED }, SAID.map((text) => ({ summary_text: text }))],
  ['generations', { inputs: ASKED }, SAID.map((text) => ({ generated_text: text }))],
  ['generations in lists', { inputs: ASKED }, SAID.map((text) => [{ generated_text: text }])],
  ['one list of texts', { inputs: ASKED }, { generated_text: SAID }],
  ['adapters of LMI', { inputs: ASKED, adapters: ['a', 'b'] }, SAID.map((text) => ({ generated_text: text }))],
  ['completions', { prompt: ASKED }, { choices: SAID.map((text, index) => ({ index, text, finish_reason: 'stop' })) }],
  ['SGLang', { text: ASKED }, SAID.map((text) => ({ text, meta_info: { finish_reason: { type: 'stop' } } }))],
])('each prompt is judged with its own reply: %s', (_, request, reply) => {
  const capture = decoded(request, reply);
  expect(linesOf(capture)).toEqual(PAIRED);
  expect(captureRecord(capture, 24_000).text).toMatch(/ 2 independent prompts of one call\..*no alternatives/);
  expect(applicability(capture, needs)).toEqual({ judge: true });
  expect([requestPreview(capture), responsePreview(capture)]).toEqual([`1 of 2: ${ASKED[0]}`, `1 of 2: ${SAID[0]}`]);
});

test('several replies to each prompt stay with it', () => {
  const texts = ['a1', 'a2', 'b1', 'b2'];
  const choices = texts.map((text, index) => ({ index, text, finish_reason: 'stop' }));
  expect(linesOf(decoded({ prompt: ASKED, n: 2 }, { choices }))).toEqual([
    ...['# prompt 1 of 2', ASKED[0], '# REPLY 1 of 2 to prompt 1 of 2', 'a1', '# REPLY 2 of 2 to prompt 1 of 2', 'a2'],
    ...['# prompt 2 of 2', ASKED[1], '# REPLY 1 of 2 to prompt 2 of 2', 'b1', '# REPLY 2 of 2 to prompt 2 of 2', 'b2'],
  ]);
});

test.each<[string, unknown]>([
  ['more', [...SAID, 'and more'].map((text) => ({ generated_text: text }))],
  ['fewer', [{ generated_text: SAID[0] }]],
  ['unevenly many', [[{ generated_text: 'a' }], ['b', 'c', 'd'].map((text) => ({ generated_text: text }))]],
])('prompts with %s replies are not judged', (_, reply) => {
  const capture = decoded({ inputs: ASKED }, reply);
  expect(applicability(capture, needs)).toEqual({ notJudgeable: 'promptsNotPaired' });
  expect(capture.inferenceMismatch).toBeDefined();
});

test('the stand-in judges each pair by itself, and the worst reply decides', () => {
  const judged = (replies: string[]): Record<string, unknown> => {
    const capture = decoded(
      { inputs: ASKED },
      replies.map((text) => ({ generated_text: text })),
    );
    const scorers = defaultJudgeScorers.filter((scorer) => 'judge' in applicability(capture, scorer));
    const prompt = buildPrompt(capture, scorers, 'json-schema');
    const read = readOwnPrompt(prompt.system, userText(prompt));
    return read === undefined ? {} : answerByRule(read);
  };
  const good = ['A fern is 1 m tall.', 'Moss does not flower.'];
  expect(judged(good)).toMatchObject({ relevance_to_query: { value: 'yes' }, professional_tone: { value: 'yes' } });
  expect(judged(good.toReversed())).toMatchObject({ relevance_to_query: { value: 'no' } });
  expect(judged([`${good[0]} Idiot.`, good[1] as string])).toMatchObject({ professional_tone: { value: 'no' } });
});

test('JSON is asked for if each prompt asks for it', () => {
  const judged = (inputs: string[]) =>
    codeScorers
      .find(({ name }) => name === 'valid_json')
      ?.score(
        decoded(
          { inputs },
          SAID.map((text) => ({ generated_text: text })),
        ),
      );
  expect(judged([ASKED[0] as string, 'Answer in JSON.'])).toEqual({ notJudgeable: 'jsonNotRequested' });
  expect(judged(['Answer in JSON.', 'Reply with JSON only.'])).toMatchObject({ value: false });
});

// -------------------------------------------------------------------------------------------- which scorers apply

const of = (capture: Capture, ...needs: JudgeScorer['needs'][number][]) => applicability(capture, { needs });
const judged = { judge: true };
const bytes = { ...textPayload('x'), kind: 'binary' } as const;

test('applies all scorers that need no tools to a chat', () => {
  const applied = defaultJudgeScorers.map((scorer) => [scorer.name, applicability(chatCapture(), scorer)]);
  const expected = defaultJudgeScorers.map(({ name, needs }) => [
    name,
    needs.includes('tools') ? { notJudgeable: 'noToolCalls' } : judged,
  ]);
  expect(applied).toEqual(expected);
  expect(expected).toContainEqual(['tool_call_correctness', { notJudgeable: 'noToolCalls' }]);
});

test('applies only scorers that need no reply text to a reply with only tool calls', () => {
  const applied = defaultJudgeScorers.filter((scorer) => 'judge' in applicability(toolCallCapture(), scorer));
  expect(applied).toEqual(defaultJudgeScorers.filter(({ needs }) => !needs.includes('reply')));
  expect(applied.map(({ name }) => name)).toContain('tool_call_correctness');
  expect(of(toolCallCapture(), 'reply')).toEqual({ notJudgeable: 'noReplyText' });
});

test.each<[string, Capture, JudgeScorer['needs'][number][], string]>([
  ['an error reply', { ...chatCapture(), error: { statusCode: 424, message: 'x' } }, ['reply'], 'errorReply'],
  ['no response', { ...chatCapture({ replies: [] }), response: undefined as never }, ['reply'], 'noResponse'],
  ['an empty response', { ...chatCapture(), response: { ...textPayload(''), kind: 'empty' } }, ['reply'], 'noResponse'],
  ['a conversation without a reply', chatCapture({ replies: [] }), ['reply'], 'emptyReply'],
  ['a reply of white space', chatCapture({ reply: '  \n' }), ['reply'], 'emptyReply'],
  ['no request', chatCapture({ messages: [] }), ['request', 'reply'], 'noRequest'],
  ['no message', chatCapture({ messages: [{ role: 'system', content: 'x' }] }), ['request'], 'noRequest'],
  ['no prompt', chatCapture({ messages: [{ role: 'user', content: 'x' }] }), ['system-prompt'], 'noSystemPrompt'],
  ['a vector', plainCapture({ format: 'embedding', response: textPayload('[1,2]', [1, 2]) }), ['reply'], 'notText'],
  ['bytes', plainCapture({ format: 'binary', response: bytes }), ['reply'], 'notText'],
  [
    'JSON without words',
    plainCapture({ format: 'json', response: textPayload('{"a":3}', { a: 3 }) }),
    ['reply'],
    'notText',
  ],
])('does not judge %s', (_, capture, needs, reason) => {
  expect(of(capture, ...needs)).toEqual({ notJudgeable: reason });
});

test('applies scorers that need no request if only the reply was captured', () => {
  const capture = chatCapture({ messages: [] });
  expect(of(capture, 'reply')).toEqual(judged);
});

test('never reads a JSON document of unknown form as an exchange', () => {
  const json = plainCapture({
    format: 'json',
    request: textPayload('{"q":"Where is it?"}', { q: 'Where is it?' }),
    response: textPayload('{"a":{"text":"It is in Bern."}}', { a: { text: 'It is in Bern.' } }),
  });
  expect(of(json, 'request', 'reply')).toEqual({ notJudgeable: 'notText' });
});

test('treats a legacy function call as a tool call', () => {
  const reply = { role: 'assistant', content: null, function_call: { name: 'track', arguments: '{}' } };
  expect(of(chatCapture({ replies: [reply] }), 'tools')).toEqual(judged);
});

test.each(['reply', 'request'])('a %s that is too heavy to decode is not judged as its base64', (side) => {
  const bytes = gzipSync(JSON.stringify({ choices: [{ message: { role: 'assistant', content: ' '.repeat(60e6) } }] }));
  const data = { observedContentType: 'application/json', data: bytes.toString('base64'), encoding: 'BASE64' };
  const heavy = { ...data, mode: side === 'reply' ? ('OUTPUT' as const) : ('INPUT' as const) };
  const ask = jsonSide('INPUT', { messages: [{ role: 'user', content: 'Where is it?' }] }, 'plain');
  const capture = decodedOf(lineOf(side === 'reply' ? captureOf(ask, heavy as never) : captureOf(heavy as never, ask)));
  expect(capture.notes.join()).toContain('TooHeavy');
  expect(of(capture, 'reply')).toEqual({ notJudgeable: 'notDecoded' });
  for (const scorer of codeScorers) expect(scorer.score(capture)).toHaveProperty('notJudgeable');
});

test.each([
  ['reply', ['reply'], 'noResponse'],
  ['request', ['request', 'reply'], 'noRequest'],
] as const)('bytes, such as a %s in brotli, are no words', (side, needs, reason) => {
  const asked = { messages: [{ role: 'user', content: 'Where is it?' }] };
  const told = { choices: [{ message: { role: 'assistant', content: 'It is in Bern.' }, finish_reason: 'stop' }] };
  const body = (mode: 'INPUT' | 'OUTPUT', value: object, isPacked: boolean) => {
    const packed = brotliCompressSync(JSON.stringify(value)).toString('base64');
    const plain = jsonSide(mode, value, 'plain');
    return isPacked ? { ...plain, data: packed, encoding: 'BASE64' as const } : plain;
  };
  const sides = [body('INPUT', asked, side === 'request'), body('OUTPUT', told, side === 'reply')] as const;
  expect(of(decodedOf(lineOf(captureOf(...sides))), ...needs)).toEqual({ notJudgeable: reason });
});

test('compares an exchange of a replay only if there is a captured reply to compare with', () => {
  const captured = { bucket: 'b', key: 'k', etag: 'e', start: 0, end: 9 };
  const compared = exchangeCapture(captured);
  const needs = ['request', 'reply', 'captured-reply'] as const;
  expect(of(compared, ...needs)).toEqual(judged);
  expect(of(exchangeCapture(undefined), ...needs)).toEqual({ notJudgeable: 'nothingToCompare' });
  expect(of(chatCapture(), ...needs)).toEqual({ notJudgeable: 'nothingToCompare' });
  // An ordinary question about the same exchanges needs none.
  expect(of(exchangeCapture(undefined), 'request', 'reply')).toEqual(judged);
  expect(of({ ...compared, error: { statusCode: 500, message: 'x' } }, ...needs)).toEqual({
    notJudgeable: 'errorReply',
  });
});

// ------------------------------------------------------------------------------------------------- what is judged

interface Case {
  title: string;
  request?: unknown;
  reply?: unknown;
  format: string;
  record?: string[];
  reason?: string;
  notes?: string[];
}

const sideOf = (value: unknown): never | undefined => {
  if (value === undefined) return undefined;
  const { as, data, encoding } = Object(value) as Record<string, string>;
  const typed = { observedContentType: as, data, encoding: encoding ?? 'JSON' };
  const json = { observedContentType: 'application/json', data: JSON.stringify(value), encoding: 'JSON' };
  return (as === undefined ? json : typed) as never;
};

function captured(request: unknown, reply: unknown): Capture {
  return decodedOf(lineOf(captureOf(sideOf(request), sideOf(reply))));
}

const recordOf = (capture: Capture): string[] => {
  const { text, fence } = captureRecord(capture, 24_000);
  const lines = text.split('\n').map((line) => line.replace(`#${fence}`, '#'));
  return lines.slice(1, -1);
};

const reasonsOf = (capture: Capture, names: string[]): unknown[] =>
  codeScorers.filter(({ name }) => names.includes(name)).map((scorer) => scorer.score(capture));
const REPLY_SCORERS = ['response_words', 'response_length', 'reply_language', 'repeated_text'];

test.each(cases as Case[])('$title', ({ request, reply, format, record, reason, notes = [] }) => {
  const capture = captured(request, reply);
  expect(capture.format).toBe(format);
  expect(capture.notes).toEqual(notes);
  const applied = applicability(capture, { needs: ['reply'] });
  if (record !== undefined) {
    expect(applied).toEqual({ judge: true });
    expect(recordOf(capture)).toEqual(record);
    return;
  }
  expect(applied).toEqual({ notJudgeable: reason });
  if (reason !== 'notText') return;
  const names = notes.length > 0 ? REPLY_SCORERS : [...REPLY_SCORERS, 'pii_detected'];
  for (const found of reasonsOf(capture, names)) expect(found).toEqual({ notJudgeable: 'notText' });
});

test('a label may be an answer where there are messages, a question, or a template around the prompt', () => {
  const replies = ['Yes', '42'].map((text) => [{ generated_text: text }]);
  const judged = (inputs: unknown): boolean[] =>
    replies.map((reply) => 'judge' in applicability(captured({ inputs }, reply), { needs: ['reply'] }));
  expect(judged([{ role: 'user', content: 'Go on' }])).toEqual([true, true]);
  expect(judged('Is it open?')).toEqual([true, false]);
  expect(judged('Review: good film\nIs it good:')).toEqual([true, false]);
  expect(judged('[INST] Is it open [/INST]')).toEqual([true, false]);
  expect(judged('good film')).toEqual([false, false]);
});
