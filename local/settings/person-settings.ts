/** The user's own settings that a local run applies. */
import { join } from 'node:path';
import { parseSettings, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { keptPath } from '../../src/core/process/package-folder.ts';
import { dotenvSettings } from '../../src/core/settings/dotenv-file.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { defaultJudgeModel } from '../../src/core/settings/variables.ts';
import NAMES from './person-settings.json' with { type: 'json' };

/**
 * Every setting has a class. `applied`: settings for decoding, masking and judging, which apply with any judge.
 * `withRealJudge`: the budget, the limits and the guardrail, which apply only to the real model. `ofOtherJudge`:
 * address and key of a judge outside Bedrock; a local run never calls, or pays, such a judge. `onAws`: names and sizes
 * of resources on AWS. `protecting`: like `onAws`, but they protect data that an option sends from this machine or
 * keeps on it.
 */
const { applied, withRealJudge, ofOtherJudge, protecting } = NAMES;

/** The file in a folder of captures with the settings for them, in the format of `.env`. */
const OF_CAPTURES = 'settings.env';

/**
 * Reads settings from the folder of the captures, `.env` and the environment; later sources have precedence. An empty
 * value counts as not set.
 */
export function givenSettings(captures: string): Record<string, string> {
  const dotenv = dotenvSettings(keptPath('.env'));
  const ofCaptures = dotenvSettings(join(captures, OF_CAPTURES));
  const given = SETTING_NAMES.flatMap((name) => {
    const value = [process.env, dotenv, ofCaptures].map((from) => from[name]).find((text) => text?.trim());
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(given);
}

/**
 * Checks the settings that apply, a minute before the CDK would.
 *
 * @throws Error `InvalidSettings` with a line for every invalid setting
 */
export const checkSettings = (settings: Readonly<Record<string, string>>): Settings =>
  parseSettings({
    ...settings,
    STACK_PREFIX: 'local',
    MLFLOW_TRACKING_URI: 'http://127.0.0.1',
    SAGEMAKER_ENDPOINT_NAME: 'local',
    DATA_CAPTURE_S3_BUCKET: 'local',
  });

/** @throws Error if a setting protects data that an option sends or keeps, and a local run cannot apply it */
export function checkProtection(
  given: Readonly<Record<string, string>>,
  options: { bedrock: boolean; keep?: string | undefined },
): void {
  for (const { option, does, settings } of protecting) {
    const name = settings.find((one) => given[one] !== undefined);
    if (name === undefined || !options[option as keyof typeof options]) continue;
    throw new Error(
      `${does}, and npm start cannot apply the setting that protects them; got: ${name}=${given[name]}; expected: no --${option}, or no ${name} in .env and the environment`,
    );
  }
}

/**
 * Selects the settings that a local run applies. All others name resources on AWS, which it must not touch.
 *
 * @param judge `real`: calls are forwarded to Bedrock in this region and cost money, so the user's budget applies; `url`: the
 *   address of the stand-in, which otherwise answers for every judge
 * @throws Error if the real judge is requested and is not on Bedrock
 */
export function personSettings(
  given: Readonly<Record<string, string>>,
  judge: { real: false | { region: string }; url: string },
) {
  const model = given.BEDROCK_MODEL_ID ?? '';
  const isElsewhere = /^(openai|sagemaker):\//.test(model);
  if (judge.real && isElsewhere) {
    throw new Error(
      `--bedrock forwards the judge's calls to Bedrock; got: BEDROCK_MODEL_ID=${model}; expected: a Bedrock model, or no --bedrock, so that the stand-in answers for the judge`,
    );
  }
  const names = [...applied, ...(judge.real ? withRealJudge : [])].filter((name) => given[name] !== undefined);
  const settings = Object.fromEntries(names.map((name) => [name, given[name] ?? '']));
  // The stand-in is free. The stack is in another region than the real model.
  if (judge.real === false) settings.EVALUATION_BUDGET_USD = '0';
  else settings.BEDROCK_MODEL_ID ??= defaultJudgeModel(judge.real.region) ?? '';
  if (model.startsWith('openai:/')) settings.JUDGE_BASE_URL = `${judge.url}/v1`;
  const left = [...ofOtherJudge, ...(judge.real ? [] : withRealJudge)].filter((name) => given[name] !== undefined);
  const onAws = Object.keys(given).filter((name) => !names.includes(name) && !left.includes(name));
  const whyLeft = judge.real ? 'the judge is on Bedrock' : 'the stand-in judges and nothing is paid';
  const note = (what: string, of: readonly string[]): string[] =>
    of.length === 0 ? [] : [`your settings that ${what}: ${of.join(', ')}`];
  return {
    settings,
    /** Lines for the terminal about the settings that apply and the settings that do not. */
    notes: [
      ...note('apply', names),
      ...note(`do not apply, since ${whyLeft}`, left),
      ...note('do not apply, since nothing is on AWS', onAws),
    ],
  };
}
