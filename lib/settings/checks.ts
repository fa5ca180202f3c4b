/** Checks of the stack's settings beyond the form of each: by the judge's own rules, in combination, and in length. */

import { RE2JS } from 're2js';
import { s3Place } from '../../src/core/settings/kinds.ts';
import { isRedacted, redactRules } from '../../src/core/settings/redact-setting.ts';
import { type CheckedSettings, type Settings, settingsSchema } from '../../src/core/settings/schema.ts';
import { defaultJudgeModel, type WrongSetting, wrongValue } from '../../src/core/settings/variables.ts';
import { judgeEndpoints, judgeModels } from '../../src/judge/judge-id.ts';
import { readParameters } from '../../src/judge/parameters.ts';
import { priceRemedy, ratesOf } from '../../src/judge/pricing/prices.ts';
import { createAlwaysRule, mayJudge } from '../../src/judge/scorers/always-rules.ts';
import { isCodeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { SIZES } from '../../src/limits/sizes.ts';
import { readObjectives } from '../../src/quality/objectives.ts';
import { readTrueObjectives } from '../../src/quality/true-objectives.ts';
import { functionEnvironment, nodeOptions, otlpEnvironment, replayEnvironment } from './function-environment.ts';

const isOpenAi = (settings: CheckedSettings): boolean => judgeModels(settings).some((id) => id.startsWith('openai:/'));
const isBedrock = (settings: CheckedSettings): boolean =>
  judgeModels(settings).some((id) => !/^(openai|sagemaker):\//.test(id));

/** The judge's own reading of a setting, which throws an error if it is wrong. */
const OWN_RULES = {
  MLFLOW_EVALUATION_MODEL_PARAM: (settings) =>
    readParameters(settings.MLFLOW_EVALUATION_MODEL_PARAM, judgeModels(settings).filter(Boolean)),
  EVALUATION_ALWAYS: (settings) => createAlwaysRule(settings.EVALUATION_ALWAYS, scorersFor().filter(isCodeScorer)),
  REDACT: (settings) => redactRules(settings.REDACT ?? '').patterns.map(({ pattern }) => RE2JS.compile(pattern)),
  JUDGE_GUIDELINES: (settings) => scorersFor({ guidelines: settings.JUDGE_GUIDELINES }),
  SCORER_FUNCTIONS: (settings) => scorersFor({ functions: settings.SCORER_FUNCTIONS }),
} as const satisfies Partial<Record<keyof CheckedSettings, (settings: CheckedSettings) => unknown>>;

/** Settings that the judge would reject. */
export function wrongAlone(
  settings: CheckedSettings,
  faulty: ReadonlySet<string>,
  variables: Readonly<Record<string, string | undefined>>,
): WrongSetting[] {
  const names = (Object.keys(OWN_RULES) as (keyof typeof OWN_RULES)[]).filter((name) => !faulty.has(name));
  return names.flatMap((name) => wrongBy(() => OWN_RULES[name](settings), name, variables));
}

/** The setting, if reading it throws an error. */
function wrongBy(
  read: () => unknown,
  name: keyof CheckedSettings,
  variables: Readonly<Record<string, string | undefined>>,
): WrongSetting[] {
  try {
    read();
    return [];
  } catch (error) {
    // Leave out the facts (got, expected, where) that the line about the setting repeats.
    const why = (error as Error).message.replace(/; (?:got|expected|where): .*$/s, '').replaceAll(/\s+/g, ' ');
    return [wrongValue(name, settingsSchema.shape[name], variables[name] ?? '', why)];
  }
}

/** Keys and secrets. AWS uses them in their own region only. */
export const ARN_NAMES = Object.keys(settingsSchema.shape).filter((name) => name.endsWith('_ARN')) as Extract<
  keyof CheckedSettings,
  `${string}_ARN`
>[];

/**
 * A call takes its worst case of about 5,000 tokens. If functions wait for longer than some minutes for one, their time ends before
 * they get it, and the tokens are lost.
 */
const LEAST_TOKENS_PER_FUNCTION = 1000;

const isSet = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : value !== undefined);

/**
 * Combinations that would make every run fail.
 *
 * @param faulty names of settings that are wrong by themselves. Checks that depend on them are skipped
 */
export function wrongTogether(
  settings: CheckedSettings,
  faulty: ReadonlySet<string>,
  { BEDROCK_MODEL_ID: model, CDK_DEFAULT_REGION: region }: Readonly<Record<string, string | undefined>>,
): WrongSetting[] {
  const wrong: WrongSetting[] = [];
  const check = (of: (keyof CheckedSettings)[], fault: () => WrongSetting | undefined): void => {
    const found = of.some((name) => faulty.has(name)) ? undefined : fault();
    if (found !== undefined) wrong.push(found);
  };
  type Name = keyof CheckedSettings;
  const needs = (name: Name, needed: Name, what: string, applies = isSet(settings[name])): void =>
    check([name, needed], () => {
      if (!applies || isSet(settings[needed])) return undefined;
      return { name: needed, got: 'nothing', expected: `${what}, since ${name} is set` };
    });
  check(['BEDROCK_MODEL_ID', 'EVALUATION_SAMPLE_RATE', 'EVALUATION_ALWAYS'], () => {
    if (
      model?.trim() ||
      !mayJudge(settings.EVALUATION_SAMPLE_RATE, settings.EVALUATION_ALWAYS) ||
      defaultJudgeModel(region) !== undefined
    )
      return undefined;
    const expected = `a judge, since ${region} has no default: a Bedrock model of the region such as us-gov.anthropic.<model>, openai:/<model> or sagemaker:/<endpoint>; or EVALUATION_SAMPLE_RATE=0 without EVALUATION_ALWAYS`;
    return { name: 'BEDROCK_MODEL_ID', got: 'nothing', expected };
  });
  const isManaged = settings.MLFLOW_TRACKING_URI?.startsWith('arn:');
  needs('MLFLOW_TRACKING_URI', 'MLFLOW_ARTIFACT_BUCKET', 'the bucket of the spans of a managed MLflow', isManaged);
  for (const name of ARN_NAMES) {
    check([name], () => {
      const own = settings[name]?.split(':')[3];
      if (own === undefined || region === undefined || own === region) return undefined;
      return { name, got: `one in ${own}`, expected: `one in ${region}, the region of the stack` };
    });
  }
  needs('VPC_SUBNET_IDS', 'VPC_SECURITY_GROUP_IDS', 'at least one id');
  needs('VPC_SECURITY_GROUP_IDS', 'VPC_SUBNET_IDS', 'at least one id');
  needs('ARTHUR_HOST', 'ARTHUR_MODEL_ID', 'the id of the model in Arthur');
  needs('ARTHUR_HOST', 'ARTHUR_SECRET_ARN', 'the secret with the token of Arthur');
  check(['ARTHUR_HOST', 'REDACT', 'CONTENT'], () => {
    if (!isSet(settings.ARTHUR_HOST) || !isRedacted(settings)) return undefined;
    const expected = 'no ARTHUR_HOST with REDACT or CONTENT=none: Arthur gets the capture files themselves';
    return { name: 'ARTHUR_HOST', got: settings.ARTHUR_HOST ?? '', expected };
  });
  check(['ALARM_QUOTES', 'CONTENT'], () => {
    if (!settings.ALARM_QUOTES || settings.CONTENT !== 'none') return undefined;
    const expected = 'false, since CONTENT=none: the judge’s words are not kept';
    return { name: 'ALARM_QUOTES', got: 'true', expected };
  });
  check(['SHADOW_VARIANTS', 'ENDPOINT_VARIANTS'], () => {
    const both = settings.SHADOW_VARIANTS.filter((name) => settings.ENDPOINT_VARIANTS.includes(name));
    const expected = 'variants whose replies no user sees, which are not in ENDPOINT_VARIANTS';
    return both.length === 0 ? undefined : { name: 'SHADOW_VARIANTS', got: both.join(', '), expected };
  });
  check(['BEDROCK_MODEL_ID', 'JUDGE_CASCADE'], () => {
    if (settings.JUDGE_CASCADE !== settings.BEDROCK_MODEL_ID) return undefined;
    return { name: 'JUDGE_CASCADE', got: 'the model of BEDROCK_MODEL_ID', expected: 'a cheaper model' };
  });
  for (const name of ['BEDROCK_MODEL_ID', 'JUDGE_CASCADE'] as const) {
    check([name, 'SAGEMAKER_ENDPOINT_NAME'], () => judgeOfItself(settings, name));
  }
  check(['BEDROCK_MODEL_ID', 'JUDGE_CASCADE', 'JUDGE_SECRET_ARN', 'JUDGE_BASE_URL'], () => {
    if (!isOpenAi(settings) || settings.JUDGE_SECRET_ARN !== undefined || settings.JUDGE_BASE_URL !== undefined) {
      return undefined;
    }
    const expected = `the ARN of the secret with the API key of ${judgeModels(settings).find((id) => id.startsWith('openai:/'))}, or a JUDGE_BASE_URL whose server needs no key`;
    return { name: 'JUDGE_SECRET_ARN', got: 'nothing', expected };
  });
  check(['BEDROCK_MODEL_ID', 'JUDGE_CASCADE', 'JUDGE_PRICES', 'EVALUATION_BUDGET_USD'], () => {
    const overrides = settings.JUDGE_PRICES;
    const model = judgeModels(settings).find((id) => ratesOf(id, { overrides }) === null);
    if (settings.EVALUATION_BUDGET_USD === 0 || model === undefined) return undefined;
    const name = model === settings.BEDROCK_MODEL_ID ? 'BEDROCK_MODEL_ID' : 'JUDGE_CASCADE';
    return { name, got: `${model}, without a price, which the budget needs`, expected: priceRemedy(model) };
  });
  check(['JUDGE_TOKENS_PER_MINUTE', 'MAX_FUNCTIONS', 'SIZE'], () => tooFewTokens(settings));
  return wrong;
}

function tooFewTokens(settings: CheckedSettings): WrongSetting | undefined {
  const { JUDGE_TOKENS_PER_MINUTE: tokens, MAX_FUNCTIONS, SIZE } = settings;
  const functions = Math.min(MAX_FUNCTIONS || Infinity, SIZES[SIZE].judgeCalls);
  const least = LEAST_TOKENS_PER_FUNCTION * functions;
  if (tokens === 0 || tokens >= least) return undefined;
  const expected = `at least ${least}, for a call in five minutes from each of ${functions} functions (MAX_FUNCTIONS, SIZE); or 0 (no limit)`;
  return { name: 'JUDGE_TOKENS_PER_MINUTE', got: String(tokens), expected };
}

/** A judge that is the monitored endpoint: its judgements would be captured, and judged in turn, for ever. */
function judgeOfItself(
  settings: CheckedSettings,
  name: 'BEDROCK_MODEL_ID' | 'JUDGE_CASCADE',
): WrongSetting | undefined {
  const { [name]: got = '', SAGEMAKER_ENDPOINT_NAME: endpoint } = settings;
  if (judgeEndpoints({ BEDROCK_MODEL_ID: got })[0] !== endpoint.toLowerCase()) return undefined;
  const expected = `a judge other than ${endpoint}, the endpoint of SAGEMAKER_ENDPOINT_NAME: its judgements would be judged in turn, for ever`;
  return { name, got, expected };
}

/** Objectives that do not fit the scorers and the sample. */
export function wrongObjectives(
  settings: CheckedSettings,
  faulty: ReadonlySet<string>,
  variables: Readonly<Record<string, string | undefined>>,
): WrongSetting[] {
  const name = 'QUALITY_OBJECTIVES';
  if ([name, 'JUDGE_GUIDELINES', 'SCORER_FUNCTIONS', 'EVALUATION_SAMPLE_RATE'].some((each) => faulty.has(each)))
    return [];
  const read = (): void => {
    const scorers = scorersFor({ guidelines: settings.JUDGE_GUIDELINES, functions: settings.SCORER_FUNCTIONS });
    readObjectives(settings[name], { scorers, sampleRate: settings.EVALUATION_SAMPLE_RATE });
    readTrueObjectives(settings[name], faulty.has('GROUND_TRUTH') ? undefined : settings.GROUND_TRUTH);
  };
  return wrongBy(read, name, variables);
}

const PLACE = 'GROUND_TRUTH_S3_PREFIX';
/** CloudFormation names the work bucket after the stack and the resource, and shortens both. */
const WORK_BUCKET = /^sagemakerinferencemonit.*-workbucket/;

/** Finds invalid locations of label files, and labels that could not be joined to any prediction. */
export function wrongLabels(settings: CheckedSettings, faulty: ReadonlySet<string>): WrongSetting[] {
  const place = s3Place(settings.GROUND_TRUTH_S3_PREFIX);
  const used = [PLACE, 'GROUND_TRUTH', 'DATA_CAPTURE_S3_BUCKET', 'DATA_CAPTURE_S3_PREFIX', 'SAGEMAKER_ENDPOINT_NAME'];
  if (place.bucket === '' || used.some((name) => faulty.has(name))) return [];
  const got = settings.GROUND_TRUTH_S3_PREFIX ?? '';
  const wrong: WrongSetting[] = [];
  const overlaps = (other: string): boolean => place.prefix.startsWith(other) || other.startsWith(place.prefix);
  const captures = settings.DATA_CAPTURE_S3_PREFIX ?? `${settings.SAGEMAKER_ENDPOINT_NAME}/`;
  const { ARTHUR_HOST, ARTHUR_S3_PREFIX } = settings;
  // The prefix for Arthur may be wider, and would include labels.
  const other = [captures, ...(ARTHUR_HOST && ARTHUR_S3_PREFIX ? [ARTHUR_S3_PREFIX] : [])].find(overlaps);
  if (place.bucket === settings.DATA_CAPTURE_S3_BUCKET && other !== undefined) {
    const expected = `a place that neither is in s3://${place.bucket}/${other}, where the captures are, nor contains it`;
    wrong.push({ name: PLACE, got, expected });
  }
  if (WORK_BUCKET.test(place.bucket)) {
    const expected = 'a bucket of yours: the work bucket of a stack sends no events';
    wrong.push({ name: PLACE, got, expected });
  }
  if (settings.GROUND_TRUTH.days === 0) {
    const expected = `"days" of at least 1, since ${PLACE} is set: without predictions no label can be joined`;
    wrong.push({ name: 'GROUND_TRUTH', got: '"days":0', expected });
  }
  return wrong;
}

/** Lambda accepts 4 KB of environment variables, measured as JSON. */
const MAX_ENVIRONMENT_BYTES = 4096;
/** The longest names that AWS may generate for the work bucket and the budget's table. */
const [BUCKET_NAME, TABLE_NAME] = ['b'.repeat(63), 't'.repeat(128)] as const;
/** Maximum lengths of other variables. The function that summarizes runs has the most variables. */
const FURTHER = {
  POWERTOOLS_SERVICE_NAME: 'f'.repeat(64),
  NODE_OPTIONS: nodeOptions(10_240),
  ALARM_TOPIC_ARN: `arn:aws-us-gov:sns:us-gov-west-1:123456789012:${'t'.repeat(128)}`,
  TRUTH_STATE_MACHINE_ARN: `arn:aws-us-gov:states:us-gov-west-1:123456789012:stateMachine:${'m'.repeat(80)}`,
  TRUTH_WINDOW_SECONDS: '3000',
};

/** Returns the longest setting, if all settings together do not fit into the environment of a function. */
export function wrongInLength(settings: Settings): WrongSetting[] {
  // The functions of a replay, and the one that sends to an OpenTelemetry receiver, have the most variables.
  const own = { ...replayEnvironment(settings), ...otlpEnvironment(settings) };
  const environment = { ...functionEnvironment(settings, BUCKET_NAME, TABLE_NAME), ...own };
  const bytes = Buffer.byteLength(JSON.stringify({ ...environment, ...FURTHER }));
  if (bytes <= MAX_ENVIRONMENT_BYTES) return [];
  const [name = ''] = Object.entries(environment).toSorted(([, a], [, b]) => b.length - a.length)[0] ?? [];
  const got = `${Buffer.byteLength(environment[name] ?? '')} bytes, for a total of ${bytes} bytes in the functions' environment`;
  const expected = `${bytes - MAX_ENVIRONMENT_BYTES} bytes less: Lambda accepts ${MAX_ENVIRONMENT_BYTES} in total`;
  return [{ name, got, expected }];
}

/** Settings that work but are probably a mistake, one sentence each. */
export function doubtsAbout(settings: CheckedSettings): string[] {
  const { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret } = settings;
  const managed = uri.startsWith('arn:');
  const ofLabels = (['MISSING_LABELS_HOURS', 'GROUND_TRUTH_KMS_KEY_ARN'] as const).filter((name) => settings[name]);
  const unused = (name: keyof CheckedSettings, isUsed: boolean, why: string): [boolean, string] => [
    settings[name] !== undefined && !isUsed,
    `${name} is not used: ${why}`,
  ];
  const hasArtifacts = settings.MLFLOW_ARTIFACT_BUCKET !== undefined;
  const noOpenAi = 'no judge begins with openai:/';
  const doubts: [boolean, string][] = [
    [
      settings.GROUND_TRUTH_S3_PREFIX === undefined && ofLabels.length > 0,
      `${ofLabels.join(' and ')} is not used: GROUND_TRUTH_S3_PREFIX is not set`,
    ],
    unused('ARTHUR_MODEL_ID', !!settings.ARTHUR_HOST, 'ARTHUR_HOST is not set, so nothing is forwarded'),
    unused('OTLP_SECRET_ARN', !!settings.OTLP_ENDPOINT, 'OTLP_ENDPOINT is not set, so nothing is sent'),
    unused('MLFLOW_SECRET_ARN', !managed, 'a managed MLflow is called with the role of the function'),
    [
      uri.startsWith('http:') && secret !== undefined,
      'MLFLOW_TRACKING_URI is http, not https: the secret of MLFLOW_SECRET_ARN travels over the network unencrypted',
    ],
    unused('SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT', managed, 'MLFLOW_TRACKING_URI is already a URL'),
    unused('JUDGE_BASE_URL', isOpenAi(settings), noOpenAi),
    unused('JUDGE_SECRET_ARN', isOpenAi(settings), noOpenAi),
    [
      settings.DATA_CAPTURE_KMS_KEY_ARN !== undefined && settings.WORK_KMS_KEY_ARN === undefined,
      'WORK_KMS_KEY_ARN is not set: a key of yours encrypts the captures, but what the stack stores of them (quarantined lines, requests of batch jobs, replays) is encrypted with keys of the services',
    ],
    unused('MLFLOW_ARTIFACT_KMS_KEY_ARN', hasArtifacts, 'MLFLOW_ARTIFACT_BUCKET is not set'),
    [
      settings.MLFLOW_EVALUATION_MODEL_PARAM.guardrail !== undefined && !isBedrock(settings),
      'the guardrail of MLFLOW_EVALUATION_MODEL_PARAM is not used: the judge is not a Bedrock model',
    ],
  ];
  return doubts.filter(([applies]) => applies).map(([, text]) => text);
}
