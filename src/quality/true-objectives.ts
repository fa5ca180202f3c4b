/**
 * Objectives for figures of true answers: `{"accuracy": {"atLeast": 0.9}, "over": "7d", "variant": "A"}`. The detectors do not watch
 * them, since labels come late and in any order: the newest window that has labels decides.
 */
import * as z from 'zod';
import { PermanentError } from '../core/errors/errors.ts';
import type { GroundTruthSettings } from '../core/settings/ground-truth-setting.ts';
import type { Measured } from '../core/statistics/sampled-mean.ts';

/** Labels of longer ago are history. */
const MAX_DAYS = 90;

/** SageMaker's names. Any other variant has no captures, so its objective would never be missed. */
export const variantSchema = z
  .string()
  .regex(/^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$/, 'a variant has letters, digits and "-", 63 at most');

/** The length of a window. */
export const windowSchema = z.string().regex(/^[1-9]\d{0,2}[hd]$/, 'such as "12h" or "1d"');

const share = z.strictObject({ atLeast: z.number().gt(0).lt(1) });
const error = z.strictObject({ atMost: z.number().gt(0) });
/** The figures that may have an objective, by the kind of the predictions. */
const BOUNDS = {
  classes: { accuracy: share, precision: share, recall: share, f1: share, auc: share },
  numbers: { mae: error, rmse: error, bias: error, r2: z.strictObject({ atLeast: z.number().lt(1) }) },
  texts: { exact: share, normalized: share },
} as const;
const all: Record<string, z.ZodType<TrueObjective['bound']>> = Object.assign({}, ...Object.values(BOUNDS));

export interface TrueObjective {
  /** Unique name: the measure, and the variant, if any. It is the dimension `Objective` of its metrics. */
  id: string;
  measure: string;
  /** Absent: all variants together. */
  variant?: string;
  /** The setting's own figure. */
  bound: { atLeast: number } | { atMost: number };
  hours: number;
}

export const invalidObjectives = (problem: string): PermanentError =>
  new PermanentError('InvalidObjectives', `The objectives are invalid: ${problem}`, { where: 'QUALITY_OBJECTIVES' });

/** Parses an entry of the setting. @throws PermanentError `InvalidObjectives`, with examples of entries */
export function parseObjective<S extends z.ZodType>(entry: unknown, schema: S, examples: string): z.output<S> {
  const parsed = schema.safeParse(entry);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue?.path.length ? `${issue.path.join('.')}: ` : '';
  throw invalidObjectives(`${JSON.stringify(entry)} is not like ${examples}: ${where}${issue?.message}`);
}

/** Whether an entry of the setting is about true answers. */
export const isAboutTruth = (entry: unknown): boolean => measureOf(entry) !== undefined;

const measureOf = (entry: unknown): string | undefined =>
  typeof entry === 'object' && entry !== null ? Object.keys(entry).find((name) => Object.hasOwn(all, name)) : undefined;

/** Returns the unique name of an objective, with its variant, if any. */
export const namedBy = (measure: string, variant: string | undefined) =>
  variant === undefined ? { id: measure } : { id: `${measure} ${variant}`, variant };

/** @throws PermanentError `InvalidObjectives` if the window is longer than `mostDays` */
export function hoursOf(over: string, mostDays: number): number {
  const hours = Number(over.slice(0, -1)) * (over.endsWith('d') ? 24 : 1);
  if (hours > mostDays * 24) throw invalidObjectives(`"over":"${over}" is longer than ${mostDays} days`);
  return hours;
}

/**
 * Reads the objectives for true answers, and leaves out the others.
 *
 * @param raw the setting's value
 * @param truth the settings that they must fit
 * @throws PermanentError `InvalidObjectives`, also for an objective that can never be missed
 */
export const readTrueObjectives = (raw: readonly unknown[], truth?: Truth): TrueObjective[] =>
  raw.filter(isAboutTruth).map((entry) => readTrueObjective(entry, truth));

type Truth = Pick<GroundTruthSettings, 'kind' | 'days'>;

function readTrueObjective(entry: unknown, truth?: Truth): TrueObjective {
  const measure = measureOf(entry) as string;
  const schema = z.strictObject({
    [measure]: all[measure] as z.ZodType<TrueObjective['bound']>,
    over: windowSchema.default('7d'),
    variant: variantSchema.optional(),
  });
  const parsed = parseObjective(entry, schema, '{"accuracy":{"atLeast":0.9}}');
  const { over, variant } = parsed as { over: string; variant?: string };
  const bound = (parsed as Record<string, unknown>)[measure] as TrueObjective['bound'];
  if (truth?.days === 0)
    throw invalidObjectives(`${measure} can never be missed: GROUND_TRUTH keeps no predictions ("days":0)`);
  if (truth?.kind !== undefined && !Object.hasOwn(BOUNDS[truth.kind], measure)) {
    const why = `"kind" in GROUND_TRUTH is "${truth.kind}", which has ${Object.keys(BOUNDS[truth.kind]).join(', ')}`;
    throw invalidObjectives(`${measure} can never be missed: ${why}`);
  }
  return { ...namedBy(measure, variant), measure, bound, hours: hoursOf(over, MAX_DAYS) };
}

/**
 * Whether a figure shows that an objective is missed: its whole 95% interval is beyond the bound. A bias has two sides.
 *
 * @returns `null` for a figure without an interval, or with a reason why it cannot decide
 */
export function isMissed(
  { measure, bound }: TrueObjective,
  { low, high, why }: Pick<Measured, 'low' | 'high'> & { why?: string },
): boolean | null {
  if (low === null || high === null || why !== undefined) return null;
  if ('atLeast' in bound) return high < bound.atLeast;
  return low > bound.atMost || (measure === 'bias' && high < -bound.atMost);
}
