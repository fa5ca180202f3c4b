/**
 * The settings that change the shape of the template or the permissions of a role, each by its name. The tests hold all of
 * them against what AWS publishes: a setting that adds a resource, a property or a statement belongs here.
 */
import { ACCOUNT } from './synth.ts';

/** A region with the partition of its ARNs. */
export interface Place {
  region: string;
  partition: string;
}

/** Two regions of the commercial partition, GovCloud and China. */
export const PLACES: Place[] = [
  { region: 'us-east-1', partition: 'aws' },
  { region: 'eu-central-1', partition: 'aws' },
  { region: 'us-gov-west-1', partition: 'aws-us-gov' },
  { region: 'cn-north-1', partition: 'aws-cn' },
];

/** A judge in GovCloud, which has no default. */
const GOVERNMENT_PROFILE = 'us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0';

const OBJECTIVES = '[{"scorer":"safety","atLeast":0.95},{"errorReplies":{"atMost":0.02},"variant":"B"}]';

/** Returns the variants with the ARNs of a region, without those that cannot be there. */
export function settingsVariants({ region, partition }: Place): Record<string, Record<string, string>> {
  const arn = (service: string, resource: string): string =>
    `arn:${partition}:${service}:${region}:${ACCOUNT}:${resource}`;
  const secret = (name: string): string => arn('secretsmanager', `secret:${name}-AbCdEf`);
  const arthur = {
    ARTHUR_HOST: 'https://app.arthur.ai',
    ARTHUR_MODEL_ID: 'some-model',
    ARTHUR_SECRET_ARN: secret('arthur'),
    OTLP_ENDPOINT: 'https://otel.example.com',
    OTLP_SECRET_ARN: secret('otlp'),
  };
  const noBudget = { EVALUATION_BUDGET_USD: '0' };
  // Settings that have nothing to do with each other share a variant, since each costs seconds.
  const everywhere = {
    'a URL with a secret, a SageMaker judge, alarms by email': {
      MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
      MLFLOW_SECRET_ARN: secret('mlflow'),
      BEDROCK_MODEL_ID: 'sagemaker:/My-Judge',
      ALARM_EMAIL: 'on-call@example.com',
      QUALITY_OBJECTIVES: OBJECTIVES,
      BATCH_WINDOW_SECONDS: '0',
      GROUND_TRUTH_S3_PREFIX: 's3://labels/true/',
      MISSING_LABELS_HOURS: '48',
      ...arthur,
      ...noBudget,
    },
    'a URL without a secret, an OpenAI judge, scorer functions': {
      MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
      MLFLOW_ARTIFACT_BUCKET: 'artifacts',
      BEDROCK_MODEL_ID: 'openai:/gpt-5-mini',
      JUDGE_SECRET_ARN: secret('judge'),
      REDACT: 'email,field:customer_name',
      SCORER_FUNCTIONS: JSON.stringify({
        fixed: { arn: arn('lambda', 'function:scores:7'), values: 'number' },
        moved: { arn: arn('lambda', 'function:others:live'), values: 'boolean' },
      }),
      ...noBudget,
    },
    'keys of a person': {
      WORK_KMS_KEY_ARN: arn('kms', 'key/work'),
      QUALITY_OBJECTIVES: OBJECTIVES,
      MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
      MLFLOW_ARTIFACT_BUCKET: 'artifacts',
      MLFLOW_ARTIFACT_KMS_KEY_ARN: arn('kms', 'key/artifacts'),
      BEDROCK_MODEL_ID: 'openai:/gpt-5-mini',
      JUDGE_SECRET_ARN: secret('judge'),
      REPLAY_HEADERS_SECRET_ARN: secret('replay'),
      GROUND_TRUTH_S3_PREFIX: 's3://labels',
      GROUND_TRUTH_KMS_KEY_ARN: arn('kms', 'key/labels'),
      ...arthur,
      ...noBudget,
    },
    'encrypted captures, replays in a VPC, a judge in an inference component': {
      DATA_CAPTURE_KMS_KEY_ARN: arn('kms', 'key/1234abcd'),
      VPC_SUBNET_IDS: 'subnet-0a1b2c3d,subnet-0123456789abcdef0',
      VPC_SECURITY_GROUP_IDS: 'sg-0a1b2c3d',
      REPLAY_ENDPOINT_NAMES: 'v2,v3',
      REPLAY_INFERENCE_COMPONENT_NAMES: 'Part',
      REPLAY_HEADERS_SECRET_ARN: secret('replay'),
      BEDROCK_MODEL_ID: 'sagemaker:/My-Judge/Llama-8b',
      ...noBudget,
    },
  };
  // China has neither Bedrock nor MLflow apps.
  if (partition === 'aws-cn') return everywhere;
  const judge: Record<string, string> = partition === 'aws' ? {} : { BEDROCK_MODEL_ID: GOVERNMENT_PROFILE };
  return {
    'the required settings': judge,
    ...everywhere,
    'an MLflow app': {
      ...judge,
      MLFLOW_TRACKING_URI: arn('sagemaker', 'mlflow-app/app-ABC123'),
      MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
    },
    // In a batch job of Bedrock's the key is used by another role.
    'keys of a person for batch jobs': { ...judge, WORK_KMS_KEY_ARN: arn('kms', 'key/work') },
    'a Bedrock model with a guardrail': {
      BEDROCK_MODEL_ID: 'amazon.nova-pro-v1:0',
      MLFLOW_EVALUATION_MODEL_PARAM: '{"guardrail":"gr1234:2"}',
    },
    'an application profile': {
      BEDROCK_MODEL_ID: arn('bedrock', 'application-inference-profile/a1b2c3'),
      ...noBudget,
    },
    ...(partition === 'aws' ? { 'a global profile': { BEDROCK_MODEL_ID: 'global.anthropic.claude-sonnet-5-5' } } : {}),
  };
}
