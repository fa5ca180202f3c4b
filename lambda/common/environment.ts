/**
 * The Lambdas' environment variables: set by `lib/`, read and checked once at cold start. Names are the settings' own
 * where a setting is passed on as it is.
 */
import * as z from 'zod';
import { alwaysRulesSchema } from '../judge/always-rules.ts';
import { priceOverridesSchema } from '../judge/price-overrides.ts';
import { PermanentError } from './errors.ts';
import { jsonText } from './json-text.ts';

const flag = z.enum(['true', 'false']).transform((value) => value === 'true');
const environmentSchema = z.object({
  STACK_PREFIX: z.string().min(1),
  WORK_BUCKET: z.string().min(1),
  SAGEMAKER_ENDPOINT_NAME: z.string().min(1),
  DATA_CAPTURE_S3_BUCKET: z.string().min(1),
  /** Always ends with `/`. */
  DATA_CAPTURE_S3_PREFIX: z.string(),
  MLFLOW_TRACKING_URI: z.string().min(1),
  MLFLOW_EXPERIMENT_NAME: z.string().min(1),
  MLFLOW_SECRET_ARN: z.string().optional(),
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: z.string().optional(),
  /** Without the `bedrock:/`. */
  BEDROCK_MODEL_ID: z.string().min(1),
  /** Inference parameters of the judge. */
  MLFLOW_EVALUATION_MODEL_PARAM: jsonText(z.record(z.string(), z.unknown())).default({}),
  EVALUATION_SAMPLE_RATE: z.coerce.number().min(0).max(1).default(1),
  JUDGE_CALLS: z.enum(['together', 'separate']).default('together'),
  /** Further guidelines, plain sentences by name. */
  JUDGE_GUIDELINES: jsonText(z.record(z.string(), z.string())).default({}),
  /** Rules of what is judged although the sample leaves it out, see `lambda/judge/always-rules.ts`. */
  EVALUATION_ALWAYS: jsonText(alwaysRulesSchema).default([]),
  /** Address of an OpenAI-compatible judge. */
  JUDGE_BASE_URL: z.string().optional(),
  /** Secret with the key of a judge outside AWS. */
  JUDGE_SECRET_ARN: z.string().optional(),
  BEDROCK_GUARDRAIL_ID: z.string().optional(),
  BEDROCK_GUARDRAIL_VERSION: z.string().optional(),
  /** US dollars a day (UTC); 0 switches the budget off. */
  EVALUATION_BUDGET_USD: z.coerce.number().min(0).default(20),
  /** Prices of judges that the price table does not know, see `lambda/judge/price-overrides.ts`. */
  JUDGE_PRICES: jsonText(priceOverridesSchema).default({}),
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
export function readEnvironment(variables: NodeJS.ProcessEnv = process.env): LambdaEnvironment {
  // A setting left empty is a setting not made.
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const result = environmentSchema.safeParse(given);
  if (result.success) return result.data;
  const wrong = result.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ');
  throw new PermanentError('InvalidEnvironment', `The function's environment is not valid: ${wrong}`);
}
