/** The code scorers: those that count, of a reply's form, of languages, of personal data, and of the times of a call. */

import { readFileSync } from 'node:fs';
import { apart } from '../../../src/captures/content.ts';
import { failureOf, kindBesideRates } from '../../../src/captures/failure.ts';
import { countWords } from '../../../src/captures/prose.ts';
import { requestTexts } from '../../../src/captures/reply-text.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { detectLanguage } from '../../../src/judge/scorers/code/language.ts';
import { findPii } from '../../../src/judge/scorers/code/pii.ts';
import { findLoop } from '../../../src/judge/scorers/code/repetition.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { askedOf } from '../../../src/judge/scorers/scorer-set.ts';
import { chatCapture, errorCapture, tabularCapture, textCapture } from '../../helpers/captures.ts';
import { timedLine } from '../../helpers/timed-line.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';
import TABLE from './personal-data.json' with { type: 'json' };
import SENTENCES from './sentences.json' with { type: 'json' };

const scorer = (name: string) => codeScorers.find((candidate) => candidate.name === name) as (typeof codeScorers)[0];

test('has unique names, and descriptions that state what is not measured', () => {
  expect(new Set(codeScorers.map(({ name }) => name)).size).toBe(codeScorers.length);
  for (const { description, version } of codeScorers) {
    expect(description).toMatch(/\bnot\b/);
    expect(version).toMatch(/^\d+$/);
  }
});

describe('response_words', () => {
  test.each([
    ['', 0],
    ['one', 1],
    ['  two   words\n', 2],
    ["It's a state-of-the-art reply — truly.", 6],
    ['今日は天気がいい', 5],
    ['ภาษาไทยไม่มีเว้นวรรค', 5],
    ['GPT は速い', 3],
  ])('counts the words of %p: %d', (text, words) => expect(countWords(text)).toBe(words));

  test('counts all choices, and the text parts of multi-part content', () => {
    const capture = chatCapture('Hi', [
      { role: 'assistant', content: 'one two' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'three four' },
          { type: 'image_url', image_url: { url: 'x y' } },
        ],
      },
    ]);
    expect(scorer('response_words').score(capture)).toEqual({ value: 4 });
  });

  test('counts no words in a reply with only tool calls, and does not judge a missing reply', () => {
    const call = { type: 'function' as const, function: { name: 'f', arguments: '{}' } };
    expect(
      scorer('response_words').score(chatCapture('Hi', [{ role: 'assistant', content: null, tool_calls: [call] }])),
    ).toEqual({ value: 0 });
    expect(scorer('response_words').score(chatCapture('Hi', undefined))).toEqual({ notJudgeable: 'noResponse' });
  });

  test('judges plain text, but neither error replies nor tables', () => {
    for (const name of ['response_words', 'response_length'])
      expect(scorer(name).score(errorCapture('upstream timed out'))).toEqual({ notJudgeable: 'errorReply' });
    expect(scorer('response_words').score(textCapture('a', 'b c'))).toEqual({ value: 2 });
    expect(scorer('response_words').score(tabularCapture())).toEqual({ notJudgeable: 'notText' });
  });
});

test('response_length counts code points', () => {
  expect(scorer('response_length').score(chatCapture('Hi', 'naïve 👍'))).toEqual({ value: 7 });
});

test('output_tokens is the endpoint’s count, and not judgeable without one', () => {
  const { score } = scorer('output_tokens');
  expect(score(chatCapture('Hi', 'Hello', { usage: { outputTokens: 7 } }))).toEqual({ value: 7 });
  expect(score(chatCapture('Hi', 'Hello', { usage: { outputTokens: 0 } }))).toEqual({ value: 0 });
  expect(score(chatCapture('Hi', 'Hello', { usage: { inputTokens: 3 } }))).toEqual({ notJudgeable: 'noUsage' });
  expect(score(chatCapture('Hi', 'Hello'))).toEqual({ notJudgeable: 'noUsage' });
});

