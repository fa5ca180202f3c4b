/** Reading a value that a judge wrote: how it is dressed does not matter, what it says must be on the list. */

import type { AssessmentValue } from '../../mlflow/types.ts';
import { trimEndOf } from '../../shared/text-edges.ts';
import type { ScorerValues } from '../types.ts';

/** `**Yes.**` → `yes`; `Somewhat_Coherent` → `somewhat coherent`. */
const undress = (text: string): string =>
  trimEndOf(dressed(text), (character) => /[\s"'`*“”‘’«»)\]}>.,;:!。]/u.test(character));

const dressed = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[\s_-]+/gu, ' ')
    .replace(/^[\s"'`*“”‘’«»([{<]+/u, '');

const NUMBER = /^[+-]?\d+(\.\d+)?$/;

function fromList(values: readonly string[], given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined;
  const bare = undress(given);
  return values.find((value) => undress(value) === bare);
}

/**
 * The scorer's value that `given` says, or `undefined` when it says none of them. Nothing is guessed: `mostly yes`,
 * `4/5`, a number out of range and a word of another language are no values.
 */
export function readValue(values: ScorerValues, given: unknown): AssessmentValue | undefined {
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
      return fromList(values.values, given);
    case 'number': {
      const text = typeof given === 'string' ? undress(given) : '';
      const number = typeof given === 'number' ? given : NUMBER.test(text) ? Number(text) : Number.NaN;
      return number >= values.min && number <= values.max ? number : undefined;
    }
  }
}
