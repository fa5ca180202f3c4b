/** The code scorer that finds personal data. */
import { findPii } from '../../../src/judge/scorers/code/pii.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { passesLuhn, readIban } from '../../../src/redact/kinds.ts';
import { chatCapture, errorCapture, tabularCapture, textCapture } from '../../helpers/captures.ts';

const { score } = codeScorers.find(({ name }) => name === 'pii_detected') as (typeof codeScorers)[0];
const kinds = (text: string) => findPii(text).map(({ kind }) => kind);

describe('finds', () => {
  test.each([
    ['mail anna.schmidt+news@mail.example.co.uk, please', 'e-mail address'],
    ['<jürgen@münchen.de>', 'e-mail address'],
    ['card 4111 1111 1111 1111 exp 12/27', 'card number'],
    ['5500-0000-0000-0004', 'card number'],
    ['amex:378282246310005.', 'card number'],
    ['2223003122003222', 'card number'],
    ['6011000990139424', 'card number'],
    ['IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF', 'IBAN'],
    ['GB29NWBK60161331926819', 'IBAN'],
    ['NO93 8601 1117 947', 'IBAN'],
    ['FR14 2004 1010 0505 0001 3M02 606', 'IBAN'],
    ['my SSN is 536-22-8765', 'US social security number'],
    ['Social Security number: 536228765', 'US social security number'],
    ['+49 30 901820', 'phone number'],
    ['+44 (0)20 7946 0958', 'phone number'],
    ['+1-202-555-0143', 'phone number'],
    ['ring (202) 555-0143 now', 'phone number'],
    ['202-555-0143', 'phone number'],
    ['1.202.555.0143', 'phone number'],
    ['my number: 202 555 0143', 'phone number'],
    ['card no.4111111111111111', 'card number'],
    ['0033 1 42 68 53 00', 'phone number'],
    ['Tel. 030 901820', 'phone number'],
    ['Téléphone : 01 42 68 53 00', 'phone number'],
    ['call me at 07700 900 982', 'phone number'],
  ])('%s', (text, kind) => expect(kinds(text)).toEqual([kind]));
});

describe('does not find', () => {
  test.each([
    'version 4.1.1.1, released 2026-11-20',
    'card 4111 1111 1111 1112',
    'order 1234567890123452',
    'id 6f7a1c1e-6d3a-4c39-9a55-3a8c9a1f0a11',
    'DE89 3704 0044 0532 0130 01',
    'XX89370400440532013000',
    'ISBN 978-3-16-148410-0',
    'SSN 000-12-3456, 666-12-3456, 912-12-3456, 123-00-4567, 123-45-0000',
    'the sum is 1700000000000 ms, or +100 million',
    'a range of 100-200-3000',
    'rows 200 300 400 5000 and 0.4111111111111111',
    'call 2026-11-20 a holiday, or call 911',
    'x = 3.14159265358979 and 0.30000000000000004',
    '@decorator, user@localhost, a@b',
    '10 + 20 30 40 50 60 70 80',
    '192.168.100.200',
  ])('%s', (text) => expect(findPii(text)).toEqual([]));
});

test('verifies checksums', () => {
  expect(passesLuhn('79927398713')).toBe(true);
  expect(passesLuhn('79927398710')).toBe(false);
  expect(readIban('MT84 MALT 0110 0001 2345 MTLC AST0 01S')).toBe('MT84MALT011000012345MTLCAST001S');
  expect(readIban('MT84 MALT 0110 0001 2345 MTLC AST0 02S')).toBeUndefined();
});

test('names kinds, sides and masks in the rationale, but never the data', () => {
  const secrets = [
    'anna@example.org',
    '4111 1111 1111 1111',
    'DE89 3704 0044 0532 0130 00',
    '536-22-8765',
    '+49 30 901820',
  ];
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
