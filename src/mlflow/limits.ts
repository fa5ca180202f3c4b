/** MLflow's limits, and texts cut to them with a mark that shows it. The full payload is always in the span. */
import { cleanText, cut, fitted } from '../trace/text.ts';

export const MAX_PREVIEW_CHARS = 1_000;
export const MAX_TAG_CHARS = 4_096;
/** Of trace metadata (session, user) and of assessment metadata. */
export const MAX_METADATA_CHARS = 250;
/** Of `client_request_id`: the database's column. An inference id may have 64; it is whole in its tag. */
export const MAX_CLIENT_ID_CHARS = 50;
/** MLflow has no limit of its own; in some of its databases the column holds 64 KB, at up to 4 bytes a character. */
export const MAX_RATIONALE_CHARS = 16_000;
/** Of assessment names and source ids: the database's columns. */
export const MAX_NAME_CHARS = 250;

const MARK = '… [cut]';

/** UTF-16 units are counted, which are never fewer than the characters that MLflow counts. */
export function storableText(text: string, maxChars: number): string {
  return cut(cleanText(text), maxChars, MARK);
}

/** Cuts an identifier so that two different ones stay different: `<beginning>…#<16 hex digits of its SHA-256>`. */
export const cutIdentifier = (id: string, maxChars?: number): string => fitted(id, maxChars, '…#');

/** MLflow refuses tags whose names hold other characters, or drops them without a word. */
export const tagKey = (key: string): string => key.replace(/[^\w\-. :/]/g, '_').slice(0, MAX_NAME_CHARS);

/** A lone surrogate as `JSON.stringify` writes it; an escaped backslash before `u` is matched so that it is passed over. */
const LONE_SURROGATE = /\\\\|\\u(?=d[89a-f])[0-9a-f]{4}/g;

/** JSON that every UTF-8 reader can take. `undefined` becomes `null`. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  if (!json.includes('\\ud')) return json;
  return json.replace(LONE_SURROGATE, (match) => (match === '\\\\' ? match : '\ufffd'));
}
