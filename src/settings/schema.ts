/** Each setting's form and default, by its name in `.env`. What several settings must be together: settings-checks.ts. */
import * as z from 'zod';
import { DEFAULT_JUDGE_MODEL } from '../contract/names.ts';
import { priceOverridesSchema } from '../judge/pricing/price-overrides.ts';
import { createAlwaysRule } from '../judge/scorers/always-rules.ts';
import { isCodeScorer, scorersFor } from '../judge/scorers/scorer-set.ts';
import { readParameters } from '../judge/transports/parameters.ts';
import { jsonText, numberIn, serverUrlFault, textWithout, urlFault, wholeNumber } from './kinds.ts';

/** A role name has 64 characters at most, and the longest name around the prefix has 34. */
const MAX_PREFIX = 30;

/**
 * An S3 key has 1,024 bytes at most; what follows the prefix (variant, hour, file name) has some 120. The rule's
 * pattern, of 2,048 characters at most, holds the prefix once.
 */
const MAX_CAPTURE_PREFIX_BYTES = 900;

const MLFLOW_ARN = /^arn:aws[\w-]*:sagemaker:[a-z0-9-]+:\d{12}:(mlflow-app|mlflow-tracking-server)\/[\w-]+$/;
const BUCKET_NAME = /^(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const BUCKET_WITH_PREFIX = /^(s3:\/\/)?(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/.*)?$/;
const ENDPOINT_NAME = /^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$/;
const SECRET_ARN = /^arn:aws[\w-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+-[A-Za-z0-9]{6}$/;

/** CloudWatch accepts these retention times only. */
const RETENTION_DAYS = [
  1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
];

/** What is allowed, by name: the settings without which there is no stack. */
export const REQUIRED: Readonly<Record<string, string>> = {
  STACK_PREFIX: `letters, digits and "-", ${MAX_PREFIX} characters at most`,
  MLFLOW_TRACKING_URI: 'the ARN of an mlflow-app or mlflow-tracking-server, or an http(s) URL',
  SAGEMAKER_ENDPOINT_NAME: 'the name of the endpoint whose captures are processed',
  DATA_CAPTURE_S3_BUCKET: 'the name of the bucket that Data Capture writes to, without s3:// and without a prefix',
};

const endpointName = z
  .string()
  .regex(ENDPOINT_NAME, 'an endpoint name: letters, digits and "-", 63 characters at most');
const secretArn = z
  .string()
  .regex(SECRET_ARN, 'the ARN of a Secrets Manager secret, whole, with the six characters at its end');
const flag = z.enum(['true', 'false'], 'true or false');

const trackingUri = textWithout((uri) => {
  if (uri.startsWith('arn:')) return MLFLOW_ARN.test(uri) ? undefined : REQUIRED.MLFLOW_TRACKING_URI;
  // What is no address at all is more likely a misspelled ARN.
  return URL.canParse(uri) ? serverUrlFault(uri, 'MLFLOW_SECRET_ARN') : REQUIRED.MLFLOW_TRACKING_URI;
});

const judgeModel = z
  .string()
  .transform((id) => id.replace(/^bedrock:\/+/, ''))
  .pipe(
    z
      .string()
      // A model id has colons of its own, but no slash behind one.
      .regex(
        /^(?!(?!openai:|sagemaker:)[a-z][a-z0-9_-]*:\/)\S+$/,
        'a Bedrock model id, inference profile id or ARN, with or without bedrock:/; or openai:/<model>, sagemaker:/<endpoint>',
      ),
  );

const capturePrefix = z
  .string()
  .refine(
    (prefix) => !prefix.startsWith('/') && !prefix.startsWith('s3:'),
    'a key prefix that does not begin with "/" or "s3:"',
  )
  .refine((prefix) => !/\p{Cc}/u.test(prefix), 'a key prefix without control characters')
  .refine(
    (prefix) => Buffer.byteLength(prefix) <= MAX_CAPTURE_PREFIX_BYTES,
    `a key prefix of ${MAX_CAPTURE_PREFIX_BYTES} bytes at most`,
  )
  .transform((prefix) => (prefix.endsWith('/') ? prefix : `${prefix}/`));

/** SageMaker's names of endpoints and of inference components have one form. */
const nameList = (what: string) =>
  z
    .string()
    .transform((text) =>
      text
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean),
    )
    .pipe(z.array(z.string().regex(ENDPOINT_NAME, `${what} names separated by commas`)));

export const settingsSchema = z.object({
  STACK_PREFIX: z.string().regex(new RegExp(`^[a-zA-Z0-9-]{1,${MAX_PREFIX}}$`), REQUIRED.STACK_PREFIX),
  MLFLOW_TRACKING_URI: trackingUri,
  SAGEMAKER_ENDPOINT_NAME: endpointName,
  DATA_CAPTURE_S3_BUCKET: z.string().regex(BUCKET_NAME, REQUIRED.DATA_CAPTURE_S3_BUCKET),
  DATA_CAPTURE_S3_PREFIX: capturePrefix.optional(),
  DATA_CAPTURE_KMS_KEY_ARN: z
    .string()
    .regex(/^arn:aws[\w-]*:kms:[a-z0-9-]+:\d{12}:key\/[\w-]+$/, 'the ARN of a KMS key (not of an alias)')
    .optional(),
  MLFLOW_EXPERIMENT_NAME: z.string().max(500, 'a name of 500 characters at most').optional(),
  MLFLOW_SECRET_ARN: secretArn.optional(),
  MLFLOW_ARTIFACT_BUCKET: z.string().regex(BUCKET_WITH_PREFIX, 'a bucket name, a prefix may follow').optional(),
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: textWithout((text) => serverUrlFault(text, 'MLFLOW_SECRET_ARN')).optional(),
  BEDROCK_MODEL_ID: judgeModel.default(DEFAULT_JUDGE_MODEL),
  MLFLOW_EVALUATION_MODEL_PARAM: jsonText(
    z.record(z.string(), z.unknown()),
    'JSON of inference parameters, such as {"temperature":0}',
    readParameters,
  ).default('{}'),
  EVALUATION_SAMPLE_RATE: numberIn(0, 1, 'a number from 0 to 1').default(1),
  EVALUATION_BUDGET_USD: numberIn(0, Number.MAX_VALUE, 'US dollars a day, 0 for no limit').default(20),
  EVALUATION_ALWAYS: jsonText(
    z.array(z.unknown()),
    'a JSON list of rules, such as [{"name":"long replies","replyTokensOver":800}]',
    (rules) => createAlwaysRule(rules, scorersFor().filter(isCodeScorer)),
  ).default('[]'),
  JUDGE_BASE_URL: textWithout((text) => urlFault(text, 'JUDGE_SECRET_ARN')).optional(),
  JUDGE_SECRET_ARN: secretArn.optional(),
  JUDGE_CALLS: z.enum(['together', 'separate'], 'together or separate').default('together'),
  JUDGE_GUIDELINES: jsonText(
    z.record(z.string(), z.string()),
    'JSON of guidelines by name, such as {"no_legal_advice":"The reply gives no legal advice."}',
    (guidelines) => scorersFor({ guidelines }),
  ).default('{}'),
  JUDGE_PRICES: jsonText(
    priceOverridesSchema,
    'JSON of prices in US dollars per million tokens by model id, such as {"sagemaker:/my-judge":{"input":0.4,"output":0.4}}, or of the model whose price holds',
  ).default('{}'),
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
  REPLAY_ENDPOINT_NAMES: nameList('endpoint').default([]),
  REPLAY_INFERENCE_COMPONENT_NAMES: nameList('inference component').default([]),
  REPLAY_HEADERS_SECRET_ARN: secretArn.optional(),
});

export type CheckedSettings = z.infer<typeof settingsSchema>;
