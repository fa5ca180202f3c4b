/** `SCORER_FUNCTIONS`: scorers by name that are Lambda functions. */
import * as z from 'zod';
import type { Severity } from '../values/severity.ts';

/** With a version or an alias. `$LATEST` changes under its name, so that it cannot be the key of an answer. */
const FUNCTION_ARN =
  /^(?<arn>arn:aws[\w-]*:lambda:(?<region>[a-z0-9-]+):\d{12}:function:(?<name>[\w-]{1,64})):(?<qualifier>[\w-]{1,128})$/;

const scorerFunctionSchema = z.strictObject({
  arn: z.string().regex(FUNCTION_ARN, 'the ARN of a function ends in a version or an alias, and not in $LATEST'),
  /** The kind of the values, or a list of categories, the good one first. */
  values: z.union([z.enum(['number', 'boolean', 'yes-no']), z.array(z.string()).readonly()]),
  /** Which number is good; `low`: of a boolean `false`, and of yes and no the `no`. */
  better: z.enum(['high', 'low']).default('high'),
  // `checkScorers` checks the severity, and names the scorer.
  severity: z.custom<Severity>((given) => typeof given === 'string').optional(),
  needs: z.array(z.enum(['request', 'reply', 'system-prompt', 'tools'])).default(['reply']),
  /** Share of the captures that are judged, 0 to 1. */
  share: z.number().optional(),
  /** The cost of a record in US dollars, which is reserved and is the maximum. */
  usdPerRecord: z.number().min(0).max(1000).default(0),
  /** The time limit of an invocation. */
  seconds: z.number().min(1).max(300).default(60),
  /** Invocations per second of the whole stack. */
  perSecond: z.number().positive().optional(),
});

export const scorerFunctionsSchema = z.record(z.string(), scorerFunctionSchema);
export type ScorerFunctions = Readonly<z.infer<typeof scorerFunctionsSchema>>;

/** Returns the parts of the ARN of a function: itself without its version or alias, its region, name and qualifier. */
export const functionArn = (text: string) =>
  (FUNCTION_ARN.exec(text)?.groups ?? {}) as Record<'arn' | 'region' | 'name' | 'qualifier', string>;

/** Whether the qualifier is an alias, which may be moved to another version. */
export const isAlias = (qualifier: string): boolean => !/^\d+$/.test(qualifier);
