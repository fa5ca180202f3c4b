/** Text as databases and MLflow's fields take it. */
import { hash } from 'node:crypto';

/** At most `max` characters, the cut mark being the last when something was cut; no character is halved. */
export function cut(text: string, max: number, mark = '…'): string {
  if (text.length <= max) return text;
  const kept = text.slice(0, max - mark.length);
  const last = kept.charCodeAt(kept.length - 1);
  return `${last >= 0xd800 && last <= 0xdbff ? kept.slice(0, -1) : kept}${mark}`;
}

/**
 * Text that every database takes: PostgreSQL refuses NUL, and an unpaired surrogate has no UTF-8. Both become U+FFFD.
 */
export const cleanText = (text: string): string => {
  const wellFormed = text.isWellFormed() ? text : text.toWellFormed();
  return wellFormed.includes('\0') ? wellFormed.replaceAll('\0', '\ufffd') : wellFormed;
};

const MAX_METADATA_CHARS = 250;
const DIGEST_CHARS = 16;

/** An id within MLflow's 250 characters: two long ones stay two by the digest behind what is cut. */
export function fitted(id: string, max: number = MAX_METADATA_CHARS, mark = '…~'): string {
  const clean = cleanText(id);
  if (clean.length <= max) return clean;
  const digest = hash('sha256', id).slice(0, DIGEST_CHARS);
  return cut(clean, max, `${mark}${digest}`);
}
