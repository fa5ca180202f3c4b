/** Fits the text of assessments and names to MLflow's limits, with a visible mark where it is cut. */
import { cleanText, cut } from '../captures/trace/text.ts';

/** For `client_request_id`, a database column. An inference id can have 64 characters; its tag has the whole id. */
export const MAX_CLIENT_ID_CHARS = 50;
/** MLflow has no limit. In some of its databases the column has 64 KB, at up to 4 bytes per character. */
export const MAX_RATIONALE_CHARS = 16_000;
/** For assessment names and source ids, which are database columns. */
export const MAX_NAME_CHARS = 250;

const MARK = '… [cut]';

/** Cuts a text to a limit. It counts UTF-16 units, which are at least as many as the characters that MLflow counts. */
export function storableText(text: string, maxChars: number): string {
  return cut(cleanText(text), maxChars, MARK);
}

/** Matches a lone surrogate as `JSON.stringify` writes it, and an escaped backslash so that the `u` after it is skipped. */
const LONE_SURROGATE = /\\\\|\\u(?=d[89a-f])[0-9a-f]{4}/g;

/** Returns JSON that every UTF-8 reader accepts. `undefined` becomes `null`. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  if (!json.includes('\\ud')) return json;
  return json.replace(LONE_SURROGATE, (match) => (match === '\\\\' ? match : '\ufffd'));
}
