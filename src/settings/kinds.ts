/** Kinds of value that several settings share; each error message says what is allowed. */
import * as z from 'zod';

/** Numbers are read as JavaScript reads them; a decimal comma or a unit is none. */
export const numberIn = (min: number, max: number, allowed: string) =>
  z.coerce.number(allowed).min(min, allowed).max(max, allowed);

export function wholeNumber(min: number, max: number) {
  const allowed = `a whole number from ${min} to ${max}`;
  return numberIn(min, max, allowed).int(allowed);
}

/**
 * Text that is JSON of a shape; it is passed on as text.
 *
 * @param check the domain's own reading of it, which throws an error that says what is wrong
 */
export function jsonText<T extends z.ZodType>(
  shape: T,
  allowed: string,
  check: (value: z.output<T>) => unknown = () => {},
) {
  return textWithout((text) => {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return `${allowed} (this is not JSON)`;
    }
    const shaped = shape.safeParse(value);
    if (!shaped.success) return allowed;
    try {
      check(shaped.data);
      return undefined;
    } catch (error) {
      return `${allowed} (${factsApart(error as Error)})`;
    }
  });
}

/** Errors of the pipeline repeat in their facts what this message says already. */
const factsApart = ({ message }: Error): string =>
  message.replace(/; (?:got|expected|where): .*$/s, '').replaceAll(/\s+/g, ' ');

/** Names of query parameters that carry a secret. */
const SECRET_QUERY = /key|token|secret|password|sig/i;

/**
 * What is wrong with an address, if anything.
 *
 * @param secretSetting the setting that names the secret in which user, password or token belong
 */
export function urlFault(text: string, secretSetting: string): string | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return 'an http(s) URL';
  if (url.username || url.password || [...url.searchParams.keys()].some((name) => SECRET_QUERY.test(name))) {
    return `an http(s) URL without user, password or key: put them into a Secrets Manager secret and name it in ${secretSetting}`;
  }
  return undefined;
}

/** As `urlFault`, for the address of a server, to which paths are appended. */
export const serverUrlFault = (text: string, secretSetting: string): string | undefined =>
  urlFault(text, secretSetting) ?? (/[?#]/.test(text) ? 'an http(s) URL without "?" and "#"' : undefined);

/** @param fault says what is allowed instead of a text, `undefined` where there is nothing wrong with it */
export const textWithout = (fault: (text: string) => string | undefined) =>
  z.string().check((context) => {
    const message = fault(context.value);
    if (message !== undefined) context.issues.push({ code: 'custom', input: context.value, message });
  });

/** Longer values are cut: the beginning tells which one it was. */
const MAX_SHOWN_CHARS = 120;

/**
 * A value as an error message shows it: cut, and without what may be a secret. People paste tokens into URLs, and the
 * secret itself where its ARN belongs.
 */
export function shown(name: string, value: string): string {
  if (name.endsWith('_SECRET_ARN') && !value.startsWith('arn:')) {
    return `a text of ${value.length} characters that begins otherwise than an ARN (not shown: it may be the secret itself)`;
  }
  const safe = value.replace(/\/\/.*@/s, '//…@').replace(/(:\/\/[^?]*\?).*$/s, '$1…');
  return JSON.stringify(safe.length > MAX_SHOWN_CHARS ? `${safe.slice(0, MAX_SHOWN_CHARS)}…` : safe);
}
