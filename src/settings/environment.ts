/**
 * The Lambdas' environment variables: set by `lib/`, read and checked once at cold start. Names are the settings' own
 * where a setting is passed on as it is.
 */
import * as z from 'zod';
import { priceOverridesSchema } from '../judge/pricing/price-overrides.ts';
import { alwaysRulesSchema } from '../judge/scorers/always-rules.ts';
import { jsonText, readFunctionVariables } from './variables.ts';

const flag = z.enum(['true', 'false']).transform((value) => value === 'true');

/** Of the judge and of MLflow, which the command line reaches too. */
export const sharedSettings = {
  MLFLOW_SECRET_ARN: z.string().optional(),
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: z.string().optional(),
  /** Inference parameters of the judge. */
  MLFLOW_EVALUATION_MODEL_PARAM: jsonText(z.record(z.string(), z.unknown())).default({}),
  JUDGE_CALLS: z.enum(['together', 'separate']).default('together'),
  /** Further guidelines, plain sentences by name. */
  JUDGE_GUIDELINES: jsonText(z.record(z.string(), z.string())).default({}),
  /** Prices of judges that the price table does not know, see `src/judge/pricing/price-overrides.ts`. */
  JUDGE_PRICES: jsonText(priceOverridesSchema).default({}),
  /** Address of an OpenAI-compatible judge. */
  JUDGE_BASE_URL: z.string().optional(),
  /** Secret with the key of a judge outside AWS. */
  JUDGE_SECRET_ARN: z.string().optional(),
  BEDROCK_GUARDRAIL_ID: z.string().optional(),
  BEDROCK_GUARDRAIL_VERSION: z.string().default('DRAFT'),
};

const environmentSchema = z.object({
  ...sharedSettings,
  STACK_PREFIX: z.string().min(1),
  WORK_BUCKET: z.string().min(1),
  SAGEMAKER_ENDPOINT_NAME: z.string().min(1),
  DATA_CAPTURE_S3_BUCKET: z.string().min(1),
  /** Always ends with `/`. */
  DATA_CAPTURE_S3_PREFIX: z.string(),
  MLFLOW_TRACKING_URI: z.string().min(1),
  MLFLOW_EXPERIMENT_NAME: z.string().min(1),
  /** Without the `bedrock:/`. */
  BEDROCK_MODEL_ID: z.string().min(1),
  EVALUATION_SAMPLE_RATE: z.coerce.number().min(0).max(1).default(1),
  /** Rules of what is judged although the sample leaves it out, see `src/judge/scorers/always-rules.ts`. */
  EVALUATION_ALWAYS: jsonText(alwaysRulesSchema).default([]),
  /** US dollars a day (UTC); 0 switches the budget off. */
  EVALUATION_BUDGET_USD: z.coerce.number().min(0).default(20),
  /** Role that Bedrock takes on for a batch job. */
  BATCH_ROLE_ARN: z.string().optional(),
  /** How often the state machine looks at a batch job. */
  BATCH_POLL_SECONDS: z.coerce.number().int().positive().default(60),
  /** DynamoDB table of the budget's reservations. */
  BUDGET_TABLE: z.string().optional(),
  CSV_HEADER: flag.default(false),
  FEATURE_NAMES: jsonText(z.array(z.string())).default([]),
  /** Lines longer than this are quarantined by reference. 72 MiB: a 25 MB payload as base64 on both sides is 67 MB. */
  MAX_LINE_BYTES: z.coerce
    .number()
    .int()
    .positive()
    .default(72 * 1024 * 1024),
});

export type LambdaEnvironment = z.infer<typeof environmentSchema>;

/** @throws PermanentError `InvalidEnvironment` naming every wrong or missing variable. */
export const readEnvironment = (variables = process.env): LambdaEnvironment =>
  readFunctionVariables(environmentSchema, variables);
