/** The functions' environment, as `lambda/common/environment.ts` reads it. */
import type { Settings } from './settings.ts';

/** Settings that the functions read under their own names. */
const PASSED_ON = [
  'STACK_PREFIX',
  'SAGEMAKER_ENDPOINT_NAME',
  'DATA_CAPTURE_S3_BUCKET',
  'DATA_CAPTURE_S3_PREFIX',
  'MLFLOW_TRACKING_URI',
  'MLFLOW_EXPERIMENT_NAME',
  'MLFLOW_SECRET_ARN',
  'SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT',
  'BEDROCK_MODEL_ID',
  'MLFLOW_EVALUATION_MODEL_PARAM',
  'EVALUATION_SAMPLE_RATE',
  'EVALUATION_BUDGET_USD',
  'EVALUATION_ALWAYS',
  'JUDGE_BASE_URL',
  'JUDGE_SECRET_ARN',
  'JUDGE_CALLS',
  'JUDGE_GUIDELINES',
  'JUDGE_PRICES',
  'BEDROCK_GUARDRAIL_ID',
  'BEDROCK_GUARDRAIL_VERSION',
  'CSV_HEADER',
  'FEATURE_NAMES',
  'MAX_LINE_BYTES',
] as const satisfies readonly (keyof Settings)[];

export function functionEnvironment(
  settings: Settings,
  workBucket: string,
  budgetTable: string,
): Record<string, string> {
  const made = PASSED_ON.flatMap((name) => (settings[name] === undefined ? [] : [[name, String(settings[name])]]));
  return {
    ...(Object.fromEntries(made) as Record<string, string>),
    WORK_BUCKET: workBucket,
    BUDGET_TABLE: budgetTable,
  };
}
