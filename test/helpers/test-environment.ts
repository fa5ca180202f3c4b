/** The environment of a function for tests that need no server. */
import { readEnvironment } from '../../src/core/settings/environment.ts';

export const TEST_VARIABLES = {
  STACK_PREFIX: 'test',
  WORK_BUCKET: 'work',
  BUDGET_TABLE: 'limits',
  SAGEMAKER_ENDPOINT_NAME: 'fern-house',
  DATA_CAPTURE_S3_BUCKET: 'b',
  DATA_CAPTURE_S3_PREFIX: 'p/',
  // A port on which nothing listens.
  MLFLOW_TRACKING_URI: 'http://127.0.0.1:1',
  MLFLOW_EXPERIMENT_NAME: 'e',
  EVALUATION_SAMPLE_RATE: '1',
  BEDROCK_MODEL_ID: 'anthropic.claude-sonnet-4-6',
};

/** @param more additional variables, which take precedence */
export const testEnvironment = (more: Record<string, string> = {}) => readEnvironment({ ...TEST_VARIABLES, ...more });
