/** The values of a scorer: in words for prompts and errors, and as a judge or a person wrote them. */
import { trimEndOf } from '../text/text-edges.ts';

/** The values that a scorer may answer. */
export type ScorerValues =
  | { kind: 'yes-no' }
  | { kind: 'categories'; values: readonly string[] }
  | { kind: 'number'; min?: number | undefined; max?: number | undefined }
  | { kind: 'boolean' };

/** Returns the values of a scorer whose values are not numbers. The first is the value that the scorer asks for. */
export function valueNames(values: ScorerValues): string[] {
  if (values.kind === 'categories') return [...values.values];
  return values.kind === 'boolean' ? ['true', 'false'] : ['yes', 'no'];
}

/** Describes the values in words, for prompts and error messages. */
export function describeValues(values: ScorerValues): string {
  switch (values.kind) {
    case 'yes-no':
      return '"yes" or "no"';
    case 'boolean':
      return 'true or false';
    case 'categories':
      return values.values.map((value) => JSON.stringify(value)).join(' or ');
    case 'number':
      return values.min === undefined ? 'a number' : `a number from ${values.min} to ${values.max}`;
  }
}

/** Removes decoration: `**Yes.**` → `yes`; `Somewhat_Coherent` → `somewhat coherent`. */
const undress = (text: string): string => {
  const plain = text
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[\s_-]+/gu, ' ')
    .replace(/^[\s"'`*“”‘’«»([{<]+/u, '');
  return trimEndOf(plain, (character) => /[\s"'`*“”‘’«»)\]}>.,;:!。]/u.test(character));
};

const NUMBER = /^[+-]?\d+(\.\d+)?$/;

function fromList(values: readonly string[], given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined;
  const bare = undress(given);
  return values.find((value) => value === given) ?? values.find((value) => undress(value) === bare);
}

/**
 * Returns the scorer's value that `given` states, or `undefined`. Nothing is guessed: `mostly yes`, `4/5`, a number out
 * of range and a word of another language are not values.
 */
export function readValue(values: ScorerValues, given: unknown): string | number | boolean | undefined {
  switch (values.kind) {
    case 'yes-no':
      if (typeof given === 'boolean') return given ? 'yes' : 'no';
      return fromList(['yes', 'no'], given);
    case 'boolean': {
      if (typeof given === 'boolean') return given;
      const word = fromList(['true', 'false', 'yes', 'no'], given);
      return word === undefined ? undefined : word === 'true' || word === 'yes';
    }
    case 'categories':
      // A scorer of a file may have any value.
      if (values.values.length === 0) return typeof given === 'object' ? undefined : (given as string | undefined);
      return fromList(values.values, given);
    case 'number': {
      const text = typeof given === 'string' ? undress(given) : '';
      const number = typeof given === 'number' ? given : NUMBER.test(text) ? Number(text) : Number.NaN;
      const { min = -Number.MAX_VALUE, max = Number.MAX_VALUE } = values;
      return number >= min && number <= max ? number : undefined;
    }
  }
}

/** Many data sets use 1 and 0, or pass and fail, for yes and no. */
const ALIASES: Readonly<Record<string, 'yes' | 'no'>> = {
  '1': 'yes',
  true: 'yes',
  pass: 'yes',
  '0': 'no',
  false: 'no',
  fail: 'no',
};

/** Returns a person's label as one of the scorer's values, or `undefined`. */
export function readLabel(values: ScorerValues, given: unknown): string | number | boolean | undefined {
  const read = readValue(values, given);
  if (read !== undefined || (values.kind !== 'yes-no' && values.kind !== 'boolean')) return read;
  const alias = ALIASES[String(given).trim().toLowerCase()];
  return alias === undefined ? undefined : readValue(values, alias);
}
