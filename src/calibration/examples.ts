/** Corrected disagreements as examples that the judge is shown from then on. */
import type { ScorerExample } from '../judge/types.ts';
import type { LabeledVerdict } from './types.ts';

/** Examples travel with every capture: two or three short ones teach most of what more would. */
export const MAX_EXAMPLES = 3;
/** Longer texts would cost more than they teach. */
const MAX_EXAMPLE_CHARS = 1_500;
/** MLflow cuts what it shows of a trace at this length: half a text is no example. */
const PREVIEW_CHARS = 1_000;

type ExamplesByScorer = Record<string, ScorerExample[]>;

const isSame = (a: ScorerExample, b: ScorerExample): boolean => a.request === b.request && a.reply === b.reply;

/**
 * Adds to each scorer's examples from the pairs where a person corrected the judge and said why. What people gave in turn
 * comes in turn (a yes, a no, …), short ones first, so that the examples do not tilt the judge to one side.
 *
 * @returns all examples, old ones first, and those that were added
 */
export function addExamples(
  existing: Readonly<Record<string, readonly ScorerExample[]>>,
  pairs: readonly LabeledVerdict[],
  perScorer = MAX_EXAMPLES,
): { examples: ExamplesByScorer; added: ExamplesByScorer } {
  const examples: ExamplesByScorer = Object.fromEntries(
    Object.entries(existing).map(([name, list]) => [name, [...list]]),
  );
  const added: ExamplesByScorer = {};
  const corrected = pairs.filter(
    ({ agrees, labelRationale, request, reply, traceId }) =>
      !agrees &&
      labelRationale !== undefined &&
      request.length + reply.length <= MAX_EXAMPLE_CHARS &&
      (traceId === undefined || Math.max(request.length, reply.length) < PREVIEW_CHARS),
  );
  for (const [scorer, group] of Map.groupBy(corrected, (pair) => pair.scorer)) {
    const list = examples[scorer] ?? [];
    for (const pair of inTurn(group)) {
      if (list.length >= perScorer) break;
      const example: ScorerExample = {
        ...(pair.request === '' ? {} : { request: pair.request }),
        reply: pair.reply,
        value: pair.label,
        rationale: pair.labelRationale as string,
      };
      if (list.some((other) => isSame(other, example))) continue;
      list.push(example);
      added[scorer] = [...(added[scorer] ?? []), example];
    }
    if (list.length > 0) examples[scorer] = list;
  }
  return { examples, added };
}

/** Pairs with the labels alternating, the shortest of each label first. */
function inTurn(pairs: readonly LabeledVerdict[]): LabeledVerdict[] {
  const bySize = pairs.toSorted((a, b) => a.request.length + a.reply.length - b.request.length - b.reply.length);
  const queues = [...Map.groupBy(bySize, ({ label }) => label).values()];
  const longest = Math.max(0, ...queues.map(({ length }) => length));
  return Array.from({ length: longest }, (_, index) => queues.flatMap((queue) => queue[index] ?? [])).flat();
}
