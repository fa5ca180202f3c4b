/** The values of a scorer: in words for prompts and errors, and as a judge or a person wrote them. */

import { trimEndOf } from '../../core/text/text-edges.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { JudgeScorer, Scorer, ScorerValues } from '../types.ts';

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
      return `a number from ${values.min} to ${values.max}`;
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

/** Whether the value is no failure. The first of several categories is the good one; a number never fails. */
export function isPass({ values, passes = 'yes' }: Pick<JudgeScorer, 'values' | 'passes'>, value: AssessmentValue) {
  if (values.kind === 'number') return true;
  if (values.kind === 'boolean') return value === true;
  return value === (values.kind === 'categories' ? values.values[0] : passes);
}

/** Whether a value of the scorer is a failure. */
export const canFail = (scorer: Scorer): boolean =>
  scorer.kind === 'code' ? scorer.fails !== undefined : scorer.values.kind !== 'number';

/** Whether the value says that the reply is bad. Of a code scorer, only the value that it names does. */
export const isFailure = (scorer: Scorer, value: AssessmentValue): boolean =>
  scorer.kind === 'code' ? value === scorer.fails : !isPass(scorer, value);

const NUMBER = /^[+-]?\d+(\.\d+)?$/;

function fromList(values: readonly string[], given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined;
  const bare = undress(given);
  return values.find((value) => value === given) ?? values.find((value) => undress(value) === bare);
}

/**
 * Returns the scorer's value that `given` states, or `undefined`. Nothing is guessed: `mostly yes`, `4/5`, a number out of
 * range and a word of another language are not values.
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
