/**
 * Each setting once: its form and its default, by its name in `.env`. The words of its error message are in `setting-forms.json`. The
 * stack, the functions and the command line read views of it. How settings must fit together: `lib/settings/checks.ts`.
 */
import * as z from 'zod';
import { DEFAULT_MAX_LINE_BYTES } from '../values/line-bound.ts';
import { forwardSettings, otlpSettings } from './forward-settings.ts';
import { groundTruthSchema } from './ground-truth-setting.ts';
import { guidelinesSchema } from './guidelines-setting.ts';
import {
  capturePrefix,
  described,
  flag,
  jsonOf,
  nameList,
  numberIn,
  secretArn,
  serverUrlFault,
  setting,
  textWithout,
  urlFault,
  wholeNumber,
} from './kinds.ts';
import { redactSettings } from './redact-setting.ts';
import { scorerFunctionsSchema } from './scorer-functions-setting.ts';
import { defaultJudgeModel } from './variables.ts';

/** A role name has at most 64 characters, and the longest name around the prefix has 34. */
export const MAX_PREFIX = 30;

const MLFLOW_ARN = /^arn:aws[\w-]*:sagemaker:[a-z0-9-]+:\d{12}:mlflow-app\/[\w-]+$/;

const BUCKET_NAME = /^(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** The account may come before the bucket. */
const ARTIFACT_PLACE = /^(s3:\/\/)?(\d{12}@)?(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/.*)?$/;
const LABEL_PLACE = /^s3:\/\/(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[^\p{Cc}]{0,800})?$/u;
/** SageMaker's names of endpoints and of inference components have the same form. */
const ENDPOINT_NAME = /^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$/;
const KEY_ARN = /^arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/;
/** A model id may contain colons, but not one with a slash after it. */
const JUDGE_MODEL = /^(?!(?!openai:|sagemaker:)[a-z][a-z0-9_-]*:\/)\S+$/;

/** Whether the id is not an endpoint, or is an endpoint with at most an inference component. */
function isPossibleEndpoint(id: string): boolean {
  const names = id.replace(/^sagemaker:\/+/, '').split('/');
  return !id.startsWith('sagemaker:') || (names.length <= 2 && names.every((name) => ENDPOINT_NAME.test(name)));
}

/** CloudWatch accepts only these retention times. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** The id of a judge's model. */
const judgeModel = z
  .string()
  .transform((id) => id.replace(/^bedrock:\/+/, ''))
  .pipe(z.string().regex(JUDGE_MODEL).refine(isPossibleEndpoint, 'names of letters, digits and "-"'));

const origin = z
  .string()
  .refine((url) => URL.canParse(url))
  .transform((url) => new URL(url).origin);

const keyArn = setting('the ARN of a KMS key (not of an alias)', z.string().regex(KEY_ARN).optional());

/** In patterns, each `*` stands for any characters. */
const pattern = z.string().min(1).max(200);
const trafficRuleSchema = z
  .strictObject({
    name: z.string().min(1).max(50),
    inferenceId: pattern.optional(),
    /** By the name of the custom attribute, or of the field of `metadata` in the payload. */
    attributes: z.record(z.string(), pattern).optional(),
    variant: pattern.optional(),
  })
  .refine(({ name: _, attributes, ...rule }) => Object.keys({ ...rule, ...attributes }).length > 0, {
    message: 'a rule needs a condition in addition to its name',
  });
/** Captures that meet all conditions of a rule are no traffic. */
export type TrafficRule = z.infer<typeof trafficRuleSchema>;

const ratesSchema = z.strictObject({
  input: z.number().min(0),
  output: z.number().min(0),
  cacheRead: z.number().min(0).optional(),
  cacheWrite: z.number().min(0).optional(),
});

/** US dollars per million tokens. The input rate applies where a cache rate is absent. */
export type Rates = z.infer<typeof ratesSchema>;

/**
 * `JUDGE_PRICES`: maps the judge's model id or ARN as configured to rates in US dollars per million tokens, or to the
 * id of the model whose price applies (for an application inference profile, a provisioned or an imported model, a
 * judge outside Bedrock):
 *
 *     {"arn:aws:bedrock:…:application-inference-profile/a1b2": "us.anthropic.claude-sonnet-4-6",
 *      "sagemaker:/my-judge": {"input": 0.4, "output": 0.4}}
 */
const pricesSchema = z.record(z.string(), z.union([z.string().min(1), ratesSchema]));
export type PriceOverrides = z.infer<typeof pricesSchema>;

/** The settings without which there is no stack. */
export const requiredSettings = described({
  STACK_PREFIX: setting(
    `letters, digits and "-", at most ${MAX_PREFIX} characters`,
    z.string().regex(new RegExp(`^[a-zA-Z0-9-]{1,${MAX_PREFIX}}$`)),
  ),
  MLFLOW_TRACKING_URI: textWithout((uri) => {
    if (!uri.startsWith('arn:')) return serverUrlFault(uri, 'MLFLOW_SECRET_ARN');
    if (uri.includes(':mlflow-tracking-server/'))
      return 'a tracking server of SageMaker runs MLflow 3.0 at most, and the stack needs 3.2';
    // AWS's own client of MLflow apps has no address for them there.
    if (/^arn:aws-cn:.*:mlflow-app\//.test(uri))
      return 'SageMaker has no MLflow apps in China: use the URL of a server';
    return MLFLOW_ARN.test(uri) ? undefined : '';
  }),
  SAGEMAKER_ENDPOINT_NAME: z.string().regex(ENDPOINT_NAME),
  DATA_CAPTURE_S3_BUCKET: z.string().regex(BUCKET_NAME),
});

/** The settings of the judge and of MLflow, which the command line reads too. */
export const sharedSettings = described({
  MLFLOW_SECRET_ARN: secretArn,
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: textWithout((text) => serverUrlFault(text, 'MLFLOW_SECRET_ARN')).optional(),
  // Code that reads the settings knows the region, and fills in its default.
  BEDROCK_MODEL_ID: judgeModel.default(defaultJudgeModel() as string),
  /** The model that is asked first. The judge is then asked about scorers that it fails or is not sure of. */
  JUDGE_CASCADE: judgeModel.optional(),
  JUDGE_RATIONALES: z.enum(['all', 'failures']).default('all'),
  /** `cached`: as many of the project's examples as the model's prompt cache needs. */
  JUDGE_PREFIX: z.enum(['short', 'cached']).default('short'),
  MLFLOW_EVALUATION_MODEL_PARAM: jsonOf(z.record(z.string(), z.unknown())).default({}),
  JUDGE_BASE_URL: textWithout((text) => urlFault(text, 'JUDGE_SECRET_ARN')).optional(),
  JUDGE_SECRET_ARN: secretArn,
  JUDGE_GUIDELINES: jsonOf(guidelinesSchema).default({}),
  SCORER_FUNCTIONS: jsonOf(scorerFunctionsSchema).default({}),
  JUDGE_PRICES: jsonOf(pricesSchema).default({}),
});

/** The settings that the functions read. */
export const functionSettings = described({
  ...requiredSettings,
  ...sharedSettings,
  /** Ends with `/`. Default: the endpoint's name. */
  DATA_CAPTURE_S3_PREFIX: capturePrefix,
  DATA_CAPTURE_KMS_KEY_ARN: keyArn,
  /** Default: the endpoint's name. */
  MLFLOW_EXPERIMENT_NAME: z.string().max(500).optional(),
  /** Whether another stack may write the same endpoint's traces to the experiment. */
  MLFLOW_EXPERIMENT_SHARED: flag(false),
  /** The chance of every capture to be judged. Absent: `JUDGED_CAPTURES_PER_DAY` decides. */
  EVALUATION_SAMPLE_RATE: numberIn(0, 1).optional(),
  /** Captures that are judged by chance on a day (UTC), spread over its hours. */
  JUDGED_CAPTURES_PER_DAY: wholeNumber(1, 1_000_000_000, 1000),
  /** US dollars per day (UTC). */
  EVALUATION_BUDGET_USD: numberIn(0, Number.MAX_VALUE).default(20),
  /** Rules that `createAlwaysRule` checks. */
  EVALUATION_ALWAYS: jsonOf(z.array(z.unknown())).default([]),
  /** Captures that are traced, but neither judged nor counted with the others. */
  NOT_TRAFFIC: jsonOf(z.array(trafficRuleSchema).max(20)).default([]),
  /** Objectives that `readObjectives` checks. */
  QUALITY_OBJECTIVES: jsonOf(z.array(z.unknown())).default([]),
  /** How labels are compared with the endpoint's answers. */
  GROUND_TRUTH: jsonOf(groundTruthSchema).default(groundTruthSchema.parse({})),
  /** Label files under it are read when they are written. Ends with `/`, or is a bucket alone. */
  GROUND_TRUTH_S3_PREFIX: z
    .string()
    .regex(LABEL_PLACE)
    .transform((place) => (place.endsWith('/') ? place : `${place}/`))
    .optional(),
  /** Whether messages about quality quote the judge, whose rationales may quote users. */
  ALARM_QUOTES: flag(false),
  /** Limits over all runs of the stack (src/limits/limits.ts). 0: no limit. */
  MAX_FUNCTIONS: wholeNumber(0, 10_000, 8),
  /** Calls of the judge at once, and requests a second to a managed MLflow (src/limits/sizes.ts). */
  SIZE: z.enum(['small', 'medium', 'large']).default('medium'),
  JUDGE_TOKENS_PER_MINUTE: wholeNumber(0, 1_000_000_000, 0),
  /** An alarm has at most 10 metrics. */
  ENDPOINT_VARIANTS: nameList(ENDPOINT_NAME).pipe(z.array(z.string()).min(1).max(9)).default(['AllTraffic']),
  /** No user sees their replies, so the endpoint's figures leave them out. */
  SHADOW_VARIANTS: nameList(ENDPOINT_NAME).default([]),
  CSV_HEADER: flag(false),
  FEATURE_NAMES: jsonOf(z.array(z.string())).default([]),
  ...redactSettings,
  /** Longer lines are quarantined by reference. */
  MAX_LINE_BYTES: wholeNumber(1024, 256 * 1024 * 1024, DEFAULT_MAX_LINE_BYTES),
});

/** The settings that the functions of a cloud replay read in addition. */
export const replaySettings = described({
  /** Endpoints that may be invoked. */
  REPLAY_ENDPOINT_NAMES: nameList(ENDPOINT_NAME).default([]),
  /** Inference components that may be invoked. */
  REPLAY_INFERENCE_COMPONENT_NAMES: nameList(ENDPOINT_NAME).default([]),
  /** Origins of the URLs that may be sent to. */
  REPLAY_URLS: nameList(/^https?:\/\/[^\s/?#@]+\/?$/)
    .pipe(z.array(origin))
    .default([]),
  /** The only secret whose value may be sent as headers, and only to these URLs. */
  REPLAY_HEADERS_SECRET_ARN: secretArn,
});

/** All settings of the stack. */
export const settingsSchema = z.object(
  described({
    ...functionSettings,
    GROUND_TRUTH_KMS_KEY_ARN: keyArn,
    /** Encrypts the work bucket, the table, the queues, the topic and the logs. */
    WORK_KMS_KEY_ARN: keyArn,
    MLFLOW_ARTIFACT_KMS_KEY_ARN: keyArn,
    MLFLOW_ARTIFACT_BUCKET: z.string().regex(ARTIFACT_PLACE).optional(),
    VPC_SUBNET_IDS: nameList(/^subnet-[0-9a-f]+$/)
      .pipe(z.array(z.string()).max(16))
      .default([]),
    VPC_SECURITY_GROUP_IDS: nameList(/^sg-[0-9a-f]+$/)
      .pipe(z.array(z.string()).max(5))
      .default([]),
    /** Seconds during which events of new capture files are collected for one run. 300 is Lambda's maximum. */
    BATCH_WINDOW_SECONDS: wholeNumber(0, 300, 60),
    LAMBDA_MEMORY_MB: wholeNumber(512, 10_240, 1024),
    LOG_RETENTION_DAYS: setting(
      `one of ${RETENTION_DAYS.join(', ')} days`,
      z.coerce.number().pipe(z.literal(RETENTION_DAYS)).default(30),
    ),
    /** 0: no alarm when labels stop coming. CloudWatch looks back at most 7 days. */
    MISSING_LABELS_HOURS: wholeNumber(0, 168, 0),
    ALARM_EMAIL: z.email().optional(),
    ...replaySettings,
    ...forwardSettings,
    ...otlpSettings,
  }),
);

/** The settings as read, before the stack derives the defaults that depend on other settings. */
export type CheckedSettings = z.infer<typeof settingsSchema>;

/** The settings of a stack. */
export interface Settings extends CheckedSettings {
  /** Ends with `/`, so that `my-endpoint` does not match `my-endpoint-v2`. */
  DATA_CAPTURE_S3_PREFIX: string;
  MLFLOW_EXPERIMENT_NAME: string;
}
