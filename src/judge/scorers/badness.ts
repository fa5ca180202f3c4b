/** Ranks how bad a reply is: the severity of its worst failing scorer, and the number of causes. */
import { type Badness, type Severity, severestFirst } from '../../core/values/severity.ts';
import NAMES from './consequences.json' with { type: 'json' };

/**
 * Scorers that fail because of another scorer. A reply that is cut off, for example, is neither fluent nor complete.
 */
const CONSEQUENCES = new Map(Object.entries(NAMES));

/** @param failing the failing scorers; an error reply may have none */
export function badnessOf(failing: readonly { name: string; severity?: Severity | undefined }[]): Badness {
  const explained = new Set(failing.flatMap(({ name }) => CONSEQUENCES.get(name) ?? []));
  const [severity = 'task'] = failing.map((one) => one.severity ?? 'task').toSorted(severestFirst);
  return { severity, causes: failing.filter(({ name }) => !explained.has(name)).length };
}
