/** Finds text that is encoded beside its type: data URLs, files in base64, forms. It is masked, and written back in its encoding. */

import NAMES from './encoded.json' with { type: 'json' };

/** What stands in place of a text that could not be masked. */
export const NOT_MASKED = '<not masked>';

/** Characters of base64, or of a form, that are decoded. */
const MAX_CHARS = 1024 * 1024;
/** Without it, a text has no data URL. */
export const DATA_URL_MARK = /;base64,/i;
/** With a line break after 60 to 80 characters, as mail has them. */
const DATA_URL = /(data:[^,"'<>\n]{0,200};base64,(?:[\w+/-]{60,80}\r?\n)*[\w+/=-]*)/i;
const BASE64 = /^[\w+/\r\n-]*={0,2}$/;

const TEXT_TYPE =
  /^(?:text\/|$)|[/+](?:x-)?(?:json|xml|ya?ml|toml|csv|ndjson|jsonl(?:ines)?|json-lines|javascript|sql)$/;
/** Pictures, sounds and films have no text. */
const MEDIA_TYPE = /^(?:image|audio|video|font|model)\//;
const FORM = /^application\/x-www-form-urlencoded$/;

type Mask = (text: string) => string;

/** Whether a content type is that of a form, as browsers send it. */
export const isForm = (contentType: string | null | undefined): boolean => FORM.test(mediaOf(contentType ?? ''));

const mediaOf = (type: string): string => (type.split(';')[0] ?? '').trim().toLowerCase();

/** Masks a text with data URLs. @param mask of what stands around them; `inner`: of what they encode */
export const maskedUrls = (text: string, mask: Mask, inner: Mask): string =>
  text
    .split(DATA_URL)
    .map((part, at) => {
      if (at % 2 === 0) return mask(part);
      const [type = '', data = ''] = part.slice('data:'.length).split(/;base64,/i);
      const masked = maskedBase64(type, data, inner);
      return masked === data ? part : masked === NOT_MASKED ? masked : `data:${type};base64,${masked}`;
    })
    .join('');

/**
 * Masks a text in base64.
 *
 * @param type a media type, which may name a charset; empty for text
 * @returns the same base64 if nothing is masked, or for pictures, sounds and films; `NOT_MASKED` if it cannot be read
 */
export function maskedBase64(type: string, base64: string, mask: Mask): string {
  const media = mediaOf(type);
  if (MEDIA_TYPE.test(media) && !media.endsWith('+xml')) return base64;
  const isText = TEXT_TYPE.test(media) || FORM.test(media);
  const text = isText && base64.length <= MAX_CHARS ? textIn(base64, type) : undefined;
  if (text === undefined) return NOT_MASKED;
  const ofValues = (pair: Pair): Pair =>
    Object.fromEntries(Object.entries(pair).map(([name, value]) => [name, mask(value)]));
  const masked = FORM.test(media) ? maskedForm(text, ofValues) : mask(text);
  if (masked === text) return base64;
  return Buffer.from(masked).toString(/[-_]/.test(base64) ? 'base64url' : 'base64');
}

/** @returns `undefined` if it is no base64 of a text in UTF-8 */
function textIn(base64: string, type: string): string | undefined {
  const isUtf8 = /^(?:utf-?8|us-ascii|ascii)?$/i.test(/charset="?([^";]*)/i.exec(type)?.[1] ?? '');
  if (!isUtf8 || !BASE64.test(base64.trimEnd())) return undefined;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(base64, 'base64'));
    // Text in UTF-16 has them.
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}

type Fields = Record<string, unknown>;

/** Returns where an object, or its `source`, holds a file in base64, with its media type; `undefined` if it holds none. */
export function fileIn(holder: Fields) {
  const { source } = holder;
  const inner = typeof source === 'object' && source !== null ? (source as Fields) : undefined;
  const held: Fields = inner ?? holder;
  // A source with a type of its own is an object that holds the file itself.
  const type = inner && typeOf(inner) !== undefined ? undefined : typeOf(holder);
  const key = NAMES.dataNames.find((name) => typeof held[name] === 'string') ?? '';
  const base64 = String(held[key] ?? '');
  if (type === undefined || base64.length < 4 || !BASE64.test(base64.trimEnd())) return undefined;
  // What is no text in base64 beside the name of a text is the text itself.
  if (TEXT_TYPE.test(mediaOf(type)) && textIn(base64, type) === undefined) return undefined;
  return { in: held, key, type, base64 };
}

function typeOf(holder: Fields): string | undefined {
  const media = NAMES.typeNames.map((name) => holder[name]).find((name) => typeof name === 'string');
  if (typeof media === 'string') return media;
  const format = NAMES.formatNames.map((name) => holder[name]).find((name) => typeof name === 'string') ?? '';
  const ending = String(format).toLowerCase().split('.').at(-1) ?? '';
  if (NAMES.text.includes(ending)) return 'text/plain';
  if (NAMES.media.includes(ending)) return 'image/any';
  return NAMES.other.includes(ending) ? 'application/any' : undefined;
}

/** A name with its value. */
type Pair = Record<string, string>;

/** Masks the pairs of a form. @returns the same text but for the pairs that are masked; `NOT_MASKED` for a form that is too long */
export function maskedForm(text: string, mask: (pair: Pair) => Pair): string {
  if (text.length > MAX_CHARS) return NOT_MASKED;
  return text
    .split('&')
    .map((pair) => {
      const [[name, value] = ['', '']] = new URLSearchParams(pair);
      // Not in UTF-8.
      if (`${name}${value}`.includes('\ufffd') && !pair.includes('\ufffd')) return NOT_MASKED;
      const masked = mask({ [name]: value });
      return masked[name] === value ? pair : new URLSearchParams(masked).toString();
    })
    .join('&');
}
