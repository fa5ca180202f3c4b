/**
 * Each function's role allows exactly the AWS calls that the function can make. The calls are read from the bundles: the
 * bundler keeps only the parts of the SDK that the code can reach. The tests of the policies check the resources of the
 * permissions, and the integration test with enforced policies checks that they are sufficient.
 */
import { basename } from 'node:path';
import { build } from 'esbuild';
import { flattened, policiesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

/** The IAM action of each call, from AWS's Service Authorization Reference. */
const ACTIONS: Record<string, string> = {
  AbortMultipartUploadCommand: 's3:AbortMultipartUpload',
  CompleteMultipartUploadCommand: 's3:PutObject',
  ConverseCommand: 'bedrock:InvokeModel',
  CreateModelInvocationJobCommand: 'bedrock:CreateModelInvocationJob',
  CreateMultipartUploadCommand: 's3:PutObject',
  DeleteObjectCommand: 's3:DeleteObject',
  DescribeExecutionCommand: 'states:DescribeExecution',
  GetFoundationModelCommand: 'bedrock:GetFoundationModel',
  GetInferenceProfileCommand: 'bedrock:GetInferenceProfile',
  GetItemCommand: 'dynamodb:GetItem',
  GetModelInvocationJobCommand: 'bedrock:GetModelInvocationJob',
  GetObjectCommand: 's3:GetObject',
  GetSecretValueCommand: 'secretsmanager:GetSecretValue',
  HeadObjectCommand: 's3:GetObject',
  InvokeCommand: 'lambda:InvokeFunction',
  InvokeEndpointCommand: 'sagemaker:InvokeEndpoint',
  ListObjectsV2Command: 's3:ListBucket',
  PutObjectCommand: 's3:PutObject',
  TransactWriteItemsCommand: 'dynamodb:UpdateItem',
  UpdateItemCommand: 'dynamodb:UpdateItem',
  UploadPartCommand: 's3:PutObject',
};

/** Parts of the SDK that the product does not use: other credentials than a function's, waiters, tags of uploads. */
const UNUSED = [
  'AssumeRoleCommand',
  'AssumeRoleWithWebIdentityCommand',
  'CreateOAuth2TokenCommand',
  'CreateTokenCommand',
  'GetRoleCredentialsCommand',
  'HeadBucketCommand',
  'PutObjectTaggingCommand',
];

/** Actions that IAM checks in addition to the call's own, and calls that are not made with the SDK. */
const ADDITIONAL: Record<string, string> = {
  'bedrock:ApplyGuardrail': 'Converse with a guardrail',
  'iam:PassRole': 'CreateModelInvocationJob',
  'kms:Decrypt': 'GetObject of an encrypted capture',
  's3:GetObjectVersion': 'GetObject with a version',
  'sagemaker-mlflow:*': 'MLflow’s REST client',
  'sagemaker:CallMlflowAppApi': 'MLflow’s REST client',
  'sqs:SendMessage': 'Lambda itself, with an event on which the function has failed each time',
};
/** Actions of the replay's own HTTP client. */
const SENDER = ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'];

const secret = (name: string): string => `arn:aws:secretsmanager:eu-west-1:123456789012:secret:${name}-AbCdEf`;
const managed = (kind: string) => `arn:aws:sagemaker:eu-west-1:123456789012:${kind}`;

/** Settings that together produce every permission. */
const VARIANTS: Record<string, string>[] = [
  { MLFLOW_SECRET_ARN: secret('mlflow') },
  { MLFLOW_TRACKING_URI: managed('mlflow-app/app-ABC123'), MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow' },
  {
    MLFLOW_TRACKING_URI: managed('mlflow-tracking-server/mine'),
    MLFLOW_ARTIFACT_BUCKET: 'artifacts',
    DATA_CAPTURE_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd',
    BEDROCK_GUARDRAIL_ID: 'gr1234',
    BEDROCK_GUARDRAIL_VERSION: '2',
    REPLAY_ENDPOINT_NAMES: 'v2',
    REPLAY_INFERENCE_COMPONENT_NAMES: 'part',
    REPLAY_HEADERS_SECRET_ARN: secret('replay'),
  },
  { BEDROCK_MODEL_ID: 'sagemaker:/my-judge', EVALUATION_BUDGET_USD: '0' },
  { BEDROCK_MODEL_ID: 'openai:/gpt-5-mini', JUDGE_SECRET_ARN: secret('judge'), EVALUATION_BUDGET_USD: '0' },
];
const templates = VARIANTS.map((settings) => templateOf(settings));

/** The function's construct, and its folder under `lambda/`. */
const FOLDERS: Record<string, string> = {
  PlanCaptures: 'plan-captures',
  LogTraces: 'log-traces',
  EvaluateTraces: 'evaluate-traces',
  JudgeBatch: 'judge-batch',
  SummarizeRun: 'summarize-run',
  ReplayPlan: 'plan-replay',
  ReplayShard: 'replay-shard',
  ReplayEvaluation: 'evaluate-replay',
  ReplaySummary: 'summarize-replay',
  ReplayPublication: 'publish-replay',
  ReplayStop: 'stop-replay',
};

it('covers all functions', () => {
  const [template] = templates;
  if (template === undefined) throw new Error('No template');
  const functions = Object.entries(resourcesOfType(template, 'AWS::Lambda::Function')).flatMap(
    ([id, { Properties }]) => (id.startsWith('BucketNotificationsHandler') ? [] : [[id, flattened(Properties.Role)]]),
  );
  expect(functions).toEqual(Object.keys(FOLDERS).map((step) => [`${step}Function`, `<${step}Role.Arn>`]));
});

/** The names of the SDK commands in each handler's bundle, by folder. One call of esbuild parses the SDK once for all. */
async function commandsByFolder(): Promise<Record<string, string[]>> {
  const { outputFiles } = await build({
    entryPoints: Object.values(FOLDERS).map((folder) => ({ in: `lambda/${folder}/handler.ts`, out: folder })),
    outdir: 'in-memory',
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    mainFields: ['module', 'main'],
    logLevel: 'error',
  });
  return Object.fromEntries(
    outputFiles.map(({ path, text }) => {
      const made = [...text.matchAll(/\bnew (?:\w+\.)?([A-Z]\w*?Command)\d*\(/g)].map(([, name = '']) => name);
      return [basename(path, '.js'), [...new Set(made)].toSorted()];
    }),
  );
}

let found: Record<string, string[]>;
beforeAll(async () => {
  found = await commandsByFolder();
});

function allowedTo(step: string): Set<string> {
  const lines = templates.flatMap((template) => policiesOf(template)[`${step}Role`] ?? []);
  return new Set(lines.flatMap(([actions]) => actions).filter((action) => !action.startsWith('logs:')));
}

describe.each(Object.entries(FOLDERS))('%s', (step, folder) => {
  let commands: string[];
  beforeAll(() => {
    commands = (found[folder] ?? []).filter((command) => !UNUSED.includes(command));
  });

  it('makes only calls with a known IAM action', () => {
    expect(commands).not.toEqual([]);
    expect(commands.filter((command) => ACTIONS[command] === undefined)).toEqual([]);
  });

  it('is allowed to make each of its calls', () => {
    const allowed = allowedTo(step);
    expect(commands.filter((command) => !allowed.has(ACTIONS[command] ?? ''))).toEqual([]);
  });

  it('is not allowed anything else', () => {
    const needed = new Set(commands.map((command) => ACTIONS[command]));
    const additional = [...Object.keys(ADDITIONAL), ...(step === 'ReplayShard' ? SENDER : [])];
    expect([...allowedTo(step)].filter((action) => !needed.has(action) && !additional.includes(action))).toEqual([]);
  });
});
