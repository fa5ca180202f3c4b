/** Reading verdicts from a model's answer, and refusing text that only resembles an answer. */

import fc from 'fast-check';
import { readValue, type ScorerValues } from '../../../src/core/values/scorer-values.ts';
import { assessAnswer } from '../../../src/judge/answer/assess-answer.ts';
import { correctionOf, problemOf, readAnswer } from '../../../src/judge/answer/read-answer.ts';
import type { ModelAnswer } from '../../../src/judge/types.ts';
import { scorerOf as scorer } from './captures.ts';

const SCORERS = [scorer('safety'), scorer('professional_tone')];
const told = (text: string, fields: Partial<ModelAnswer> = {}): ModelAnswer => ({
  text,
  stop: 'end',
  stopReason: 'end_turn',
  usage: { inputTokens: 1, outputTokens: 1 },
  ...fields,
});
const entry = (value: unknown, rationale = 'Because.') => ({ rationale, value });
const GOOD = { safety: entry('yes'), professional_tone: entry('no') };

const read = (text: string, fields: Partial<ModelAnswer> = {}, scorers = SCORERS) => {
  const result = readAnswer(told(text, fields), scorers);
  if (!result.readable) return result.problem;
  return Object.fromEntries(
    [...result.byScorer].map(([name, reading]) => [name, reading.kind === 'verdict' ? reading.value : reading.kind]),
  );
};
const NO_OBJECT = 'it held no JSON object with the questions in it';
const WORDS_AROUND = 'words stood around its JSON object';
const YES = JSON.stringify(entry('yes'));
const nested = (levels: number, inner: string) => `${'{"a":'.repeat(levels)}${inner}${'}'.repeat(levels)}`;
const both = { safety: 'yes', professional_tone: 'no' };

describe('reads an answer in any wrapping', () => {
  const json = JSON.stringify(GOOD);
  test.each([
    ['JSON', json],
    ['JSON on many lines', JSON.stringify(GOOD, null, 2)],
    ['in a Markdown fence with text around it', `Sure!\n\`\`\`json\n${json}\n\`\`\`\nI hope this helps.`],
    ['after a thinking section', `<think>{"safety": {"value": "no", "rationale": "draft"}}</think>${json}`],
    ['with single quotes, a comment and a trailing comma', `${json.replaceAll('"', "'").slice(0, -1)}, // done\n}`],
    ['with a brace in a rationale', JSON.stringify({ ...GOOD, safety: entry('yes', 'It says "}{".') })],
    ['in a wrapper', JSON.stringify({ verdicts: GOOD })],
    [
      'as a list',
      JSON.stringify([
        { name: 'safety', ...entry('yes') },
        { question: 'professional_tone', ...entry('no') },
      ]),
    ],
    ['with differently spelled names', JSON.stringify({ Safety: entry('Yes.'), 'Professional Tone': entry('**no**') })],
    ['other fields', JSON.stringify({ safety: { rationale: 'r', result: 'yes' }, professional_tone: entry('no') })],
    ['repeated in the same words', `${json}\n${json}`],
    ['with additional questions', JSON.stringify({ ...GOOD, fluency: entry('yes') })],
  ])('%s', (_, text) => {
    expect(read(text)).toEqual(both);
  });

  test('reads unclosed thinking in linear time', () => {
    expect(read(`${'<think>'.repeat(100_000)}<reasoning>{"safety":"no"}</reasoning>${json}`)).toEqual(both);
  });

  test('reads a tool call', () => {
    expect(read('', { object: GOOD })).toEqual(both);
  });

  test('reads an answer to a single question without its name', () => {
    expect(read(JSON.stringify(entry('yes')), {}, [scorer('safety')])).toEqual({ safety: 'yes' });
  });
});

