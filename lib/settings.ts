/**
 * The stack's settings: `.env` and the environment (which wins), checked at synth. One error lists every setting that
 * is wrong or missing, with what was got and what is allowed. `.env.example` documents each of them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { parse as parseDotenv } from 'dotenv';
import { z } from 'zod';
import { DEFAULT_JUDGE_MODEL } from '../lambda/contract.ts';
import { alwaysRulesSchema } from '../lambda/judge/always-rules.ts';
import { priceOverridesSchema } from '../lambda/judge/price-overrides.ts';

/** A role name has 64 characters at most, and the longest name around the prefix has 34. */
const MAX_PREFIX = 30;

const MLFLOW_ARN = /^arn:aws[\w-]*:sagemaker:[a-z0-9-]+:\d{12}:(mlflow-app|mlflow-tracking-server)\/[\w-]+$/;
const HTTP_URL = /^https?:\/\/[^\s/]+/;
const BUCKET_NAME = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

const flag = z.enum(['true', 'false']);

/** Text that must be JSON of a shape; it is passed on as text. */
const jsonText = (schema: z.ZodType, allowed: string) =>
  z.string().refine((text) => {
    try {
      return schema.safeParse(JSON.parse(text)).success;
    } catch {
      return false;
    }
  }, allowed);

const wholeNumber = (min: number, max: number) =>
  z.coerce
    .number(`a whole number from ${min} to ${max}`)
    .int(`a whole number from ${min} to ${max}`)
    .min(min, `a whole number from ${min} to ${max}`)
    .max(max, `a whole number from ${min} to ${max}`);

/** CloudWatch accepts these retention times only. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

const nameList = z
  .string()
  .transform((text) =>
    text
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean),
  )
  .pipe(z.array(z.string().regex(/^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$/, 'endpoint names separated by commas')));

const settingsSchema = z.object({
  STACK_PREFIX: z
    .string()
    .regex(new RegExp(`^[a-zA-Z0-9-]{1,${MAX_PREFIX}}$`), `letters, digits and "-", ${MAX_PREFIX} characters at most`),
  MLFLOW_TRACKING_URI: z
    .string()
    .refine(
      (uri) => MLFLOW_ARN.test(uri) || HTTP_URL.test(uri),
      'the ARN of an mlflow-app or mlflow-tracking-server, or an http(s) URL',
    ),
  SAGEMAKER_ENDPOINT_NAME: z
    .string()
    .regex(/^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$/, 'an endpoint name: letters, digits and "-", 63 characters at most'),
  DATA_CAPTURE_S3_BUCKET: z.string().regex(BUCKET_NAME, 'a bucket name, without s3:// and without a prefix'),
  DATA_CAPTURE_S3_PREFIX: z
    .string()
    .refine(
      (prefix) => !prefix.startsWith('/') && !prefix.startsWith('s3:'),
      'a key prefix that does not begin with "/" or "s3:"',
    )
    .optional(),
  DATA_CAPTURE_KMS_KEY_ARN: z
    .string()
    .regex(/^arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/, 'the ARN of a KMS key')
    .optional(),
  MLFLOW_EXPERIMENT_NAME: z.string().max(500, 'a name of 500 characters at most').optional(),
  MLFLOW_SECRET_ARN: z
    .string()
    .regex(/^arn:aws[\w-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:.+$/, 'the ARN of a Secrets Manager secret')
    .optional(),
  MLFLOW_ARTIFACT_BUCKET: z
    .string()
    .regex(/^(s3:\/\/)?[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/.*)?$/, 'a bucket name, a prefix may follow')
    .optional(),
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: z.string().regex(HTTP_URL, 'an http(s) URL').optional(),
  BEDROCK_MODEL_ID: z
    .string()
    .regex(/^[^\s]+$/, 'a Bedrock model id, inference profile id or ARN, with or without bedrock:/')
    .default(DEFAULT_JUDGE_MODEL)
    .transform((id) => id.replace(/^bedrock:\/+/, '')),
  MLFLOW_EVALUATION_MODEL_PARAM: jsonText(
    z.record(z.string(), z.unknown()),
    'JSON of inference parameters, such as {"temperature":0}',
  ).default('{}'),
  EVALUATION_SAMPLE_RATE: z.coerce
    .number('a number from 0 to 1')
    .min(0, 'a number from 0 to 1')
    .max(1, 'a number from 0 to 1')
    .default(1),
  EVALUATION_BUDGET_USD: z.coerce
    .number('US dollars a day, 0 for no limit')
    .min(0, 'US dollars a day, 0 for no limit')
    .default(20),
  EVALUATION_ALWAYS: jsonText(
    alwaysRulesSchema,
    'JSON list of rules, such as [{"name":"long replies","replyTokensOver":800}]',
  ).default('[]'),
  JUDGE_BASE_URL: z.string().regex(HTTP_URL, 'an http(s) URL').optional(),
  JUDGE_SECRET_ARN: z
    .string()
    .regex(/^arn:aws[\w-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:.+$/, 'the ARN of a Secrets Manager secret')
    .optional(),
  JUDGE_CALLS: z.enum(['together', 'separate'], 'together or separate').default('together'),
  JUDGE_GUIDELINES: jsonText(
    z.record(z.string().regex(/^[\w-]{1,64}$/), z.string().min(1)),
    'JSON of guidelines by name, such as {"no_legal_advice":"The reply gives no legal advice."}',
  ).default('{}'),
  JUDGE_PRICES: jsonText(priceOverridesSchema, 'JSON of prices by model id, see docs/judging.md').default('{}'),
  BEDROCK_GUARDRAIL_ID: z
    .string()
    .regex(/^[a-z0-9]+$/, 'a guardrail id')
    .optional(),
  BEDROCK_GUARDRAIL_VERSION: z
    .string()
    .regex(/^([1-9]\d*|DRAFT)$/, 'a guardrail version: a number or DRAFT')
    .optional(),
  CSV_HEADER: flag.default('false'),
  FEATURE_NAMES: jsonText(z.array(z.string()), 'a JSON list of names, such as ["age","income"]').default('[]'),
  MAX_LINE_BYTES: wholeNumber(1024, 256 * 1024 * 1024).default(72 * 1024 * 1024),
  MAX_CONCURRENCY: wholeNumber(1, 10_000).default(10),
  LAMBDA_MEMORY_MB: wholeNumber(512, 10_240).default(1024),
  LAMBDA_TIMEOUT_SECONDS: wholeNumber(120, 900).default(900),
  LOG_RETENTION_DAYS: z.coerce
    .number('a number of days')
    .refine((days) => RETENTION_DAYS.includes(days), `one of ${RETENTION_DAYS.join(', ')} days`)
    .default(30),
  ALARM_EMAIL: z.email('an e-mail address').optional(),
  REPLAY_ENDPOINT_NAMES: nameList.default([]),
});

type CheckedSettings = z.infer<typeof settingsSchema>;

export interface Settings extends CheckedSettings {
  /** Ends with `/`, so that `my-endpoint` does not match `my-endpoint-v2`. */
  DATA_CAPTURE_S3_PREFIX: string;
  MLFLOW_EXPERIMENT_NAME: string;
}

