/** The beginning of a request or a reply, for people to read. */

import type { Body } from '../reply/content.ts';
import type { Keep } from '../request/keep.ts';

const PREVIEW_CHARACTERS = 2_000;

/** @param keep masks the text before it is cut */
export function bodyPreview(side: Parameters<Keep['body']>[0], body: Body, keep?: Keep): string {
  const { bytes } = body;
  const text = keep ? keep.body(side, body) : bytes.subarray(0, PREVIEW_CHARACTERS * 4).toString('utf8');
  // Text has no control characters other than line breaks and tabs.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
  if (/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(text)) return `(binary, ${bytes.length} bytes)`;
  return text.length > PREVIEW_CHARACTERS ? `${text.slice(0, PREVIEW_CHARACTERS)} …` : text;
}
