/** Forms of a value that several settings share. */

import * as z from 'zod';
import { jsonIn } from '../values/json-in.ts';
import forms from './setting-forms.json' with { type: 'json' };

/**
 * Gives a form that several settings share, or that has limits, the words that its error message uses.
 *
 * @param expected the allowed values. Where a form reports a `custom` issue, its message follows in parentheses
 */
export const setting = <T extends z.ZodType>(expected: string, form: T): T => form.describe(expected);

const FORMS: Record<string, string | undefined> = forms;

/** Gives each form the words of `setting-forms.json` for the setting of its name, as `setting` does. */
export const described = <S extends Record<string, z.ZodType>>(settings: S): S =>
  Object.fromEntries(
    Object.entries(settings).map(([name, form]) => [name, FORMS[name] ? setting(FORMS[name], form) : form]),
  ) as S;

/** A number as JavaScript reads it: no decimal comma, no unit. */
export const numberIn = (min: number, max: number) => z.coerce.number().min(min).max(max);

export const wholeNumber = (min: number, max: number, fallback: number) =>
  setting(`a whole number from ${min} to ${max}`, numberIn(min, max).int().default(fallback));

/** `true` or `false`, as a boolean. */
export const flag = (fallback: boolean) =>
  setting(
    'true or false',
    z
      .enum(['true', 'false'])
      .transform((text) => text === 'true')
      .default(fallback),
  );

/** Text that is JSON of a shape, as its value. */
export const jsonOf = <T extends z.ZodType>(shape: T) =>
  z
    .string()
    .transform((text, context) => {
      const json = jsonIn(text);
      if (json === undefined) context.addIssue({ code: 'custom', message: 'this is not JSON' });
      return json;
    })
    .pipe(shape);

/** Names separated by commas, as a list. Empty names are dropped. */
export const nameList = (form: RegExp) =>
  z
    .string()
    .transform((text) =>
      text
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean),
    )
    .pipe(z.array(z.string().regex(form)));

/** Names of query parameters that carry a secret. */
const SECRET_QUERY = /key|token|secret|password|sig/i;

/**
 * Returns the fault of an address: `undefined` if it is valid, empty if it is not an http(s) URL.
 *
 * @param secretSetting the setting that names the secret for user, password or token
 */
export function urlFault(text: string, secretSetting: string): string | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return '';
  if (url.username || url.password || [...url.searchParams.keys()].some((name) => SECRET_QUERY.test(name))) {
    return `without user, password or key: put them into a Secrets Manager secret and name it in ${secretSetting}`;
  }
  return undefined;
}

/** Like `urlFault`, for the address of a server, to which paths are appended. */
export const serverUrlFault = (text: string, secretSetting: string): string | undefined =>
  urlFault(text, secretSetting) ?? (/[?#]/.test(text) ? 'without "?" and "#"' : undefined);

/**
 * @param fault describes the fault of a text; empty if the description of allowed values suffices, `undefined` if there
 *   is no fault
 */
export const textWithout = (fault: (text: string) => string | undefined) =>
  z.string().check((context) => {
    const message = fault(context.value);
    const { value: input } = context;
    if (message === '') context.issues.push({ code: 'invalid_format', format: 'text', input });
    else if (message !== undefined) context.issues.push({ code: 'custom', input, message });
  });

const SECRET_ARN = /^arn:aws[\w-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+-[A-Za-z0-9]{6}$/;

export const secretArn = setting(
  'the complete ARN of a Secrets Manager secret, with the six characters at its end',
  z.string().regex(SECRET_ARN).optional(),
);

/**
 * An S3 key has at most 1,024 bytes. The part after the prefix (variant, hour, file name) has about 120. The rule's
 * pattern, of at most 2,048 characters, contains the prefix once.
 */
const MAX_CAPTURE_PREFIX_BYTES = 900;

/** Ends with `/`. */
export const capturePrefix = setting(
  'a key prefix',
  textWithout((prefix) => {
    if (prefix.startsWith('/') || prefix.startsWith('s3:')) return 'it does not begin with "/" or "s3:"';
    if (/\p{Cc}/u.test(prefix)) return 'without control characters';
    const tooLong = Buffer.byteLength(prefix) > MAX_CAPTURE_PREFIX_BYTES;
    return tooLong ? `at most ${MAX_CAPTURE_PREFIX_BYTES} bytes` : undefined;
  })
    .transform((prefix) => (prefix.endsWith('/') ? prefix : `${prefix}/`))
    .optional(),
);

/**
 * Returns the parts of a location in S3, with or without `s3://`.
 *
 * @returns `account`: the part before an `@`; `bucket`: empty without a location; `prefix` ends with `/`, or is empty
 */
export function s3Place(place = '') {
  const [owned = '', ...path] = place.replace(/^s3:\/\//, '').split('/');
  const [bucket = '', account] = owned.split('@').toReversed();
  const prefix = path.join('/');
  return { account, bucket, prefix: prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/` };
}
