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

type Name = keyof CheckedSettings;
type Variables = Readonly<Record<string, string | undefined>>;
type Fault = false | undefined | Partial<WrongSetting>;
type FaultOf = (settings: CheckedSettings, variables: Variables) => Fault;

/** Finds the fault of the first setting that it names. It is skipped if one of them is wrong already. */
const rule = (of: readonly [Name, ...Name[]], faultOf: FaultOf) => ({ of, faultOf });

/** A rule that the code which reads the setting checks itself: it throws an error. */
const read = (of: readonly [Name, ...Name[]], reading: (settings: CheckedSettings) => unknown) =>
  rule(of, (settings, variables) => {
    try {
      reading(settings);
      return undefined;
    } catch (error) {
      // Leave out the facts (got, expected, where) that the line about the setting repeats.
      const why = (error as Error).message.replace(/; (?:got|expected|where): .*$/s, '').replaceAll(/\s+/g, ' ');
      return wrongValue(of[0], settingsSchema.shape[of[0]], variables[of[0]] ?? '', why);
    }
  });

/** Settings that the judge would reject. */
const ALONE = [
  read(['MLFLOW_EVALUATION_MODEL_PARAM'], (settings) =>
    readParameters(settings.MLFLOW_EVALUATION_MODEL_PARAM, judgeModels(settings).filter(Boolean)),
  ),
  read(['EVALUATION_ALWAYS'], (settings) =>
    createAlwaysRule(settings.EVALUATION_ALWAYS, scorersFor().filter(isCodeScorer)),
  ),
  read(['REDACT'], ({ REDACT = '' }) => redactRules(REDACT).patterns.map(({ pattern }) => RE2JS.compile(pattern))),
  read(['JUDGE_GUIDELINES'], ({ JUDGE_GUIDELINES: guidelines }) => scorersFor({ guidelines })),
  read(['SCORER_FUNCTIONS'], ({ SCORER_FUNCTIONS: functions }) => scorersFor({ functions })),
];

/** Keys and secrets. AWS uses them in their own region only. */
export const ARN_NAMES = Object.keys(settingsSchema.shape).filter((name) => name.endsWith('_ARN')) as Extract<
  Name,
  `${string}_ARN`
>[];

const isSet = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : value !== undefined);

const needs = (name: Name, needed: Name, what: string, applies = isSet) =>
  rule([needed, name], (settings) => {
    return applies(settings[name]) && !isSet(settings[needed]) && { expected: `${what}, since ${name} is set` };
  });

const PLACE = 'GROUND_TRUTH_S3_PREFIX';
/** CloudFormation names the work bucket after the stack and the resource, and shortens both. */
const WORK_BUCKET = /^sagemakerinferencemonit.*-workbucket/;

/**
 * A call takes its worst case of about 5,000 tokens. If functions wait for longer than some minutes for one, their time ends before
 * they get it, and the tokens are lost.
 */
const LEAST_TOKENS_PER_FUNCTION = 1000;

