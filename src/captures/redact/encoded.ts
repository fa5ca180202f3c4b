/** Masks text that is encoded: in data URLs, in files in base64, in forms. The masked text is encoded again. */

import { isUtf8 } from 'node:buffer';

/** Replaces a text that cannot be decoded and so cannot be masked. */
export const NOT_MASKED = '<not masked>';

/** Maximum number of characters of base64, or of a form, that are decoded. */
const MAX_CHARS = 1024 * 1024;
/** A text without this mark has no data URL. */
export const DATA_URL_MARK = /;base64,/i;
/** A data URL. The base64 may have a line break after 60 to 80 characters, as in mail. */
const DATA_URL = /(data:[^,"'<>\n]{0,200};base64,(?:[\w+/-]{60,80}\r?\n)*[\w+/=-]*)/i;
const BASE64 = /^[\w+/\r\n-]*={0,2}\s?$/;

/** Media types of text, without a charset or with UTF-8 or ASCII. */
const TEXT_TYPE =
  /^(?:text\/[\w.+-]+|[\w.-]+\/(?:[\w.-]+\+)?(?:x-)?(?:json|xml|ya?ml|toml|csv|ndjson|jsonl|jsonlines|javascript|sql|www-form-urlencoded))?\s*(?:;(?!\s*charset=(?!"?(?:utf-?8|us-ascii)\b))[^;]*)*$/i;
/** Pictures, sounds and films have no text. */
const MEDIA_TYPE = /^(?:image|audio|video|font|model)\/(?!.*xml)/i;

type Mask = (text: string) => string;

/** Masks a text with data URLs. @param mask masks the text around the URLs @param inner masks the text that a URL encodes */
export const maskedUrls = (text: string, mask: Mask, inner: Mask): string =>
  text
    .split(DATA_URL)
    .map((part, at) => {
      if (at % 2 === 0) return mask(part);
      const data = part.slice(part.indexOf(',') + 1);
      const masked = maskedBase64(part.slice('data:'.length, part.indexOf(',') - ';base64'.length), data, inner);
      return masked === NOT_MASKED ? masked : part.slice(0, part.length - data.length) + masked;
    })
    .join('');

/**
 * Masks a text in base64.
 *
 * @param type a media type with its parameters; empty for text
 * @returns the same base64 if nothing is masked, or for pictures, sounds and films; `NOT_MASKED` if it cannot be read
 */
export function maskedBase64(type: string, base64: string, mask: Mask): string {
  if (MEDIA_TYPE.test(type)) return base64;
  const text = TEXT_TYPE.test(type) ? textIn(base64) : undefined;
  if (text === undefined) return NOT_MASKED;
  const masked = mask(text);
  if (masked === text) return base64;
  return Buffer.from(masked).toString(/[-_]/.test(base64) ? 'base64url' : 'base64');
}

/** @returns `undefined` if the base64 is too long, invalid, or not of text in UTF-8. Zeros are a sign of UTF-16 */
function textIn(base64: string): string | undefined {
  const bytes = Buffer.from(base64.length > MAX_CHARS || !BASE64.test(base64) ? '/w==' : base64, 'base64');
  return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString() : undefined;
}

const TYPES = ['mimeType', 'mime_type', 'media_type', 'mediaType', 'content_type', 'contentType'];
const FILES = ['data', 'bytes', 'file_data', 'fileData', 'blob', 'base64'];

const MEDIA_FORM = /^(?:png|jpe?g|gif|webp|mkv|mov|mp[34g]|mpeg|webm|flv|wmv|three_gp|wav|aac|flac|ogg|opus|m4a)$/;

/** Returns the media type of a file in Bedrock's Converse, which has a format instead: `{format: 'pdf', source: {bytes}}`. */
function typeOfForm(form: string): string {
  if (MEDIA_FORM.test(form)) return `video/${form}`;
  return `${/^(?:txt|md|csv|html)$/.test(form) ? 'text' : 'application'}/${form}`;
}

/**
 * Finds a file in base64 in an object or in its `source`.
 *
 * @returns the object with the base64, its key and its media type; `undefined` if the object has no file
 */
export function fileIn(whole: Readonly<Record<string, unknown>>) {
  const { format, source } = whole;
  const form = typeof format === 'string' && typeof source === 'object' ? format : undefined;
  const holder: Record<string, unknown> = form === undefined ? whole : Object(source);
  const key = FILES.find((name) => typeof holder[name] === 'string');
  if (key === undefined) return undefined;
  const named = TYPES.map((name) => holder[name]).find((name) => typeof name === 'string');
  const type = named ?? (form && typeOfForm(form));
  const base64 = String(holder[key]);
  // Beside the type of a text, a value that is not base64 is the text itself.
  const isFile =
    type && base64.length > 3 && BASE64.test(base64) && !(TEXT_TYPE.test(type) && textIn(base64) === undefined);
  return isFile ? { holder, key, type, base64 } : undefined;
}

/** A name with its value. */
type Pair = Record<string, string>;

/** Masks the pairs of a form. @returns the form with its masked pairs; `NOT_MASKED` if the form is too long */
export function maskedForm(text: string, mask: (pair: Pair) => Pair): string {
  if (text.length > MAX_CHARS) return NOT_MASKED;
  const pairs = text.split('&').map((pair) => {
    const [[name, value] = ['', '']] = new URLSearchParams(pair);
    // The replacement character is a sign that the pair was not UTF-8.
    if (`${name}${value}`.includes('\ufffd') && !pair.includes('\ufffd')) return NOT_MASKED;
    const masked = mask({ [name]: value });
    return masked[name] === value ? pair : new URLSearchParams(masked).toString();
  });
  return pairs.join('&');
}
