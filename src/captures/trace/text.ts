/** Fits text to the limits of databases and of MLflow's fields. */
import { hash } from 'node:crypto';

/** MLflow's limits. */
export const MAX_PREVIEW_CHARS = 1_000;
export const MAX_TAG_CHARS = 4_096;
/** Maximum length of values in trace metadata (session, user) and assessment metadata. */
export const MAX_METADATA_CHARS = 250;

const DIGEST_CHARS = 16;

/**
 * Cuts a text to at most `max` characters, and puts the mark at the cut. Never splits a character.
 *
 * @param tail number of characters to keep at the end
 */
export function cut(text: string, max: number, mark = '…', tail = 0): string {
  if (text.length <= max) return text;
  const start = text.slice(0, max - mark.length - tail).replace(/[\ud800-\udbff]$/, '');
  return `${start}${mark}${text.slice(text.length - tail).replace(/^[\udc00-\udfff]/, '')}`;
}

/** Replaces NUL, which PostgreSQL refuses, and unpaired surrogates, which UTF-8 cannot encode, by U+FFFD. */
export const cleanText = (text: string): string => {
  const wellFormed = text.isWellFormed() ? text : text.toWellFormed();
  return wellFormed.includes('\0') ? wellFormed.replaceAll('\0', '\ufffd') : wellFormed;
};

/** Cuts an id to MLflow's limit. A digest of the whole id keeps different ids different. */
export function fitted(id: string, max: number = MAX_METADATA_CHARS, mark = '…~'): string {
  const clean = cleanText(id);
  return clean.length <= max ? clean : cut(clean, max, `${mark}${hash('sha256', id).slice(0, DIGEST_CHARS)}`);
}

/** Returns the tags that have a value, each cut to MLflow's limit. */
export function fittedTags(tags: Record<string, string | undefined>): Record<string, string> {
  const fittedTag = ([key, value]: [string, string | undefined]): [string, string][] =>
    value ? [[key, cut(cleanText(value), MAX_TAG_CHARS)]] : [];
  return Object.fromEntries(Object.entries(tags).flatMap(fittedTag));
}
