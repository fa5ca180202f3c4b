/** The functions' environment, as `src/settings/environment.ts` reads it. */
import { SMALL_MALLOC } from '../../src/shared/malloc.ts';
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

/** Settings that the functions of a replay read beside the others. */
export function replayEnvironment(settings: Settings): Record<string, string> {
  const { REPLAY_ENDPOINT_NAMES, REPLAY_INFERENCE_COMPONENT_NAMES, REPLAY_HEADERS_SECRET_ARN: secret } = settings;
  return {
    REPLAY_ENDPOINT_NAMES: REPLAY_ENDPOINT_NAMES.join(','),
    REPLAY_INFERENCE_COMPONENT_NAMES: REPLAY_INFERENCE_COMPONENT_NAMES.join(','),
    ...(secret === undefined ? {} : { REPLAY_HEADERS_SECRET_ARN: secret }),
  };
}

/**
 * Of a function's memory for V8's old generation. The rest is for Node itself (60 MB) and for what lies outside the heap:
 * buffers of lines, which are tens of MB where payloads are.
 */
const HEAP_SHARE = 0.75;

/**
 * A young generation of 1 MB for each semi-space instead of 16, which together with malloc's settings makes processes small.
 * Lambda gives V8 nine tenths of a function's memory, unless NODE_OPTIONS names a size of its own: then V8 takes half of the
 * memory that it sees, whichever size was named. So where one is named, both are.
 */
export const nodeOptions = (memoryMb: number): string =>
  `--max-semi-space-size=1 --max-old-space-size=${Math.floor(memoryMb * HEAP_SHARE)}`;

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
    ...SMALL_MALLOC,
  };
}
