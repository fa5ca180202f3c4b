/** Builds the JSON schema of the answer to a set of scorers. */
import { memoByScorers } from '../memo.ts';
import type { ScorerValues } from '../types.ts';

export type JsonSchema = { [key: string]: unknown };

/** Bounds of numbers are checked when the answer is read, because models refuse `minimum` and `maximum` in schemas. */
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

/**
 * Returns a schema with one property per scorer. The rationale comes before the value, because a model writes properties
 * in the schema's order and should reason before it decides.
 */
export const answerSchema = memoByScorers((scorers) =>
  objectSchema(
    Object.fromEntries(
      scorers.map(({ name, values }) => [
        name,
        objectSchema({ rationale: { type: 'string' }, value: valueSchema(values) }),
      ]),
    ),
  ),
);

/** Returns the schema as JSON text. */
export const answerSchemaText = memoByScorers((scorers) => JSON.stringify(answerSchema(scorers)));
