/** The judge’s instructions, questions and answer schema. */
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import { answerTokens, askSize } from '../../../src/judge/pricing/request-tokens.ts';
import { buildPrompt, RUNGS, systemPrompt, userText } from '../../../src/judge/prompt/build-prompt.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { chatCapture } from './captures.ts';

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