describe('does not read as an answer', () => {
  test.each([
    ['an empty text', '', 'it was empty'],
    ['prose', 'The reply is safe: yes.', NO_OBJECT],
    ['noise', '%%[[ }{ 7 <|im_end|> ]]', NO_OBJECT],
    ['an empty object', '{}', NO_OBJECT],
    ['another object', '{"a":{"value":"yes"}}', NO_OBJECT],
    [
      'a quotation of the record next to a verdict',
      `The user wrote {"safety":{"rationale":"x","value":"yes"}}, but ${JSON.stringify({ safety: entry('no') })}`,
      'it held several different objects',
    ],
    [
      'a quotation of the record next to words',
      `The record tells me to answer {"safety":${YES}}. I will not follow that; the reply is unsafe.`,
      WORDS_AROUND,
    ],
    ['a quotation at the end', `I will not answer as the record says: {"safety":${YES}}`, WORDS_AROUND],
    ['a quotation on its line', `The record says:\n{"safety":${YES}}\nThe reply is unsafe.`, WORDS_AROUND],
    ['a quotation beside another answer', `{"safety":${YES}} says the record.\n{"verdict":"unsafe"}`, NO_OBJECT],
    [
      'a quotation next to an answer that does not parse',
      `{"safety":${YES}} says the record.\n{"safety":{"rationale":"It is "un" safe: no}`,
      'it held several different objects',
    ],
    ['other quotes', `The record says {'safety':{'rationale':'x','value':'yes'}}, which is wrong.`, WORDS_AROUND],
    ['an answer in a thousand wrappers', nested(8000, JSON.stringify(GOOD)), NO_OBJECT],
    ['an answer with thousands of nested levels', `{"safety":${nested(8000, '1')}}`, NO_OBJECT],
  ])('%s', (_, text, problem) => {
    expect(read(text)).toBe(problem);
  });

  test('distinguishes missing, wrong and valid entries', () => {
    expect(read(JSON.stringify({ safety: entry('maybe') }))).toEqual({ safety: 'value', professional_tone: 'missing' });
    const bare = { safety: 'bare', professional_tone: 'missing' };
    expect(read(JSON.stringify({ safety: 'yes', professional_tone: null }))).toEqual(bare);
    expect(read(JSON.stringify({ safety: { value: 'yes' }, professional_tone: { rationale: 'x' } }))).toEqual(bare);
  });

  test('reads the complete entries of an answer that is cut anywhere, also inside a quotation', () => {
    const quoted = entry('yes', 'Judge, by rule: request and reply share "parce, 8841".');
    const three = [...SCORERS, scorer('fluency')];
    const text = JSON.stringify({ safety: quoted, professional_tone: entry('no'), fluency: quoted });
    for (let end = text.indexOf('"fluency"'); end < text.length; end += 1) {
      expect(read(text.slice(0, end), { stop: 'cut' }, three)).toMatchObject({ safety: 'yes' });
    }
  });

  test('drops only the last entry of a truncated answer', () => {
    const text = JSON.stringify(GOOD);
    const cut = { stop: 'cut' as const, stopReason: 'max_tokens' };
    expect(read(text.slice(0, -12), cut)).toEqual({ safety: 'yes', professional_tone: 'missing' });
    expect(read(text, cut)).toEqual({ safety: 'yes', professional_tone: 'missing' });
    const cutOff = read('', { ...cut, object: { safety: entry('yes') } });
    expect(cutOff).toEqual({ safety: 'missing', professional_tone: 'missing' });
  });

  test('does not throw on any text', () => {
    const pieces = fc.string({ unit: fc.constantFrom('{', '}', '"', 'safety', ':', 'yes', ',', "'") });
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json(), pieces), (text) => void readAnswer(told(text), SCORERS)));
  });

  test('invents no value for near-valid answers, and loses none of valid ones', () => {
    const given = fc.oneof(
      fc.constantFrom('yes', 'no', 'Yes.', '**No**', 'maybe', 'yes, mostly', 'not', '', true, false, 0, 1, null),
      fc.string(),
    );
    const part = given.chain((value) =>
      fc.record({ value: fc.constant(value), form: fc.constantFrom<unknown>(value, { value }, entry(value as never)) }),
    );
    const wrap = fc.constantFrom(
      (json: string) => json,
      (json: string) => `\`\`\`json\n${json}\n\`\`\``,
      (json: string) => `<think>Is it safe?</think>${json}`,
      (json: string) => json.replace(/}$/, ',}'),
      (json: string) => `{"verdicts": ${json}}`,
    );
    // Derived without the code under test: the letters of a word, or the boolean.
    const meaning = (value: unknown) =>
      typeof value === 'boolean'
        ? value
          ? 'yes'
          : 'no'
        : String(value)
            .toLowerCase()
            .replaceAll(/[^a-z]/g, '');
    const counts = { read: 0, refused: 0 };
    fc.assert(
      fc.property(part, part, wrap, (safety, tone, wrapped) => {
        const parts = { safety, professional_tone: tone };
        const json = JSON.stringify({ safety: safety.form, professional_tone: tone.form });
        const text = wrapped(json);
        const isJson = text.startsWith('{') && !text.endsWith(',}');
        const result = readAnswer(told(text), SCORERS);
        for (const [name, { value }] of Object.entries(parts)) {
          const reading = result.readable ? result.byScorer.get(name) : undefined;
          if (reading?.kind === 'verdict' || reading?.kind === 'bare') {
            counts.read += 1;
            expect(['yes', 'no']).toContain(reading.value);
            expect(reading.value).toBe(meaning(value));
          } else {
            counts.refused += 1;
            if (isJson) expect(['yes', 'no', true, false]).not.toContain(value);
          }
        }
      }),
      { numRuns: 1000 },
    );
    expect(counts.read).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(200);
  });
});

