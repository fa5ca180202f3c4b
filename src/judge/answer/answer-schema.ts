/** Builds the JSON schema of the answer to a set of scorers. */
import type { ScorerValues } from '../../core/values/scorer-values.ts';
import { memoByScorers } from '../memo.ts';
import { type Rung, UNSURE } from '../prompt/build-prompt.ts';
import type { JudgeScorer } from '../types.ts';

export type JsonSchema = { [key: string]: unknown };

/** Claude refuses a schema with more properties of several types ("too many parameters with union types"). */
const MAX_UNIONS = 16;

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

const objectSchema = (properties: Record<string, JsonSchema>, required = Object.keys(properties)): JsonSchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/** The rationale comes before the value, because a model writes properties in order and should reason before it decides. */
const reasoned = (value: JsonSchema, required?: string[]): JsonSchema =>
  objectSchema({ rationale: { type: 'string' }, value }, required);

/** Either the passing value alone, or any value with a rationale. */
const passOrRationale = (pass: string): JsonSchema => ({
  anyOf: [{ type: 'string', enum: [pass] }, { $ref: '#/$defs/words' }],
});

/** The forms of terse answers, shared by all questions so that the schema, which is billed as input, stays short. */
const SHARED = {
  mark: { mark: { type: 'string', enum: ['yes', 'no', UNSURE] } },
  yes: { yes: passOrRationale('yes'), words: reasoned(valueSchema({ kind: 'yes-no' })) },
  no: { no: passOrRationale('no'), words: reasoned(valueSchema({ kind: 'yes-no' })) },
};

/** Returns the name in `SHARED` of a scorer's form, if the form is shared. Tools do not support references. */
function sharedForm({ isTerse, asksIfSure, passes = 'yes' }: JudgeScorer, unions: number, rung: Rung) {
  if (!isTerse || rung === 'tool') return undefined;
  if (asksIfSure) return 'mark';
  return unions > MAX_UNIONS ? undefined : passes;
}

function entrySchema(scorer: JudgeScorer, rung: Rung): JsonSchema {
  const { isTerse, asksIfSure } = scorer;
  const value = valueSchema(scorer.values);
  if (asksIfSure && isTerse) return SHARED.mark.mark;
  if (asksIfSure) return objectSchema({ rationale: { type: 'string' }, value, sure: { type: 'boolean' } });
  return reasoned(value, isTerse && rung === 'tool' ? ['value'] : undefined);
}

const schemaOf = memoByScorers((scorers, rung: Rung): JsonSchema => {
  const unions = scorers.filter(({ isTerse, asksIfSure }) => isTerse && !asksIfSure).length;
  const shared: JsonSchema = {};
  const entries = scorers.map((scorer) => {
    const form = sharedForm(scorer, unions, rung);
    if (form === undefined) return [scorer.name, entrySchema(scorer, rung)] as const;
    Object.assign(shared, SHARED[form]);
    return [scorer.name, { $ref: `#/$defs/${form}` }] as const;
  });
  const schema = objectSchema(Object.fromEntries(entries));
  if (Object.keys(shared).length > 0) schema.$defs = shared;
  return schema;
});

/** Returns a schema with one property per scorer, in the form that the rung enforces. */
export const answerSchema = (scorers: readonly JudgeScorer[], rung: Rung = 'json-schema'): JsonSchema =>
  schemaOf(scorers, rung);

/** Returns the schema as JSON text. */
export const answerSchemaText = memoByScorers((scorers) => JSON.stringify(answerSchema(scorers)));
