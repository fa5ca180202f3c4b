/** The JSON schema of the answer to a set of scorers. */
import { memoByScorers } from '../memo.ts';
import type { JudgeScorer, ScorerValues } from '../types.ts';

export type JsonSchema = { [key: string]: unknown };

/** Bounds of numbers are checked by us: models refuse `minimum` and `maximum` in the schemas they are held to. */
function valueSchema(values: ScorerValues): JsonSchema {
  switch (values.kind) {
    case 'yes-no':
      return { type: 'string', enum: ['yes', 'no'] };
    case 'boolean':
      return { type: 'boolean' };
    case 'categories':
      return { type: 'string', enum: [...values.values] };
    case 'number':
      return { type: 'number' };
  }
}

const objectSchema = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

const makeSchema = memoByScorers((scorers) =>
  objectSchema(
    Object.fromEntries(
      scorers.map(({ name, values }) => [
        name,
        objectSchema({ rationale: { type: 'string' }, value: valueSchema(values) }),
      ]),
    ),
  ),
);

/**
 * One property a scorer, each with its rationale before its value: a model writes properties in the schema's order, and
 * reasons before it decides only if the rationale comes first.
 */
export const answerSchema = (scorers: readonly JudgeScorer[]): JsonSchema => makeSchema(scorers, '');

const makeText = memoByScorers((scorers) => JSON.stringify(answerSchema(scorers)));

/** The schema as JSON text. */
export const answerSchemaText = (scorers: readonly JudgeScorer[]): string => makeText(scorers, '');
