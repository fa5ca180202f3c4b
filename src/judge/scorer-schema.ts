/** The definition of a scorer. */
import * as z from 'zod';
import type { Capture } from '../captures/types.ts';
import { describeValues, readValue } from '../core/values/scorer-values.ts';
import { SEVERITIES } from '../core/values/severity.ts';
import type { AssessmentValue } from '../mlflow/types.ts';

type Score = (capture: Capture) => { value: AssessmentValue; rationale?: string } | { notJudgeable: string };

/** The name is an assessment's name in MLflow and a property of the judge's JSON schema, where models accept 64 characters. */
const scorerName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'a letter, then letters, digits, _ or -, 64 at most');

/** A question is sent with every capture. At this length it would cost more than most captures. */
const MAX_QUESTION_CHARS = 4000;

const valuesSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('yes-no') }),
  z.strictObject({ kind: z.literal('boolean') }),
  z.strictObject({
    kind: z.literal('categories'),
    values: z
      .array(z.string().trim().min(1))
      .min(2)
      .refine((values) => new Set(values.map((value) => value.toLowerCase())).size === values.length, {
        message: 'categories must differ in more than case',
      })
      .readonly(),
  }),
  z
    .strictObject({ kind: z.literal('number'), min: z.number().optional(), max: z.number().optional() })
    .refine(({ min = -Infinity, max = Infinity }) => min < max, { message: 'min must be less than max' }),
]);

/** The function that answers a scorer in place of the judge. */
const functionSchema = z.strictObject({
  /** The ARN without its version or alias. */
  arn: z.string(),
  /** A version, or an alias until planning has resolved it. */
  qualifier: z.string(),
  /** The maximum cost of a record in US dollars. Absent: any cost. */
  usdPerRecord: z.number().optional(),
  /** The time limit of an invocation. */
  seconds: z.number(),
  /** Invocations per second, over all functions of the stack. Absent: no limit. */
  perSecond: z.number().optional(),
});

/** A case with a value that a person decided. */
export const exampleSchema = z.strictObject({
  /** The user's message. Absent if the scorer needs only the reply. */
  request: z.string().optional(),
  reply: z.string(),
  value: z.union([z.string(), z.number(), z.boolean()]),
  rationale: z.string(),
});

/** Severity of a failure. Default: `task`. */
const severity = z
  .enum(SEVERITIES, {
    error: ({ input }) => `got ${JSON.stringify(input).slice(0, 40)}; expected ${SEVERITIES.join(', ')}`,
  })
  .optional();

/** The failing shares from which on the endpoint needs a look, and is bad. Without the second, it is never bad. Default: by the severity. */
const bounds = z.array(z.number().gt(0).lt(1)).max(2).readonly().optional();

/** A scorer that the LLM judge answers, or a function. */
export const judgeScorerSchema = z
  .strictObject({
    kind: z.literal('judge'),
    name: scorerName,
    /** Changes whenever the question changes. */
    version: z.string().min(1),
    /** The question, in the words that the judge reads. */
    question: z.string().trim().min(1).max(MAX_QUESTION_CHARS),
    values: valuesSchema,
    needs: z
      .array(z.enum(['request', 'reply', 'system-prompt', 'tools', 'captured-reply']))
      .min(1)
      .readonly(),
    /** Share of the run's sample that this scorer judges, 0 to 1; default 1. Always rules override it. */
    sampleRate: z.number().min(0).max(1).optional(),
    /** The answer to a yes/no question that is not a failure; `no`: of a boolean, `false`. Default: `yes`. */
    passes: z.enum(['yes', 'no']).optional(),
    severity,
    bounds,
    asks: functionSchema.optional(),
    /** The passing value of a yes/no question is answered without a rationale (`JUDGE_RATIONALES=failures`). */
    isTerse: z.boolean().optional(),
    /** Whether the judge states for its answer whether it is sure, as the first model of a cascade must. */
    asksIfSure: z.boolean().optional(),
    /**
     * Cases with known values that are shown to the judge. They are part of the question, so they change the version.
     */
    examples: z.array(exampleSchema).readonly().optional(),
  })
  .check((context) => {
    const { values, examples = [] } = context.value;
    for (const [index, { value: input }] of examples.entries()) {
      if (readValue(values, input) === input) continue;
      const message = `${JSON.stringify(input)} is not one of the scorer's values (${describeValues(values)})`;
      context.issues.push({ code: 'custom', input, path: ['examples', index, 'value'], message });
    }
  });

/** A scorer that is computed from the capture, without a model. */
export const codeScorerSchema = z.object({
  kind: z.literal('code'),
  name: scorerName,
  version: z.string().min(1),
  /** States what the scorer measures and what it does not. */
  description: z.string().min(1),
  /** The value that is a failure of the reply. Absent: no value is. */
  fails: z.boolean().optional(),
  severity,
  bounds,
  /**
   * Whether the scorer is asked about a capture. Absent: it is asked about every capture. Skipped captures do not count
   * and need no reason.
   */
  isAsked: z.custom<(capture: Capture) => boolean>((value) => typeof value === 'function').optional(),
  /** Returns the value, or the reason why the scorer does not apply to the capture. */
  score: z.custom<Score>((value) => typeof value === 'function', 'a function of the capture'),
});
