/** The code scorer that compares the languages of request and reply. */
import { readFileSync } from 'node:fs';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { detectLanguage } from '../../../src/judge/scorers/code/language.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { chatCapture, errorCapture } from '../../helpers/captures.ts';
// As people write them to assistants.
import SENTENCES from './sentences.json' with { type: 'json' };

const scorer = (name: string) => codeScorers.find((candidate) => candidate.name === name) as (typeof codeScorers)[0];

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
