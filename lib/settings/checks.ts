/** What settings must be together. */
import type { PriceOverrides } from '../../src/judge/pricing/price-overrides.ts';
import { ratesOf } from '../../src/judge/pricing/prices.ts';
import type { CheckedSettings } from '../../src/settings/schema.ts';
import { functionEnvironment, nodeOptions, replayEnvironment } from './function-environment.ts';
import type { Settings } from './settings.ts';

export interface WrongSetting {
  name: string;
  got: string;
  allowed: string;
}

const isOpenAi = ({ BEDROCK_MODEL_ID: id }: CheckedSettings): boolean => id.startsWith('openai:/');
const isBedrock = ({ BEDROCK_MODEL_ID: id }: CheckedSettings): boolean => !/^(openai|sagemaker):\//.test(id);

/**
 * Combinations with which every run would fail.
 *
 * @param faulty names of settings that are wrong by themselves: what depends on them cannot be told
 */
export function wrongTogether(settings: CheckedSettings, faulty: ReadonlySet<string>): WrongSetting[] {
  const wrong: WrongSetting[] = [];
  const check = (of: (keyof CheckedSettings)[], fault: () => WrongSetting | undefined): void => {
    const found = of.some((name) => faulty.has(name)) ? undefined : fault();
    if (found !== undefined) wrong.push(found);
  };
  check(['BEDROCK_GUARDRAIL_ID', 'BEDROCK_GUARDRAIL_VERSION'], () => {
    if (settings.BEDROCK_GUARDRAIL_ID === undefined || settings.BEDROCK_GUARDRAIL_VERSION !== undefined)
      return undefined;
    const allowed = 'a guardrail version: a number or DRAFT, since BEDROCK_GUARDRAIL_ID is set';
    return { name: 'BEDROCK_GUARDRAIL_VERSION', got: 'nothing', allowed };
  });
  check(['BEDROCK_MODEL_ID', 'JUDGE_SECRET_ARN', 'JUDGE_BASE_URL'], () => {
    if (!isOpenAi(settings) || settings.JUDGE_SECRET_ARN !== undefined || settings.JUDGE_BASE_URL !== undefined) {
      return undefined;
    }
    const allowed = `the ARN of the secret with the API key of ${settings.BEDROCK_MODEL_ID}, or JUDGE_BASE_URL of a server that needs none`;
    return { name: 'JUDGE_SECRET_ARN', got: 'nothing', allowed };
  });
  check(['BEDROCK_MODEL_ID', 'JUDGE_PRICES', 'EVALUATION_BUDGET_USD'], () => {
    const { BEDROCK_MODEL_ID: model, EVALUATION_BUDGET_USD: budget } = settings;
    const overrides = JSON.parse(settings.JUDGE_PRICES) as PriceOverrides;
    if (budget === 0 || ratesOf(model, { overrides }) !== null) return undefined;
    const allowed = 'the price of that model, so that the budget can be kept; or EVALUATION_BUDGET_USD=0 (no limit)';
    return { name: 'JUDGE_PRICES', got: `no price of ${model}`, allowed };
  });
  return wrong;
}

/** Lambda takes 4 KB of environment, measured as JSON. */
const MAX_ENVIRONMENT_BYTES = 4096;
/** Names that AWS makes for the work bucket and the budget's table at deployment, at their longest. */
const [BUCKET_NAME, TABLE_NAME] = ['b'.repeat(63), 't'.repeat(128)] as const;
/** What else `lib/pipeline-function.ts` and `lib/batch-inference.ts` set, at its longest. */
const FURTHER =
  `,"POWERTOOLS_SERVICE_NAME":"${'f'.repeat(64)}"`.length +
  `,"NODE_OPTIONS":"${nodeOptions(10_240)}"`.length +
  `,"BATCH_ROLE_ARN":"arn:aws-us-gov:iam::123456789012:role/${'r'.repeat(64)}"`.length;

/** Whether the functions can be given all of it. */
export function wrongInLength(settings: Settings): WrongSetting[] {
  // The functions of a replay are given most.
  const environment = { ...functionEnvironment(settings, BUCKET_NAME, TABLE_NAME), ...replayEnvironment(settings) };
  const bytes = Buffer.byteLength(JSON.stringify(environment)) + FURTHER;
  if (bytes <= MAX_ENVIRONMENT_BYTES) return [];
  const [name = ''] = Object.entries(environment).toSorted(([, a], [, b]) => b.length - a.length)[0] ?? [];
  const got = `${Buffer.byteLength(environment[name] ?? '')} bytes of the ${bytes} that the functions' environment would have`;
  return [
    { name, got, allowed: `${bytes - MAX_ENVIRONMENT_BYTES} bytes less: Lambda takes ${MAX_ENVIRONMENT_BYTES} in all` },
  ];
}

/** What works, and is most likely not what was meant: a sentence each. */
export function doubtsAbout(settings: CheckedSettings): string[] {
  const { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret } = settings;
  const managed = uri.startsWith('arn:');
  const doubts: [boolean, string][] = [
    [
      managed && settings.MLFLOW_ARTIFACT_BUCKET === undefined,
      'MLFLOW_ARTIFACT_BUCKET is not set: a managed MLflow keeps the spans of its traces in an S3 bucket, and without this setting the stack may not write there',
    ],
    [
      managed && secret !== undefined,
      'MLFLOW_SECRET_ARN is not used: a managed MLflow is called with the role of the function',
    ],
    [
      uri.startsWith('http:') && secret !== undefined,
      'MLFLOW_TRACKING_URI is http, not https: the secret of MLFLOW_SECRET_ARN goes over the network unencrypted',
    ],
    [
      !managed && settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT !== undefined,
      'SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT is not used: MLFLOW_TRACKING_URI is a URL already',
    ],
    [
      !isOpenAi(settings) && settings.JUDGE_BASE_URL !== undefined,
      'JUDGE_BASE_URL is not used: BEDROCK_MODEL_ID does not begin with openai:/',
    ],
    [
      !isOpenAi(settings) && settings.JUDGE_SECRET_ARN !== undefined,
      'JUDGE_SECRET_ARN is not used: BEDROCK_MODEL_ID does not begin with openai:/',
    ],
    [
      !isBedrock(settings) && settings.BEDROCK_GUARDRAIL_ID !== undefined,
      'BEDROCK_GUARDRAIL_ID is not used: the judge is not a model of Bedrock',
    ],
  ];
  return doubts.filter(([applies]) => applies).map(([, text]) => text);
}
