/** The settings of a person's own that a local run takes over. */

import { parseSettings, SETTING_NAMES, type Settings } from '../../lib/settings/settings.ts';
import { slips } from '../../src/settings/slips.ts';
import { dotenvSettings } from './dotenv-file.ts';

/** What is decoded and how it is judged, whoever judges. */
const TAKEN_OVER = [
  'BEDROCK_MODEL_ID',
  'MLFLOW_EVALUATION_MODEL_PARAM',
  'EVALUATION_SAMPLE_RATE',
  'EVALUATION_ALWAYS',
  'JUDGE_CALLS',
  'JUDGE_GUIDELINES',
  'JUDGE_PRICES',
  'CSV_HEADER',
  'FEATURE_NAMES',
  'MAX_LINE_BYTES',
];

/** What only the real model knows or costs: the person's budget and guardrail. */
const WITH_REAL_JUDGE = ['EVALUATION_BUDGET_USD', 'BEDROCK_GUARDRAIL_ID', 'BEDROCK_GUARDRAIL_VERSION'];

/** Of a judge outside Bedrock: its address and its key. Nobody is asked, or paid, without having been told to. */
const OF_OTHER_JUDGE = ['JUDGE_BASE_URL', 'JUDGE_SECRET_ARN'];

interface PersonSettings {
  settings: Record<string, string>;
  /** What was taken over and what was not, for the terminal; none where there is nothing to say. */
  notes: string[];
}

/** Settings from `.env` and the environment, which wins; an empty one counts as not made. */
export function givenSettings(): Record<string, string> {
  const dotenv = dotenvSettings();
  const given = [...TAKEN_OVER, ...WITH_REAL_JUDGE, ...OF_OTHER_JUDGE].flatMap((name) => {
    const value = process.env[name] || dotenv[name];
    return value ? [[name, value]] : [];
  });
  return Object.fromEntries(given);
}

/** A sentence for each variable of `.env` and the environment that looks like a setting and is none, as at synth. */
export const settingSlips = (dotenv = dotenvSettings(), environment: NodeJS.ProcessEnv = process.env): string[] =>
  slips(SETTING_NAMES, dotenv, environment);

/**
 * Checks what is taken over, before the minute that it takes until the CDK would.
 *
 * @throws Error `InvalidSettings` with a line for every setting that is wrong
 */
export const checkTakenOver = (settings: Readonly<Record<string, string>>): Settings =>
  parseSettings({
    ...settings,
    STACK_PREFIX: 'local',
    MLFLOW_TRACKING_URI: 'http://127.0.0.1',
    SAGEMAKER_ENDPOINT_NAME: 'local',
    DATA_CAPTURE_S3_BUCKET: 'local',
  });

/**
 * What a local run takes over of the settings given. Everything else names resources on AWS, which it must not touch.
 *
 * @param judge `real`: calls go on to Bedrock and cost money, so the person's budget holds; else `url`, where the stand-in
 *   answers in the place of every judge
 * @throws Error when the real judge is wanted and is not on Bedrock
 */
export function personSettings(
  given: Readonly<Record<string, string>>,
  judge: { real: boolean; url: string },
): PersonSettings {
  const model = given.BEDROCK_MODEL_ID ?? '';
  const isElsewhere = /^(openai|sagemaker):\//.test(model);
  if (judge.real && isElsewhere) {
    throw new Error(
      `--bedrock passes the judge's calls on to Bedrock; got: BEDROCK_MODEL_ID=${model}; expected: a Bedrock model, or no --bedrock: then the stand-in answers in the judge's place`,
    );
  }
  const names = [...TAKEN_OVER, ...(judge.real ? WITH_REAL_JUDGE : [])].filter((name) => given[name] !== undefined);
  const settings = Object.fromEntries(names.map((name) => [name, given[name] ?? '']));
  // The stand-in's costs are none.
  if (!judge.real) settings.EVALUATION_BUDGET_USD = '0';
  if (model.startsWith('openai:/')) settings.JUDGE_BASE_URL = `${judge.url}/v1`;
  const left = [...OF_OTHER_JUDGE, ...(judge.real ? [] : WITH_REAL_JUDGE)].filter((name) => given[name] !== undefined);
  return {
    settings,
    notes: [
      ...(names.length === 0 ? [] : [`settings of yours taken over: ${names.join(', ')}`]),
      ...(left.length === 0 ? [] : [`settings of yours left out, since ${whyLeft(judge.real)}: ${left.join(', ')}`]),
    ],
  };
}

const whyLeft = (real: boolean): string =>
  real ? 'the judge is on Bedrock' : 'the stand-in judges and nothing is paid';