/** Combinations that would make every run fail. */
const TOGETHER = [
  rule(['BEDROCK_MODEL_ID', 'EVALUATION_SAMPLE_RATE', 'EVALUATION_ALWAYS'], (settings, variables) => {
    const { BEDROCK_MODEL_ID: model, CDK_DEFAULT_REGION: region } = variables;
    const hasJudge = model?.trim() || defaultJudgeModel(region) !== undefined;
    const expected = `a judge, since ${region} has no default: a Bedrock model of the region such as us-gov.anthropic.<model>, openai:/<model> or sagemaker:/<endpoint>; or EVALUATION_SAMPLE_RATE=0 without EVALUATION_ALWAYS`;
    return !hasJudge && mayJudge(settings.EVALUATION_SAMPLE_RATE, settings.EVALUATION_ALWAYS) && { expected };
  }),
  needs('MLFLOW_TRACKING_URI', 'MLFLOW_ARTIFACT_BUCKET', 'the bucket of the spans of a managed MLflow', (uri) =>
    String(uri).startsWith('arn:'),
  ),
  ...ARN_NAMES.map((name) =>
    rule([name], (settings, { CDK_DEFAULT_REGION: region }) => {
      const own = settings[name]?.split(':')[3] ?? region;
      if (region === undefined || own === region) return undefined;
      return { got: `one in ${own}`, expected: `one in ${region}, the region of the stack` };
    }),
  ),
  needs('VPC_SUBNET_IDS', 'VPC_SECURITY_GROUP_IDS', 'at least one id'),
  needs('VPC_SECURITY_GROUP_IDS', 'VPC_SUBNET_IDS', 'at least one id'),
  needs('ARTHUR_HOST', 'ARTHUR_MODEL_ID', 'the id of the model in Arthur'),
  needs('ARTHUR_HOST', 'ARTHUR_SECRET_ARN', 'the secret with the token of Arthur'),
  rule(['ARTHUR_HOST', 'REDACT', 'CONTENT'], (settings) => {
    const expected = 'no ARTHUR_HOST with REDACT or CONTENT=none: Arthur gets the capture files themselves';
    return settings.ARTHUR_HOST !== undefined && isRedacted(settings) && { got: settings.ARTHUR_HOST, expected };
  }),
  rule(['ALARM_QUOTES', 'CONTENT'], (settings) => {
    const expected = 'false, since CONTENT=none: the judge’s words are not kept';
    return settings.ALARM_QUOTES && settings.CONTENT === 'none' && { got: 'true', expected };
  }),
  rule(['SHADOW_VARIANTS', 'ENDPOINT_VARIANTS'], (settings) => {
    const both = settings.SHADOW_VARIANTS.filter((name) => settings.ENDPOINT_VARIANTS.includes(name));
    const expected = 'variants whose replies no user sees, which are not in ENDPOINT_VARIANTS';
    return both.length > 0 && { got: both.join(', '), expected };
  }),
  rule(['JUDGE_CASCADE', 'BEDROCK_MODEL_ID'], ({ JUDGE_CASCADE: first, BEDROCK_MODEL_ID: model }) => {
    return first === model && { got: 'the model of BEDROCK_MODEL_ID', expected: 'a cheaper model' };
  }),
  ...(['BEDROCK_MODEL_ID', 'JUDGE_CASCADE'] as const).map((name) =>
    rule([name, 'SAGEMAKER_ENDPOINT_NAME'], (settings) => {
      const { [name]: got = '', SAGEMAKER_ENDPOINT_NAME: endpoint } = settings;
      // Its judgements would be captured.
      const expected = `a judge other than ${endpoint}, the endpoint of SAGEMAKER_ENDPOINT_NAME: its judgements would be judged in turn, for ever`;
      return judgeEndpoints({ BEDROCK_MODEL_ID: got })[0] === endpoint.toLowerCase() && { got, expected };
    }),
  ),
  rule(['JUDGE_SECRET_ARN', 'BEDROCK_MODEL_ID', 'JUDGE_CASCADE', 'JUDGE_BASE_URL'], (settings) => {
    const openAi = judgeModels(settings).find((id) => id.startsWith('openai:/'));
    if (!openAi || settings.JUDGE_SECRET_ARN !== undefined || settings.JUDGE_BASE_URL !== undefined) return undefined;
    const expected = `the ARN of the secret with the API key of ${openAi}, or a JUDGE_BASE_URL whose server needs no key`;
    return { expected };
  }),
  rule(['BEDROCK_MODEL_ID', 'JUDGE_CASCADE', 'JUDGE_PRICES', 'EVALUATION_BUDGET_USD'], (settings) => {
    const overrides = settings.JUDGE_PRICES;
    const model = judgeModels(settings).find((id) => ratesOf(id, { overrides }) === null);
    if (settings.EVALUATION_BUDGET_USD === 0 || model === undefined) return undefined;
    const name = model === settings.BEDROCK_MODEL_ID ? 'BEDROCK_MODEL_ID' : 'JUDGE_CASCADE';
    return { name, got: `${model}, without a price, which the budget needs`, expected: priceRemedy(model) };
  }),
  rule(['JUDGE_TOKENS_PER_MINUTE', 'MAX_FUNCTIONS', 'SIZE'], (settings) => {
    const { JUDGE_TOKENS_PER_MINUTE: tokens, MAX_FUNCTIONS, SIZE } = settings;
    const functions = Math.min(MAX_FUNCTIONS || Infinity, SIZES[SIZE].judgeCalls);
    const least = LEAST_TOKENS_PER_FUNCTION * functions;
    const expected = `at least ${least}, for a call in five minutes from each of ${functions} functions (MAX_FUNCTIONS, SIZE); or 0 (no limit)`;
    return tokens > 0 && tokens < least && { got: String(tokens), expected };
  }),
  rule([PLACE, 'DATA_CAPTURE_S3_BUCKET', 'DATA_CAPTURE_S3_PREFIX', 'SAGEMAKER_ENDPOINT_NAME'], (settings) => {
    const { bucket, prefix } = s3Place(settings[PLACE]);
    if (bucket !== settings.DATA_CAPTURE_S3_BUCKET) return undefined;
    const captures = settings.DATA_CAPTURE_S3_PREFIX ?? `${settings.SAGEMAKER_ENDPOINT_NAME}/`;
    // The prefix for Arthur may be wider, and would include labels.
    const arthur = settings.ARTHUR_HOST && settings.ARTHUR_S3_PREFIX;
    const other = [captures, ...(arthur ? [arthur] : [])].find(
      (one) => prefix.startsWith(one) || one.startsWith(prefix),
    );
    const expected = `a place that neither is in s3://${bucket}/${other}, where the captures are, nor contains it`;
    return other !== undefined && { got: settings[PLACE] ?? '', expected };
  }),
  rule([PLACE], ({ [PLACE]: got = '' }) => {
    const expected = 'a bucket of yours: the work bucket of a stack sends no events';
    return WORK_BUCKET.test(s3Place(got).bucket) && { got, expected };
  }),
  rule(['GROUND_TRUTH', PLACE], (settings) => {
    const expected = `"days" of at least 1, since ${PLACE} is set: without predictions no label can be joined`;
    return isSet(settings[PLACE]) && settings.GROUND_TRUTH.days === 0 && { got: '"days":0', expected };
  }),
  read(['QUALITY_OBJECTIVES', 'JUDGE_GUIDELINES', 'SCORER_FUNCTIONS', 'EVALUATION_SAMPLE_RATE'], (settings) => {
    const { QUALITY_OBJECTIVES: objectives, EVALUATION_SAMPLE_RATE: sampleRate } = settings;
    const scorers = scorersFor({ guidelines: settings.JUDGE_GUIDELINES, functions: settings.SCORER_FUNCTIONS });
    readObjectives(objectives, { scorers, sampleRate });
    readTrueObjectives(objectives, settings.GROUND_TRUTH);
  }),
];

