/** The app as the CDK CLI runs it: `node bin/app.ts` with the settings in the environment. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REQUIRED_SETTINGS } from '../helpers/synth.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const folder = temporaryFolder('app-');

/** Optional settings that add resources. */
const OPTIONAL = {
  ALARM_EMAIL: 'on-call@example.com',
  DATA_CAPTURE_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd',
  MLFLOW_EVALUATION_MODEL_PARAM: '{"guardrail":"gr1234:1"}',
  REPLAY_ENDPOINT_NAMES: 'my-endpoint-v2',
};

const NODE = join('node_modules', 'node', 'bin', 'node');

function app(env: Record<string, string>): { status: number | null; stdout: string; stderr: string } {
  const { context } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { context: object };
  return spawnSync(NODE, [join('bin', 'app.ts')], {
    encoding: 'utf8',
    env: {
      PATH: process.env.PATH ?? '',
      CDK_OUTDIR: join(folder, 'out'),
      CDK_CONTEXT_JSON: JSON.stringify({ ...context, 'aws:cdk:bundling-stacks': [] }),
      DOTENV_CONFIG_PATH: join(folder, '.env'),
      ...env,
    },
  });
}

it('reports invalid settings without a stack trace', () => {
  writeFileSync(
    join(folder, '.env'),
    'STACK_PREFIX=test\nMLFLOW_TRACKING_URI=https://bob:hunter2@mlflow.example.com\n',
  );
  const { status, stdout, stderr } = app({ SAGEMAKER_ENDPOINT_NAME: 'my-endpoint' });
  expect(status).toBe(1);
  expect(stdout).toBe('');
  expect(stderr.split('\n')).toEqual([
    'Some settings are invalid (see .env.example):',
    expect.stringMatching(/^ {2}MLFLOW_TRACKING_URI: got "https:\/\/…@mlflow.example.com"; expected: /),
    expect.stringMatching(/^ {2}DATA_CAPTURE_S3_BUCKET: got nothing \(it is required\)/),
    '',
  ]);
});

it('synthesizes a valid stack for the prefix, with warnings about doubtful settings', () => {
  const lines = Object.entries({ ...REQUIRED_SETTINGS, ...OPTIONAL, STACK_PREFIX: 'of-file', MAX_FUNCTONS: '3' });
  writeFileSync(join(folder, '.env'), lines.map(([name, value]) => `${name}=${value}\n`).join(''));
  const { status, stderr } = app({ STACK_PREFIX: 'of-environment', CDK_VALIDATION: 'true' });
  expect({ status, stderr }).toMatchObject({ status: 0 });
  const manifest = readFileSync(join(folder, 'out', 'manifest.json'), 'utf8');
  expect(manifest).toContain('SageMakerInferenceMonitoringStack-of-environment');
  expect(manifest).not.toContain('of-file');
  const { pluginReports } = JSON.parse(readFileSync(join(folder, 'out', 'validation-report.json'), 'utf8'));
  expect(pluginReports).toEqual([]);
  const metadata = readFileSync(
    join(folder, 'out', 'SageMakerInferenceMonitoringStack-of-environment.metadata.json'),
    'utf8',
  );
  expect(metadata).toContain(
    '.env sets MAX_FUNCTONS, which is not a setting of this stack; did you mean MAX_FUNCTIONS?',
  );
});

it.each([
  ['of .env where the environment names none', {}, 'eu-west-1'],
  ['of the environment', { AWS_REGION: 'us-west-2' }, 'us-west-2'],
])('the region is that %s', (_, environment, expected) => {
  const lines = Object.entries({ ...REQUIRED_SETTINGS, AWS_REGION: 'eu-west-1' });
  writeFileSync(join(folder, '.env'), lines.map(([name, value]) => `${name}=${value}\n`).join(''));
  // What the CDK finds in a profile, or in the environment.
  const { status } = app({ CDK_DEFAULT_ACCOUNT: '123456789012', CDK_DEFAULT_REGION: 'us-west-2', ...environment });
  expect(status).toBe(0);
  expect(readFileSync(join(folder, 'out', 'manifest.json'), 'utf8')).toContain(`aws://123456789012/${expected}`);
});
