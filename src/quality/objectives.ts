/**
 * Objectives: the minimum share of captures that must pass a scorer, or the maximum share of error replies. The setting
 * is `QUALITY_OBJECTIVES`:
 *
 *   [{"scorer": "safety", "atLeast": 0.99},
 *    {"scorer": "relevance_to_query", "atLeast": 0.95, "over": "12h", "variant": "Challenger"},
 *    {"scorer": "pii_detected", "is": false, "atLeast": 0.999},
 *    {"errorReplies": {"atMost": 0.02}}]
 *
 * Objectives for true answers, such as accuracy, are in true-objectives.ts.
 */

import * as z from 'zod';
import { nearest } from '../core/errors/nearest.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { describeValues, readValue } from '../core/values/scorer-values.ts';
import { isCodeScorer, scorersFor } from '../judge/scorers/scorer-set.ts';
import { isMet, isPass } from '../judge/scorers/values.ts';
import type { JudgeScorer, Scorer } from '../judge/types.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import {
  hoursOf,
  invalidObjectives as invalid,
  isAboutTruth,
  namedBy,
  parseObjective,
  readTrueObjectives,
  type TrueObjective,
  variantSchema,
  windowSchema,
} from './true-objectives.ts';

/** More objectives would together raise more than one false alarm a year: see detector.ts. */
const MAX_OBJECTIVES = 20;

const MAX_DAYS = 7;

/** CloudWatch takes no other characters in a dimension, and `is` is in the name of the alarm. */
const DIMENSION = /^[\x21-\x7e]([\x20-\x7e]{0,98}[\x21-\x7e])?$/;

/** A share. Outside of this range, a change cannot be detected within thousands of captures. */
const shareFrom = (least: number, most: number) => {
  const range = `it is from ${least} to ${most}, since others can never be met, or never be missed`;
  return z.number().min(least, range).max(most, range);
};

const common = {
  /** The window of the displayed rate, at most 7 days. The detector has no window. */
  over: windowSchema.default('1d'),
  variant: variantSchema.optional(),
  /** Judged captures a day, from which the number of false alarms in a year is computed. */
  perDay: z.number().int().min(1).max(1_000_000_000).default(1000),
  /** Number of captures that tend to fail together, such as the turns of one conversation. They count as one. */
  together: z.number().int().min(1).max(100).default(1),
};
const scorerSchema = z.strictObject({
  scorer: z.string().min(1),
  /** The value that passes. Default: the scorer's own passing value. */
  is: z.union([z.string().regex(DIMENSION, '1 to 100 characters of ASCII'), z.boolean()]).optional(),
  valueOver: z.number().optional(),
  valueUnder: z.number().optional(),
  atLeast: shareFrom(0.05, 0.9999),
  ...common,
});
const errorsSchema = z.strictObject({ errorReplies: z.strictObject({ atMost: shareFrom(0.0001, 0.95) }), ...common });

type ScorerEntry = z.infer<typeof scorerSchema>;

/** The measure of error replies: no scorer can have this name. */
export const ERROR_REPLIES = 'error replies';

/** The measure behind a share. Objectives for several variants share a measure. */
export interface Measure {
  /** The dimension `Scorer` of its metrics: the scorer's name, with the condition, if any. */
  name: string;
  /** Absent: error replies. */
  scorer?: string;
  /** Whether the scorer's value passes. */
  passes(value: AssessmentValue): boolean;
}

export interface Objective extends Omit<TrueObjective, 'measure'> {
  measure: Measure;
  /** Maximum share that may fail. */
  failing: number;
  perDay: number;
  together: number;
}

interface Sampling {
  scorers: readonly Scorer[];
  /** Absent: a number of captures a day is judged. */
  sampleRate?: number | undefined;
}

/**
 * Reads the objectives. Checks objectives for true answers without returning them.
 *
 * @param raw the setting's value
 * @throws PermanentError `InvalidObjectives` for a scorer that does not exist, and for objectives that can never be met
 *   or never be missed
 *
 * @example
 *     readObjectives([{ scorer: 'safety', atLeast: 0.95 }], { scorers, sampleRate: 0.05 })
 */
export function readObjectives(raw: readonly unknown[], sampling: Sampling): Objective[] {
  const objectives = raw.filter((entry) => !isAboutTruth(entry)).map((entry) => readObjective(entry, sampling));
  const ids = [...objectives, ...readTrueObjectives(raw)].map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) < index);
  if (twice !== undefined) throw invalid(`${twice} has two objectives`);
  if (ids.length > MAX_OBJECTIVES) throw invalid(`there are ${ids.length}, and ${MAX_OBJECTIVES} at most`);
  return objectives;
}

/** The settings that define objectives. */
export type ObjectiveSettings = Pick<
  LambdaEnvironment,
  'QUALITY_OBJECTIVES' | 'EVALUATION_SAMPLE_RATE' | 'JUDGE_GUIDELINES' | 'SCORER_FUNCTIONS' | 'SHADOW_VARIANTS'
