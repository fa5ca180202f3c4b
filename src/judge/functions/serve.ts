/** What a scorer function in TypeScript imports: `sagemaker-inference-monitor/scorers`. Nothing of the product. */

import type { ScorerRecord } from './contract.ts';

type Value = number | boolean | string;

/** A value with its reason. `usd`: the cost of this call, in US dollars. */
type Feedback = { value: Value; rationale?: string; usd?: number };

/** Scores one captured call. An exception is the error of this call. */
export type Scorer = (record: ScorerRecord) => Value | Feedback | Promise<Value | Feedback>;

async function resultOf(scorer: Scorer, record: ScorerRecord) {
  try {
    const given = await scorer(record);
    const feedback = typeof given === 'object' ? given : { value: given };
    const { value, usd = 0 } = feedback;
    // JSON has no such values, and would spoil the reply about the other calls.
    const isValue = typeof value === 'number' ? Number.isFinite(value) : ['boolean', 'string'].includes(typeof value);
    if (isValue && Number.isFinite(usd)) return feedback;
    throw new TypeError(
      `value, usd; got: ${value}, ${usd}; expected: a finite number, a boolean or a string; a number`,
    );
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { error: { name, message } };
  }
}

/**
 * Returns the handler of a Lambda function with these scorers, by name. The calls of a batch are scored at the same time.
 *
 * @example
 *     export const handler = serve({ words: ({ reply }) => reply?.text.split(' ').length ?? 0 });
 */
export const serve =
  (scorers: Readonly<Record<string, Scorer>>) =>
  async (event: { scorer: string; records: readonly ScorerRecord[] }) => {
    const scorer = Object.hasOwn(scorers, event.scorer) ? scorers[event.scorer] : undefined;
    if (scorer !== undefined)
      return { results: await Promise.all(event.records.map((record) => resultOf(scorer, record))) };
    const message = `got: ${event.scorer}; expected: ${Object.keys(scorers).join(', ')}`;
    return { error: { name: 'UnknownScorer', message } };
  };