/** Names of all settings, for `.env.example` and its test. */
export const SETTING_NAMES = Object.keys(settingsSchema.shape);

/** Variables like ours that are no setting of ours: most likely a slip of the pen. */
const OURS =
  /^(STACK_|MLFLOW_|SAGEMAKER_ENDPOINT|SAGEMAKER_MLFLOW|DATA_CAPTURE_|BEDROCK_|EVALUATION_|JUDGE_|REPLAY_ENDPOINT)/;

/**
 * Checks the settings.
 *
 * @param variables as in the environment, all strings; an empty one counts as not made.
 * @throws Error `InvalidSettings` with a line for every setting that is wrong or missing.
 */
export function parseSettings(variables: Record<string, string | undefined>): Settings {
  const given = Object.fromEntries(
    Object.entries(variables).filter(([, value]) => value !== undefined && value.trim() !== ''),
  );
  const result = settingsSchema.safeParse(given);
  const wrong = (result.error?.issues ?? []).map((issue) => {
    const name = String(issue.path[0]);
    const got = given[name] === undefined ? 'nothing (it is required)' : JSON.stringify(given[name]);
    const allowed = given[name] === undefined ? describeRequired(name) : issue.message;
    return `  ${name}: got ${got}; allowed: ${allowed}`;
  });
  if (result.data?.BEDROCK_GUARDRAIL_ID && !result.data.BEDROCK_GUARDRAIL_VERSION) {
    wrong.push(
      '  BEDROCK_GUARDRAIL_VERSION: got nothing; allowed: a guardrail version, since BEDROCK_GUARDRAIL_ID is set',
    );
  }
  if (result.data === undefined || wrong.length > 0) {
    const error = new Error(`These settings are not valid (see .env.example):\n${[...new Set(wrong)].join('\n')}`);
    error.name = 'InvalidSettings';
    throw error;
  }
  const settings = result.data;
  const prefix = settings.DATA_CAPTURE_S3_PREFIX ?? settings.SAGEMAKER_ENDPOINT_NAME;
  return {
    ...settings,
    DATA_CAPTURE_S3_PREFIX: prefix.endsWith('/') ? prefix : `${prefix}/`,
    MLFLOW_EXPERIMENT_NAME: settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME,
  };
}

const REQUIRED: Record<string, string> = {
  STACK_PREFIX: `letters, digits and "-", ${MAX_PREFIX} characters at most`,
  MLFLOW_TRACKING_URI: 'the ARN of an mlflow-app or mlflow-tracking-server, or an http(s) URL',
  SAGEMAKER_ENDPOINT_NAME: 'the name of the endpoint whose captures are processed',
  DATA_CAPTURE_S3_BUCKET: 'the name of the bucket that Data Capture writes to',
};

const describeRequired = (name: string): string => REQUIRED[name] ?? 'a value';

/** Variables that look like settings of this stack and are none. */
export function unknownSettings(dotenv: Record<string, string>): string[] {
  return Object.keys(dotenv).filter((name) => OURS.test(name) && !SETTING_NAMES.includes(name));
}

/** Reads `.env` (if there is one) and the environment, which wins. */
export function readSettings(
  environment: NodeJS.ProcessEnv = process.env,
  dotenvFile = '.env',
): { settings: Settings; unknown: string[] } {
  const dotenv = existsSync(dotenvFile) ? parseDotenv(readFileSync(dotenvFile)) : {};
  const ofEnvironment = Object.fromEntries(
    SETTING_NAMES.map((name) => [name, environment[name]]).filter(([, value]) => value),
  );
  return { settings: parseSettings({ ...dotenv, ...ofEnvironment }), unknown: unknownSettings(dotenv) };
}
