/** Names that a person gave. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/values/nearest.ts';

/** @throws PermanentError `UnknownName` with the nearest name */
export function checkNames(what: string, given: readonly string[] | undefined, known: readonly string[]): void {
  for (const name of given ?? []) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    const facts = { got: name, expected: `one of ${known.toSorted().join(', ')}` };
    throw new PermanentError('UnknownName', `There is no ${what} of this name${hint}`, facts);
  }
}