test('the texts of a conversation are those of its messages that have one', () => {
  const asked = (content: string) => ({ role: 'user', content });
  const messages = [asked('a'), { role: 'assistant', content: null, tool_calls: [] }, asked('')];
  expect(requestTexts(chatCapture(messages, 'b'))).toEqual({ texts: ['a'] });
  expect(requestTexts(chatCapture(messages.slice(1), 'b'))).toEqual({ notJudgeable: 'notText' });
});

test('the texts of a request without a conversation are its payload, if the payload is text', () => {
  const plain = textCapture('a', 'b');
  expect(requestTexts(plain)).toEqual({ texts: ['a'] });
  expect(requestTexts({ ...plain, request: { ...plain.request, text: undefined } as never })).toEqual({
    notJudgeable: 'notText',
  });
  expect(requestTexts(tabularCapture())).toEqual({ notJudgeable: 'notText' });
});

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

describe('languages', () => {
  test.each(SENTENCES as [string, string][])('detects %s: %s', (language, sentence) => {
    expect(detectLanguage(sentence)).toEqual({ language });
  });

  test.each([
    ...['', 'ok', 'Merci !', 'iPhone 15 Pro', '42', '👍👍👍', 'https://example.com/de/hilfe/konto'],
    'Wie hoch ist der Großglockner?',
    // Close languages: Danish and Norwegian, Dutch and Afrikaans, Indonesian and Malay.
    'Kan jeg få regningen på e-post i stedet for på papir?',
    'Onze verwarming deed het gisteravond niet meer en de kinderen hebben het koud, wat kunnen we doen tot de loodgieter komt?',
    'Pemanas kami berhenti bekerja tadi malam dan anak-anak kedinginan, apa yang bisa kami lakukan sampai tukang datang?',
  ])('detects no language in %p', (text) => expect(detectLanguage(text)).toHaveProperty('notJudgeable'));

  test('detects no wrong language in the anchor set', () => {
    const anchors = readFileSync(packagePath('src', 'quality', 'calibration', 'anchors.jsonl'), 'utf8')
      .trim()
      .split('\n');
    const told = anchors.flatMap((anchor) => {
      const { request, reply } = JSON.parse(anchor) as { request: unknown; reply: unknown };
      const texts = [request, reply].filter((text) => typeof text === 'string');
      return texts.map((text) => ({ text, ...detectLanguage(text) })).filter((found) => 'language' in found);
    });
    expect(told.length).toBeGreaterThan(50);
    const others = told.filter((found) => 'language' in found && found.language !== 'en');
    expect(others).toMatchObject([
      { language: 'es', text: expect.stringMatching(/^Entre en su cuenta/) },
      { language: 'es', text: expect.stringMatching(/^Entrar en su cuenta/) },
      { language: 'fr', text: expect.stringMatching(/^Vous pouvez/) },
    ]);
  });

  test('ignores code, addresses and markup', () => {
    const english = 'Here is the function that you asked for, with a comment on each of the steps:';
    const code = '```js\nconst größe = ich.bin.nicht.der.mit.dem.und();\n```\n';
    expect(detectLanguage(`${english}\n${code.repeat(20)}`)).toEqual({ language: 'en' });
    expect(detectLanguage(code.repeat(20))).toEqual({ notJudgeable: 'textTooShort' });
    const path = 'wo-finde-ich-die-antwort-auf-meine-frage';
    const addresses = ['http://a.de/', 'https://a.de/', 'HTTPS://A.DE/', 'www.a.de/'].map((start) => `${start}${path}`);
    for (const address of addresses)
      expect(detectLanguage(`${address} `.repeat(9))).toEqual({ notJudgeable: 'textTooShort' });
  });

  test('does not judge a mix of two languages', () => {
    const mixed =
      'The meeting is on Monday and we will send you the agenda before then, please confirm that you can be there. ' +
      'Das Treffen ist am Montag und wir schicken Ihnen vorher die Tagesordnung, bitte sagen Sie uns, ob Sie kommen können.';
    const result = detectLanguage(mixed);
    if ('language' in result) expect(['en', 'de']).toContain(result.language);
    expect(result).not.toEqual({ language: 'nl' });
  });

  test('distinguishes request and reply, and ignores the language of the system prompt', () => {
    const capture = chatCapture(
      [
        { role: 'system', content: 'You are a helpful assistant. Always answer in the language of the user, please.' },
        {
          role: 'user',
          content:
            'Wie lange dauert der Versand in die Schweiz, und was kostet er, wenn ich mehrere Pakete auf einmal schicke?',
        },
      ],
      'Shipping to Switzerland takes three to five days and is free of charge for orders over 50 francs. With more than one parcel the others are sent at half the price.',
    );
    expect(scorer('request_language').score(capture)).toEqual({ value: 'de' });
    expect(scorer('reply_language').score(capture)).toEqual({ value: 'en' });
  });

  test('judges the request of an error reply, but not the error', () => {
    const capture = errorCapture('upstream connect error or disconnect before headers');
    expect(scorer('reply_language').score(capture)).toEqual({ notJudgeable: 'errorReply' });
    expect(scorer('request_language').score(capture)).toEqual({ notJudgeable: 'textTooShort' });
  });
});

