/** What a replay keeps of requests and replies, where captures are masked. It sends the requests as they were captured. */

import { maskedLine } from '../../captures/redact.ts';
import type { Redaction } from '../../core/settings/redact-setting.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { Masker } from '../../redact/mask.ts';

/** The same without texts. */
const withoutTexts = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, inner) => (typeof inner === 'string' ? '' : inner)));

export type Keep = ReturnType<typeof keepMasked>;

export const keepMasked = (redaction: Redaction) => ({
  content: redaction.content ?? 'all',
  /** Masks texts of requests and replies, or leaves them empty. */
  texts: <T>(value: T): T =>
    (redaction.content === 'none'
      ? withoutTexts(value)
      : new Masker(redaction).value(structuredClone(value), true)) as T,
  /** Masks ids in a line of JSON. */
  ids: (line: string): string => JSON.stringify(new Masker(redaction).value(JSON.parse(line), false)),
  /** Masks a record, which is judged before it goes with `CONTENT=none`. */
  record: (record: object): { captureData?: object } =>
    Object(jsonIn(maskedLine(Buffer.from(JSON.stringify(record)), { redaction }) ?? '')),
});
