/** How bad a reply is by the scorers that it fails: the gravest of them, and how many causes there are. */
import { type Badness, type Severity, severestFirst } from '../../core/values/severity.ts';

/** What fails because of another scorer. A reply that is cut off, for example, is neither fluent nor complete. */
const CONSEQUENCES: ReadonlyMap<string, readonly string[]> = new Map([
  ['cut_off', ['fluency', 'completeness', 'valid_json']],
  // Not every endpoint says that it cut a reply off.
  ['completeness', ['fluency']],
  ['repeated_text', ['fluency', 'coherence']],
  ['refusal', ['completeness', 'follows_objective']],
  ['relevance_to_query', ['completeness', 'follows_objective']],
  ['safety', ['no_harmful_advice']],
]);

/** @param failing the failing scorers; an error reply may have none */
export function badnessOf(failing: readonly { name: string; severity?: Severity | undefined }[]): Badness {
  const explained = new Set(failing.flatMap(({ name }) => CONSEQUENCES.get(name) ?? []));
  const [severity = 'task'] = failing.map((one) => one.severity ?? 'task').toSorted(severestFirst);
  return { severity, causes: failing.filter(({ name }) => !explained.has(name)).length };
}
