/** The code scorers of a reply's form: `valid_json`, `repeated_text` and `cut_off`. */
import { findLoop } from '../../../src/judge/scorers/code/repetition.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { chatCapture, errorCapture, textCapture } from '../../helpers/captures.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

const scorer = (name: string) => codeScorers.find((candidate) => candidate.name === name) as (typeof codeScorers)[0];

describe('valid_json', () => {
  const { score } = scorer('valid_json');
  const asked = (reply: string) => score(chatCapture('List two colours', reply, { jsonRequested: true }));

  test.each(['{"a":1}', ' [1, 2]\n', '"text"', 'null'])('accepts %p', (reply) =>
    expect(asked(reply)).toMatchObject({ value: true }),
  );
  test.each([
    ['{"a":1', 'ends before the JSON does'],
    ['{"a":1,}', 'breaks at character 7'],
    ["{'a':1}", 'breaks at character 1'],
    ['Sure! {"a":1}', 'not JSON'],
    ['```json\n{"a":1}\n```', 'Markdown code fence'],
    [' ```\n\n{"a":1}\n\n``` \n', 'Markdown code fence'],
    ['```json\n```', 'not JSON'],
    ['', 'empty'],
  ])('rejects %p', (reply, why) =>
    expect(asked(reply)).toEqual({ value: false, rationale: expect.stringContaining(why) }),
  );

  const messages = [{ role: 'user', content: 'Two colours' }];
  const chat = { choices: [{ message: { role: 'assistant', content: 'Red.' } }] };
  const generated = { text: 'Red.', meta_info: {} };
  test.each<[string, boolean, object, object]>([
    ['structured_outputs of vLLM', true, { messages, structured_outputs: { json: { type: 'object' } } }, chat],
    ['json_object of vLLM', true, { messages, structured_outputs: { json_object: true } }, chat],
    ['guided_json of NIM', true, { messages, nvext: { guided_json: { type: 'object' } } }, chat],
    [
      'output_config of Anthropic',
      true,
      { messages, system: 's', max_tokens: 9, output_config: { format: { type: 'json_schema', schema: {} } } },
      { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Red.' }], stop_reason: 'end_turn' },
    ],
    ['a choice of vLLM', false, { messages, structured_outputs: { choice: ['Red.'] } }, chat],
    ['json_schema of SGLang', true, { text: 'Two', sampling_params: { json_schema: '{}' } }, generated],
    ['a regex of SGLang', false, { text: 'Two', sampling_params: { regex: 'R.*' } }, generated],
    ['the format of Ollama', true, { messages, format: 'json' }, { message: messages[0] as object, done: true }],
    ['a schema of Ollama', true, { prompt: 'Two', format: { type: 'object' } }, { response: 'Red.', done: true }],
    ['no format of Ollama', false, { prompt: 'Two', format: '' }, { response: 'Red.', done: true }],
    ['another format', false, { messages, format: 'mp3' }, chat],
  ])('whether %s asks for JSON: %p', (_, asks, request, reply) => {
    const capture = decodedOf(lineOf(jsonRecord(request, reply)));
    expect(score(capture)).toMatchObject(asks ? { value: false } : { notJudgeable: 'jsonNotRequested' });
  });

  test.each(['', '{"a":1,'])('reads a reply of endless line breaks after a fence and %j in linear time', (start) =>
    expect(asked(`\`\`\`json\n${start}${'\n'.repeat(500_000)}`)).toMatchObject({ value: false }),
  );

  test.each([
    'Respond only with JSON.',
    'Extract the name and the date as JSON.',
    'Please return the result as a JSON object with the keys a and b.',
    'Summarise this. Your answer must be valid JSON.',
    'You are an API.\nOutput JSON only, no prose',
    'Give me a single JSON array of all the cities',
  ])('finds a request for JSON in %p', (prompt) =>
    expect(score(chatCapture(prompt, 'no'))).toMatchObject({ value: false }),
  );

  test.each([
    'How do I return JSON from a Flask view?',
    'Write a Python function that returns JSON.',
    'What is JSON?',
    'Answer in plain words, not JSON.',
    'Write a JSON parser in Rust.',
    'Do not return JSON.',
    'Explain what { "a": 1 } means',
  ])('finds no request for JSON in %p', (prompt) =>
    expect(score(chatCapture(prompt, 'no'))).toEqual({ notJudgeable: 'jsonNotRequested' }),
  );

  test('reads the system prompt and the last user message, but not earlier ones', () => {
    const messages = (system: string, first: string) => [
      { role: 'system', content: system },
      { role: 'user', content: first },
      { role: 'assistant', content: '{}' },
      { role: 'user', content: 'Thanks, and in words?' },
    ];
    expect(score(chatCapture(messages('Always answer in JSON.', 'Hi'), 'Hello'))).toMatchObject({ value: false });
    expect(score(chatCapture(messages('Be kind.', 'Respond in JSON: hi'), 'Hello'))).toEqual({
      notJudgeable: 'jsonNotRequested',
    });
  });

  test('fails on one bad choice, and does not judge tool calls alone and errors', () => {
    const choices = ['{}', '{'].map((content) => ({ role: 'assistant', content }));
    expect(score(chatCapture('x', choices, { jsonRequested: true }))).toMatchObject({ value: false });
    const call = { type: 'function' as const, function: { name: 'f', arguments: '{}' } };
    const callOnly = [{ role: 'assistant', content: null, tool_calls: [call] }];
    expect(score(chatCapture('x', callOnly, { jsonRequested: true }))).toEqual({ notJudgeable: 'noReplyText' });
    const failed = errorCapture('boom');
    if (failed.conversation) failed.conversation.jsonRequested = true;
    expect(score(failed)).toEqual({ notJudgeable: 'errorReply' });
  });

  test('does not quote the reply in the rationale', () => {
    expect(JSON.stringify(asked('{"secret": hunter2}'))).not.toContain('hunter2');
  });
});

describe('repeated_text', () => {
  const { score } = scorer('repeated_text');
  test.each([
    ['a word', `The answer is ${'very '.repeat(9)}good.`],
    ['a phrase', `Well, ${'I am not sure about that, '.repeat(5)}`],
    [
      'a paragraph',
      `${'First you open the box, then you take out the parts and lay them side by side.\n\n'.repeat(4)}`,
    ],
    ['a sentence', [...'abcde'].map((w) => `Please note that this is important. It is ${w}.`).join(' ')],
    ['Chinese', `答案是${'我不知道'.repeat(6)}`],
  ])('finds %s in a loop', (_, text) => expect(score(textCapture('x', text))).toMatchObject({ value: true }));

  test.each([
    ['prose', 'The cat sat on the mat. The dog sat on the rug. The bird sat on the branch, and the fish swam.'],
    ['a laugh', 'Ha ha ha ha, that is a good one.'],
    ['a table', `| a | b |\n| --- | --- |\n${'| 0 | 0 |\n'.repeat(20)}`],
    [
      'a numbered list',
      Array.from({ length: 12 }, (_, i) => `${i + 1}. Step ${i + 1} of ${'abcdefghijkl'[i]}`).join('\n'),
    ],
    ['code', `\`\`\`html\n${'</div>\n'.repeat(12)}\`\`\``],
    ['nothing', ''],
  ])('finds no loop in %s', (_, text) => expect(score(textCapture('x', text))).toEqual({ value: false }));

  test('names the unit and the number of repetitions', () => {
    expect(findLoop(`${'?!'.repeat(200_000)}a b c d e`)).toBeUndefined();
    expect(findLoop(`Start. ${'over and out '.repeat(7)}`)).toEqual({ unit: 'over and out', times: 7 });
  });

  test('does not judge errors', () => {
    expect(score(errorCapture('fail '.repeat(20)))).toEqual({ notJudgeable: 'errorReply' });
  });
});

describe('cut_off', () => {
  const { score } = scorer('cut_off');
  const ended = (...finishReasons: string[]) => score(chatCapture('x', 'y', { finishReasons }));
  test.each(['length', 'max_tokens', 'max_output_tokens', 'MAX_TOKENS', 'model_length'])('is true for %s', (reason) =>
    expect(ended(reason)).toMatchObject({ value: true }),
  );
  test.each(['stop', 'tool_calls', 'end_turn', 'eos_token', 'content_filter'])('is false for %s', (reason) =>
    expect(ended(reason)).toEqual({ value: false }),
  );
  test('is true if one of several choices is cut off', () => {
    expect(ended('stop', 'length')).toEqual({ value: true, rationale: '1 of 2 choices ended by the limit: length' });
  });
  test('is not judgeable without a finish reason, or for an error', () => {
    expect(ended()).toEqual({ notJudgeable: 'noFinishReason' });
    expect(score(errorCapture('x'))).toEqual({ notJudgeable: 'errorReply' });
  });
});
