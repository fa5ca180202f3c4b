/** Files in messages of Bedrock's Converse, which names their form beside their bytes: what masking leaves of them. */
import { decodeLine } from '../../../src/captures/decode.ts';
import { redactRules } from '../../../src/core/settings/redact-setting.ts';
import { captureOf, jsonSide, lineOf } from './arbitraries.ts';

const MAIL = 'mail jane@example.com';
const base64 = (text: string): string => Buffer.from(text).toString('base64');

test.each([
  ...['txt', 'md', 'csv', 'html'].map((form) => ['document', form, base64('mail <email>')]),
  ...['pdf', 'doc', 'docx', 'xls', 'xlsx'].map((form) => ['document', form, '<not masked>']),
  ...['png', 'jpeg', 'gif', 'webp'].map((form) => ['image', form, base64(MAIL)]),
  ...['mp4', 'mov', 'three_gp'].map((form) => ['video', form, base64(MAIL)]),
])('%s of the form %s', (kind = '', format, bytes) => {
  const file = { format, name: 'a', source: { bytes: base64(MAIL) } };
  const body = { messages: [{ role: 'user', content: [{ text: 'What is it?' }, { [kind]: file }] }] };
  const redaction = { ...redactRules('email'), allow: [], content: undefined };
  const line = decodeLine(lineOf(captureOf(jsonSide('INPUT', body, 'plain'), undefined)), { redaction });
  const found = line.kind === 'capture' ? (line.capture.request?.value as typeof body) : undefined;
  expect(found?.messages[0]?.content[1]).toEqual({ [kind]: { ...file, source: { bytes } } });
});
