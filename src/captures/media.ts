/** Recognizes pictures, sounds and other bytes by how they begin, also in base64 within a text. */
import FORMS from './media.json' with { type: 'json' };

const MEDIA = Object.entries(FORMS).map(([medium, forms]) => [medium, new RegExp(`^(?:${forms.join('|')})`)] as const);
const HEAD_BYTES = 24;

/** Returns `image`, `audio`, `array` and the like, or `undefined` if the bytes begin with no known form. */
export const mediumOf = (bytes: Buffer): string | undefined =>
  MEDIA.find(([, form]) => form.test(bytes.toString('hex', 0, HEAD_BYTES)))?.[0];

/** A text of its own is bytes if it begins like a picture or the like, or if it is long and mixed. */
const ALONE = /^[\w+/=\r\n-]{12,}$/;
const UNKNOWN = /^(?=.{0,200}[a-z])(?=.{0,200}[A-Z])(?=.{0,200}\d).{100}/s;
const BYTES = '[base64';
/** Base64 within a text, with or without the address that announces it. */
const PARTS = /data:(?:(image|audio|video)\b)?[\w.+/;=-]{0,100};base64,[\w+/=-]*|(?<![\w+/-])[\w+/-]{64,}={0,2}/g;

const markOf = (data: string, announced?: string): string => {
  const bytes = Buffer.from(data, 'base64');
  return `[${mediumOf(bytes) ?? announced ?? `base64, ${bytes.length} bytes`}]`;
};

/** Replaces base64 in a text by a word in brackets, such as `[image]` or `[base64, 512 bytes]`. */
export function withoutMedia(text: string): string {
  const whole = text.trim();
  const isAlone = ALONE.test(whole);
  const own = isAlone ? markOf(whole) : BYTES;
  if (!own.startsWith(BYTES) || (isAlone && UNKNOWN.test(whole))) return own;
  return text.replace(PARTS, (part, announced?: string) => {
    const mark = markOf(part.slice(part.indexOf(',') + 1), announced);
    return part.startsWith('data:') || !mark.startsWith(BYTES) ? mark : part;
  });
}

const MARKS = new RegExp(`\\[(?:base64(?:, \\d+ bytes)?|${Object.keys(FORMS).join('|')})\\]`, 'g');

/** Whether a text consists only of such marks. */
export const isMediaMark = (text: string): boolean => text.includes('[') && text.replace(MARKS, '').trim() === '';
