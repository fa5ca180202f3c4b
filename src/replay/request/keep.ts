/**
 * The form in which a replay keeps requests and replies if captures are masked. It sends the requests unmasked, as
 * captured.
 */

import { NOT_MASKED } from '../../captures/redact/encoded.ts';
import { Masker } from '../../captures/redact/mask.ts';
import { maskedLine } from '../../captures/redact.ts';
import type { DecodeOptions } from '../../captures/types.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import type { Body } from '../reply/content.ts';

/** The rules of masking, and the column names of tables. */
export type Masking = Partial<Pick<DecodeOptions, 'csvHeader' | 'featureNames'>> & {
  redaction?: DecodeOptions['redaction'] | undefined;
};

/** Returns a copy of the value with empty texts. */
const withoutTexts = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, inner) => (typeof inner === 'string' ? '' : inner)));

export type Keep = NonNullable<ReturnType<typeof keepMasked>>;

/** @returns `undefined` if nothing is masked */
export function keepMasked({ redaction, ...tables }: Masking) {
  if (redaction === undefined) return undefined;
  const masker = (): Masker => new Masker(redaction, tables.featureNames);
  /** Masks a record. With `CONTENT=none`, it is judged before its content is removed. */
  const record = (whole: object): { captureData?: Record<string, { data: string }> } =>
    Object(jsonIn(maskedLine(Buffer.from(JSON.stringify(whole)), { redaction, ...tables }) ?? ''));
  return {
    content: redaction.content ?? 'all',
    record,
    /** Masks texts of requests and replies, or leaves them empty. */
    texts: <T>(value: T): T =>
      (redaction.content === 'none' ? withoutTexts(value) : masker().value(structuredClone(value), true)) as T,
    /** Masks a body like its trace, by cells and fields. Drops bytes that are not text. */
    body: (side: 'endpointInput' | 'endpointOutput', { bytes, contentType: observedContentType }: Body): string => {
      if (redaction.content === 'none') return '';
      const captured = { observedContentType, data: bytes.toString('base64'), encoding: 'BASE64' };
      try {
        return Buffer.from(
          record({ captureData: { [side]: captured } }).captureData?.[side]?.data ?? '',
          'base64',
        ).toString();
      } catch {
        return NOT_MASKED;
      }
    },
    /** Masks an id or a name. `CONTENT=none` keeps ids and names. */
    id: (text: string): string => masker().text(text),
  };
}
