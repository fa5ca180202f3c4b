/** Calls with several independent prompts: what the judge reads, which scorers apply, and what the trace shows. */
import { requestPreview, responsePreview } from '../../../src/captures/trace/preview.ts';
import type { Capture } from '../../../src/captures/types.ts';
import { buildPrompt, userText } from '../../../src/judge/prompt/build-prompt.ts';
import { captureRecord } from '../../../src/judge/prompt/record.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import { answerByRule } from '../../../src/judge/stand-in/answer.ts';
import { readOwnPrompt } from '../../../src/judge/stand-in/read-prompt.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

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
