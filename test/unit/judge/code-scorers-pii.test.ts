/** The code scorer that finds personal data. */
import { findPii } from '../../../src/judge/scorers/code/pii.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { chatCapture, errorCapture, tabularCapture, textCapture } from '../../helpers/captures.ts';
import TABLE from './personal-data.json' with { type: 'json' };

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
  expect(score(chatCapture(messages, 'Write to help@example.com or bob@example.com.'))).toMatchObject({ value: true });
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