describe('pii_detected', () => {
  const { score } = codeScorers.find(({ name }) => name === 'pii_detected') as (typeof codeScorers)[0];
  const kinds = (text: string) => findPii(text).map(({ kind }) => kind);

  describe('finds', () => {
    test.each(TABLE.found)('%s', (text, kind) => expect(kinds(text)).toEqual([kind]));
  });

  describe('does not find', () => {
    test.each(TABLE.harmless)('%s', (text) => expect(findPii(text)).toEqual([]));
  });

  test('names kinds, sides and masks in the rationale, but never the data', () => {
    const numbers = ['4111 1111 1111 1111', 'DE89 3704 0044 0532 0130 00', '536-22-8765', '+49 30 901820'];
    const secrets = ['anna@example.org', ...numbers];
    const result = score(chatCapture(`I am ${secrets[0]}`, secrets.slice(1).join('; ')));
    expect(result).toEqual({
      value: true,
      rationale:
        'request: 1 e-mail address (***@***.org); reply: 1 IBAN (DE***), 1 card number (***1111), ' +
        '1 US social security number (***-**-****), 1 phone number (***20)',
    });
    for (const secret of secrets) {
      for (const part of secret.split(/[ @;-]/).filter((piece) => piece.length > 3 && piece !== '1111')) {
        expect(JSON.stringify(result)).not.toContain(part);
      }
    }
  });

  test('ignores data that the system prompt contains', () => {
    const messages = [
      { role: 'system', content: 'Refer people to help@example.com.' },
      { role: 'user', content: 'Whom do I ask?' },
    ];
    expect(score(chatCapture(messages, 'Write to help@example.com.'))).toEqual({ value: false });
    expect(score(chatCapture(messages, 'Write to help@example.com or bob@example.com.'))).toMatchObject({
      value: true,
    });
  });

  test('counts many findings instead of listing them', () => {
    const list = Array.from({ length: 40 }, (_, index) => `user${index}@example.com`).join(', ');
    expect(score(textCapture('list them', `${list}, user1@example.com`))).toEqual({
      value: true,
      rationale: 'reply: 40 e-mail addresses (***@***.com, ***@***.com, ***@***.com, …)',
    });
  });

  test('judges neither error replies nor tables', () => {
    expect(score(errorCapture('no such user: eve@example.com'))).toEqual({ notJudgeable: 'errorReply' });
    expect(score(tabularCapture())).toEqual({ notJudgeable: 'notText' });
  });

  test.each(['a', 'a@', '1', '1 ', 'AB12', 'AB12 CD34 ', '+1 ', 'phone ', 'a.', '1-', 'aa@bb.cc '])(
    'scans two million characters of %p in linear time',
    (unit) => {
      const text = unit.repeat(2_000_000 / unit.length);
      const started = performance.now();
      findPii(text);
      // Linear patterns take less than 0.1 s, also on a busy machine far less than a minute. A quadratic one takes many minutes.
      expect(performance.now() - started).toBeLessThan(60_000);
    },
  );
});

