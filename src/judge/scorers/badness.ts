/** How bad a reply is by the scorers that it fails: the gravest of them, and how many causes there are. */
import { type Badness, type Severity, severestFirst } from '../../core/values/severity.ts';
import NAMES from './consequences.json' with { type: 'json' };

/** What fails because of another scorer. A reply that is cut off, for example, is neither fluent nor complete. */
const CONSEQUENCES = new Map(Object.entries(NAMES));

/** @param failing the failing scorers; an error reply may have none */
export function badnessOf(failing: readonly { name: string; severity?: Severity | undefined }[]): Badness {
  const explained = new Set(failing.flatMap(({ name }) => CONSEQUENCES.get(name) ?? []));
  const [severity = 'task'] = failing.map((one) => one.severity ?? 'task').toSorted(severestFirst);
  return { severity, causes: failing.filter(({ name }) => !explained.has(name)).length };
}
