/** Turns corrected disagreements into examples for the judge. */
import type { ScorerExample } from '../../judge/types.ts';
import type { LabeledVerdict } from './types.ts';

/**
 * Maximum number of examples, which are sent with every capture. Two or three short examples have most of the effect of
 * more.
 */
export const MAX_EXAMPLES = 3;
/** Longer texts would cost more than they improve. */
const MAX_EXAMPLE_CHARS = 1_500;
/** MLflow truncates the preview of a trace at this length. A truncated text is not a good example. */
const PREVIEW_CHARS = 1_000;

type ExamplesByScorer = Record<string, ScorerExample[]>;

const isSame = (a: ScorerExample, b: ScorerExample): boolean => a.request === b.request && a.reply === b.reply;

/**
 * Adds examples from pairs in which a person corrected the judge and gave a reason. The labels alternate (a yes, a no,
 * …) so that the examples do not bias the judge. Short examples come first.
 *
 * @returns all examples, existing examples first, and the added examples
 */
export function addExamples(
  existing: Readonly<Record<string, readonly ScorerExample[]>>,
  pairs: readonly LabeledVerdict[],
  perScorer = MAX_EXAMPLES,
): { examples: ExamplesByScorer; added: ExamplesByScorer } {
  const examples = structuredClone(existing) as ExamplesByScorer;
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
    for (const pair of alternating(group)) {
      if (list.length >= perScorer) break;
      const { request, reply, label: value, labelRationale: rationale = '' } = pair;
      const example: ScorerExample = { request: request || undefined, reply, value, rationale };
      if (list.some((other) => isSame(other, example))) continue;
      list.push(example);
      added[scorer] = [...(added[scorer] ?? []), example];
    }
    if (list.length > 0) examples[scorer] = list;
  }
  return { examples, added };
}

/** Orders pairs with alternating labels, the shortest of each label first. */
function alternating(pairs: readonly LabeledVerdict[]): LabeledVerdict[] {
  const bySize = pairs.toSorted((a, b) => a.request.length + a.reply.length - b.request.length - b.reply.length);
  const queues = [...Map.groupBy(bySize, ({ label }) => label).values()];
  const longest = Math.max(0, ...queues.map(({ length }) => length));
  return Array.from({ length: longest }, (_, index) => queues.flatMap((queue) => queue[index] ?? [])).flat();
}