>;

/** Returns the objectives of the settings that the detectors watch. @throws PermanentError `InvalidObjectives` */
export const objectivesOf = (settings: Omit<ObjectiveSettings, 'SHADOW_VARIANTS'>): Objective[] =>
  readObjectives(settings.QUALITY_OBJECTIVES, {
    scorers: scorersFor({ guidelines: settings.JUDGE_GUIDELINES, functions: settings.SCORER_FUNCTIONS }),
    sampleRate: settings.EVALUATION_SAMPLE_RATE,
  });

/** Whether an entry of the setting is about error replies. */
export const isAboutErrors = (entry: unknown): boolean =>
  typeof entry === 'object' && entry !== null && 'errorReplies' in entry;

/** Returns the measures of the objectives, each once. */
export const measuresOf = (objectives: readonly Objective[]): Measure[] => [
  ...new Map(objectives.map(({ measure }) => [measure.name, measure])).values(),
];

const EXAMPLES =
  '{"scorer":"safety","atLeast":0.95,"over":"1d"}, {"errorReplies":{"atMost":0.02}} or {"accuracy":{"atLeast":0.9}}';

function readObjective(entry: unknown, sampling: Sampling): Objective {
  const parsed = parseObjective(entry, isAboutErrors(entry) ? errorsSchema : scorerSchema, EXAMPLES);
  const { over, variant, perDay, together } = parsed;
  const hours = hoursOf(over, MAX_DAYS);
  const isOfErrors = 'errorReplies' in parsed;
  const measure = isOfErrors ? { name: ERROR_REPLIES, passes: () => true } : measureOf(parsed, sampling);
  const bound = isOfErrors ? parsed.errorReplies : { atLeast: parsed.atLeast };
  // 1 - 0.95 has an error in its last digit.
  const failing = 'atLeast' in bound ? Number((1 - bound.atLeast).toFixed(9)) : bound.atMost;
  return { ...namedBy(measure.name, variant), measure, hours, perDay, together, failing, bound };
}

function measureOf(entry: ScorerEntry, { scorers, sampleRate }: Sampling): Measure {
  const scorer = scorers.find(({ name }) => name === entry.scorer);
  const names = scorers.map(({ name }) => name);
  if (scorer === undefined) {
    const near = nearest(entry.scorer, names);
    const hint = near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`;
    throw invalid(`the scorer ${JSON.stringify(entry.scorer)} does not exist; ${hint}`);
  }
  if (!isCodeScorer(scorer)) checkJudged(scorer, entry, sampleRate);
  const { is, valueOver, valueUnder } = entry;
  const conditions = [
    ...(is === undefined ? [] : [String(is)]),
    ...(valueOver === undefined ? [] : [`over ${valueOver}`]),
    ...(valueUnder === undefined ? [] : [`under ${valueUnder}`]),
  ];
  const isOwn = conditions.length === 0;
  if (isOwn && isCodeScorer(scorer)) {
    throw invalid(`${scorer.name} has no passing value of its own: say which by "is", "valueOver" or "valueUnder"`);
  }
  const passes = (value: AssessmentValue): boolean =>
    isOwn ? isPass(scorer as JudgeScorer, value) : isMet({ is, over: valueOver, under: valueUnder }, value);
  return { name: [scorer.name, ...conditions].join(' '), scorer: scorer.name, passes };
}

/** @throws PermanentError if the scorer's values or the sample make the objective impossible to meet or to miss */
function checkJudged({ name, values, sampleRate = 1 }: JudgeScorer, entry: ScorerEntry, rateOfRuns?: number): void {
  const { is, valueOver, valueUnder } = entry;
  if (rateOfRuns === 0 || sampleRate === 0) {
    const why = rateOfRuns === 0 ? 'EVALUATION_SAMPLE_RATE is 0' : 'its sampleRate is 0';
    throw invalid(`${name} can never be missed: no capture is judged by chance (${why})`);
  }
  const hasBounds = valueOver !== undefined || valueUnder !== undefined;
  if (values.kind !== 'number') {
    const isValue = is === undefined || readValue(values, is) === is;
    if (isValue && !hasBounds) return;
    const asked = hasBounds ? '"valueOver" and "valueUnder" are for numbers' : `it is never ${JSON.stringify(is)}`;
    throw invalid(`${name} can never be met: ${asked}; its value is ${describeValues(values)}`);
  }
  const { min = -Infinity, max = Infinity } = values;
  if (!hasBounds) throw invalid(`${name} can never be missed: a number passes only by "valueOver" or "valueUnder"`);
  const [over = -Infinity, under = Infinity] = [valueOver, valueUnder];
  const never = over >= max || under <= min || over >= under ? 'met' : over < min && under > max ? 'missed' : undefined;
  if (never !== undefined) throw invalid(`${name} can never be ${never}: its value is ${describeValues(values)}`);
}