/**
 * Settings that are wrong by the code that reads them, or in combination.
 *
 * @param wrong settings that are wrong by their form
 */
export function wrongByRules(
  settings: CheckedSettings,
  wrong: readonly WrongSetting[],
  variables: Variables,
): WrongSetting[] {
  const all = [...wrong];
  for (const rules of [ALONE, TOGETHER]) {
    const faulty = new Set(all.map(({ name }) => name));
    for (const { of, faultOf } of rules) {
      const fault = !of.some((name) => faulty.has(name)) && faultOf(settings, variables);
      if (fault) all.push({ name: of[0], got: 'nothing', expected: '', ...fault });
    }
  }
  return all;
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
  const got = `${Buffer.byteLength(environment[name] ?? '')} bytes, for a total of ${bytes} bytes in the functions' environment, where long JSON is compressed`;
  const expected = `${bytes - MAX_ENVIRONMENT_BYTES} bytes less: Lambda accepts ${MAX_ENVIRONMENT_BYTES} in total`;
  return [{ name, got, expected }];
}

/** Settings that work but are probably a mistake, one sentence each. */
export function doubtsAbout(settings: CheckedSettings): string[] {
  const { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret } = settings;
  const managed = uri.startsWith('arn:');
  const ofLabels = (['MISSING_LABELS_HOURS', 'GROUND_TRUTH_KMS_KEY_ARN'] as const).filter((name) => settings[name]);
  const unused = (name: Name, isUsed: boolean, why: string): string | false =>
    settings[name] !== undefined && !isUsed && `${name} is not used: ${why}`;
  const hasArtifacts = settings.MLFLOW_ARTIFACT_BUCKET !== undefined;
  const noOpenAi = 'no judge begins with openai:/';
  const doubts = [
    settings.GROUND_TRUTH_S3_PREFIX === undefined &&
      ofLabels.length > 0 &&
      `${ofLabels.join(' and ')} is not used: GROUND_TRUTH_S3_PREFIX is not set`,
    unused('ARTHUR_MODEL_ID', !!settings.ARTHUR_HOST, 'ARTHUR_HOST is not set, so nothing is forwarded'),
    unused('OTLP_SECRET_ARN', !!settings.OTLP_ENDPOINT, 'OTLP_ENDPOINT is not set, so nothing is sent'),
    unused('MLFLOW_SECRET_ARN', !managed, 'a managed MLflow is called with the role of the function'),
    uri.startsWith('http:') &&
      secret !== undefined &&
      'MLFLOW_TRACKING_URI is http, not https: the secret of MLFLOW_SECRET_ARN travels over the network unencrypted',
    unused('SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT', managed, 'MLFLOW_TRACKING_URI is already a URL'),
    unused('JUDGE_BASE_URL', isOpenAi(settings), noOpenAi),
    unused('JUDGE_SECRET_ARN', isOpenAi(settings), noOpenAi),
    settings.DATA_CAPTURE_KMS_KEY_ARN !== undefined &&
      settings.WORK_KMS_KEY_ARN === undefined &&
      'WORK_KMS_KEY_ARN is not set: a key of yours encrypts the captures, but what the stack stores of them (quarantined lines, requests of batch jobs, replays) is encrypted with keys of the services',
    unused('MLFLOW_ARTIFACT_KMS_KEY_ARN', hasArtifacts, 'MLFLOW_ARTIFACT_BUCKET is not set'),
    settings.MLFLOW_EVALUATION_MODEL_PARAM.guardrail !== undefined &&
      !isBedrock(settings) &&
      'the guardrail of MLFLOW_EVALUATION_MODEL_PARAM is not used: the judge is not a Bedrock model',
  ];
  return doubts.filter((text) => text !== false);
}