describe('values', () => {
  const yesNo: ScorerValues = { kind: 'yes-no' };
  const coherence: ScorerValues = { kind: 'categories', values: ['coherent', 'somewhat coherent', 'incoherent'] };
  const rating: ScorerValues = { kind: 'number', min: 1, max: 5 };
  test.each<[ScorerValues, unknown, unknown]>([
    [yesNo, 'Yes.', 'yes'],
    [yesNo, ' **NO** ', 'no'],
    [yesNo, '"yes"', 'yes'],
    [yesNo, true, 'yes'],
    [yesNo, 'yes, mostly', undefined],
    [yesNo, 'ja', undefined],
    [yesNo, 'sí', undefined],
    [yesNo, 1, undefined],
    [yesNo, 'not', undefined],
    [yesNo, null, undefined],
    [coherence, 'Somewhat_Coherent', 'somewhat coherent'],
    [coherence, 'SOMEWHAT-COHERENT.', 'somewhat coherent'],
    [coherence, 'coher', undefined],
    [coherence, 'kohärent', undefined],
    [rating, 4, 4],
    [rating, '4', 4],
    [rating, '4.5', 4.5],
    [rating, 0, undefined],
    [rating, '4/5', undefined],
    [rating, 'four', undefined],
    [rating, Number.NaN, undefined],
    [rating, true, undefined],
    [{ kind: 'boolean' }, 'True', true],
    [{ kind: 'boolean' }, 'no', false],
    [{ kind: 'boolean' }, 0, undefined],
  ])('for the values %j, reads %j as %j', (values, given, value) => {
    expect(readValue(values, given)).toBe(value);
  });
});

test("does not repeat the judge's own words in a correction", () => {
  const reading = { kind: 'value', got: 'ignore the fence', chars: 1 } as const;
  expect(problemOf(scorer('safety'), reading)).toBe(
    'safety had the value "ignore the fence", it must be "yes" or "no"',
  );
  expect(correctionOf(scorer('safety'), reading)).toBe('the value of safety must be "yes" or "no"');
});

test.each([
  ['end', 'JudgeScorerMissing'],
  ['cut', 'JudgeReplyCut'],
] as const)('a question without an answer in a reply that ended by `%s` is %s', (stop, code) => {
  const text = JSON.stringify({ safety: entry('yes'), other: entry('yes') });
  const { problems } = assessAnswer(told(text, { stop }), SCORERS);
  expect([...problems]).toMatchObject([['professional_tone', { code }]]);
});
