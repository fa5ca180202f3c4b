/** The parts of the canary that need no AWS: its assertions, its options, its report. */
import { existsSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { ASSERTION_IDS, assertionOf } from '../aws/assertions.ts';
import { canarySettings, parseCanaryOptions } from '../aws/options.ts';
import { redacted } from '../aws/report.ts';
import type { CanaryState } from '../aws/state.ts';
import { isNamed } from '../aws/steps/destroy.ts';

const STATE: CanaryState = {
  prefix: 'canary-a1b2c3',
  region: 'eu-central-1',
  startedAt: '2026-11-22T10:00:00Z',
  settings: {
    MLFLOW_TRACKING_URI: 'arn:aws:sagemaker:eu-central-1:123456789012:mlflow-app/app-ABC',
    MLFLOW_ARTIFACT_BUCKET: 's3://our-artifacts/mlflow',
  },
  endpoint: 'our-endpoint',
  batch: false,
  done: ['deploy'],
  findings: {},
  facts: { captureBucket: 'ground-captures-x1', workBucket: 'ground-captures-x1-work' },
};

test('every assertion names a file of the project that relies on it', () => {
  expect(ASSERTION_IDS.length).toBeGreaterThanOrEqual(25);
  const missing = ASSERTION_IDS.map((id) => assertionOf(id).file).filter((file) => !existsSync(packagePath(file)));
  expect(missing).toEqual([]);
  expect(new Set(ASSERTION_IDS.map((id) => assertionOf(id).text)).size).toBe(ASSERTION_IDS.length);
});

test('the report names neither the account nor its resources', () => {
  const text =
    'User: arn:aws:sts::123456789012:assumed-role/admin/ada is not authorized on s3://ground-captures-x1-work/a and ' +
    'ground-captures-x1, our-endpoint; https://abc.lambda-url.eu-central-1.on.aws/ of 123456789012, canary-a1b2c3-endpoint';
  expect(redacted(text, STATE)).toBe(
    'User: <arn of sts> is not authorized on s3://<work bucket>/a and <capture bucket>, <endpoint>; <address> of <account>, <prefix>-endpoint',
  );
});

test('options are checked, and a flag wins over .env', () => {
  expect(() => parseCanaryOptions(['--resume'])).toThrow(/--prefix is missing/);
  expect(() => parseCanaryOptions(['--yess'])).toThrow(/--yess/);
  expect(parseCanaryOptions(['--yes']).prefix).toMatch(/^canary-[0-9a-f]{6}$/);
  // What has the prefix in its name is deleted: it must not be that of a person's own stack.
  for (const prefix of ['prod', 'canary-', 'canary-A', 'canary-../x', `canary-${'x'.repeat(24)}`]) {
    expect(() => parseCanaryOptions(['--prefix', prefix])).toThrow(
      `--prefix is wrong; got: ${prefix}; expected: canary-`,
    );
  }
  const dotenv = { MLFLOW_TRACKING_URI: 'https://a', BEDROCK_MODEL_ID: 'm', MAX_FUNCTIONS: '3' };
  const settings = canarySettings(parseCanaryOptions(['--mlflow', 'https://b']), dotenv);
  expect(settings).toEqual({ MLFLOW_TRACKING_URI: 'https://b', BEDROCK_MODEL_ID: 'm' });
});

test('only resources with the whole prefix in their name are deleted', () => {
  const names = [
    'canary-ab-endpoint',
    '/aws/lambda/canary-ab-endpoint',
    '/aws/lambda/sagemaker-replay-sender-canary-ab',
    'arn:aws:states:eu-west-1:123456789012:stateMachine:sagemaker-data-capture-replay-canary-ab',
    'sagemaker-monitoring-canary-ab-RunFailed',
    '/aws/lambda/sagemaker-replay-sender-canary-abc',
    '/aws/lambda/my-canary-abacus',
    '/aws/lambda/xcanary-ab',
  ];
  expect(names.filter((name) => isNamed(name, 'canary-ab'))).toEqual(names.slice(0, 5));
});