describe('scorers of times', () => {
  const chat = { messages: [{ role: 'user', content: 'Do ferns flower?' }] };
  const answer = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'No.' } }],
    usage: { prompt_tokens: 9, completion_tokens: 35, total_tokens: 44 },
  };
  const stream = { streamed: true, ended: 'whole', status: 200, firstByteMs: 80.5, firstMs: 82.25, endMs: 432.25 };
  const broken = { error: { kind: 'stream', class: 'ModelStreamError' } };
  const ALL = { latency_ms: 432.25, time_to_first_token_ms: 82.25, output_tokens_per_second: 100 };
  const TIMES = Object.keys(ALL);

  function decoded(client: unknown, reply: unknown = answer) {
    return decodedOf(lineOf(timedLine(jsonRecord(chat, reply), client)));
  }

  /** What the scorers say that the capture is asked about. */
  function scored(client: unknown, reply?: unknown) {
    const capture = decoded(client, reply);
    const asked = askedOf(codeScorers, capture).filter(({ name }) => TIMES.includes(name));
    return Object.fromEntries(asked.map((scorer) => [scorer.name, Object.entries(scorer.score(capture)).flat()[1]]));
  }

  test.each<[string, unknown, Partial<typeof ALL>, unknown?]>([
    ['a whole stream', stream, ALL],
    [
      'a broken stream has its first token',
      { ...stream, ...broken, ended: 'broke' },
      { time_to_first_token_ms: 82.25 },
    ],
    ['a stream that its reader left has none', { ...stream, ended: 'left' }, {}],
    ['no reply has none', { streamed: true, ended: 'failed', endMs: 9, error: { kind: 'timeout', class: 'T' } }, {}],
    ['an unstreamed reply has its latency', { ...stream, streamed: false }, { latency_ms: 432.25 }],
    [
      'a stream without usage has no tokens per second',
      stream,
      { latency_ms: 432.25, time_to_first_token_ms: 82.25 },
      { ...answer, usage: undefined },
    ],
    ['an error that came as a whole reply has none', stream, {}, { error: { message: 'Too long', code: 400 } }],
    ['a bad status without an error has none', { ...stream, status: 500 }, {}],
    [
      'no time between first content and end',
      { ...stream, firstMs: 432.25 },
      { ...ALL, time_to_first_token_ms: 432.25, output_tokens_per_second: undefined },
    ],
    [
      'tokens that nobody can have counted in that time',
      stream,
      { ...ALL, output_tokens_per_second: undefined },
      { ...answer, usage: { ...answer.usage, completion_tokens: 1e9 } },
    ],
    ['negative times', { ...stream, firstByteMs: -1 }, {}],
    ['huge times', { ...stream, endMs: 1e9 }, {}],
    ['disordered times', { ...stream, firstMs: 500 }, {}],
    ['no client', undefined, {}],
  ])('%s', (_, client, expected, reply = answer) => {
    expect(scored(client, reply)).toEqual(JSON.parse(JSON.stringify(expected)));
  });

  test('a capture without times is asked what it was asked before, and all scorers of times give a reason if asked', () => {
    const capture = decoded(undefined);
    const asked = askedOf(codeScorers, capture).map(({ name }) => name);
    expect(asked).toEqual(codeScorers.map(({ name }) => name).filter((name) => !TIMES.includes(name)));
    expect(askedOf(codeScorers).map(({ name }) => name)).toEqual(asked);
    const others = codeScorers.filter(({ name }) => TIMES.includes(name));
    expect(others.map((scorer) => scorer.score(capture))).toEqual(others.map(() => ({ notJudgeable: 'notMeasured' })));
  });

  test('a capture whose content is in another process is asked the same, and is the same failure', () => {
    const failed = { streamed: false, ended: 'failed', endMs: 9, error: { kind: 'timeout', class: 'T' } };
    for (const client of [stream, failed, undefined]) {
      const capture = decoded(client);
      const kept = apart({ ...capture, results: new Map() });
      expect(askedOf(codeScorers, kept)).toEqual(askedOf(codeScorers, capture));
      expect([failureOf(kept), kindBesideRates(kept)]).toEqual([failureOf(capture), kindBesideRates(capture)]);
    }
  });
});
