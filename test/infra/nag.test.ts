/** cdk-nag's AwsSolutions rules: no open finding, and no acknowledgement wider than a finding. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, Stack, Validations } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { acknowledge } from '../../lib/acknowledge.ts';
import { ARTHUR, testApp, testStack } from '../helpers/synth.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

jest.mock('../../lib/acknowledge.ts', () => ({ acknowledge: jest.fn() }));
const acknowledged = jest.mocked(acknowledge);
const really = jest.requireActual<typeof import('../../lib/acknowledge.ts')>('../../lib/acknowledge.ts').acknowledge;

interface Finding {
  rule: string;
  path: string;
}

interface Report {
  pluginReports: {
    violations: { ruleName: string; violatingConstructs: { constructPath: string }[] }[];
  }[];
}

/** Every setting that adds permissions. */
const EVERYTHING = {
  ALARM_EMAIL: 'on-call@example.com',
  MLFLOW_TRACKING_URI: 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC',
  MLFLOW_ARTIFACT_BUCKET: 's3://artifacts/mlflow',
  DATA_CAPTURE_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd',
  WORK_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/work',
  MLFLOW_ARTIFACT_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/artifacts',
  VPC_SUBNET_IDS: 'subnet-0a1b2c3d',
  VPC_SECURITY_GROUP_IDS: 'sg-0a1b2c3d',
  BEDROCK_MODEL_ID: 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3',
  MLFLOW_EVALUATION_MODEL_PARAM: '{"guardrail":"gr1234:1"}',
  EVALUATION_BUDGET_USD: '0',
  REPLAY_ENDPOINT_NAMES: 'my-endpoint-v2',
  REPLAY_INFERENCE_COMPONENT_NAMES: 'my-component',
  REPLAY_HEADERS_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:replay-AbCdEf',
  OTLP_ENDPOINT: 'https://otel.example.com',
  OTLP_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:otlp-AbCdEf',
  ...ARTHUR,
};

function findingsOf(build: (app: App) => void): Finding[] {
  const outdir = temporaryFolder('nag-');
  const app = testApp({ outdir });
  build(app);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  try {
    app.synth();
  } catch (error) {
    // Findings fail the synthesis; the test examines them.
    if ((error as Error).name !== 'ValidationFailed') throw error;
  }
  const { pluginReports } = JSON.parse(readFileSync(join(outdir, 'validation-report.json'), 'utf8')) as Report;
  return pluginReports.flatMap(({ violations }) =>
    violations.flatMap(({ ruleName, violatingConstructs }) =>
      violatingConstructs.map(({ constructPath }) => ({ rule: ruleName, path: constructPath })),
    ),
  );
}

const settings: [string, Record<string, string>][] = [
  ['only the required settings', {}],
  ['every setting that adds permissions', EVERYTHING],
  ['a judge on an endpoint', { BEDROCK_MODEL_ID: 'sagemaker:/my-judge', EVALUATION_BUDGET_USD: '0' }],
];

describe.each(settings)('with %s', (_, given) => {
  beforeEach(() => acknowledged.mockReset());

  it('has no open finding', () => {
    acknowledged.mockImplementation(really);
    expect(findingsOf((app) => testStack(given, app))).toEqual([]);
  });

  it('acknowledges exactly its findings, each by its id and with a reason', () => {
    const findings = findingsOf((app) => testStack(given, app));
    const reasons = acknowledged.mock.calls.flatMap(([construct, all]) =>
      Object.entries(all).map(([rule, reason]) => ({ path: construct.node.path, rule, reason })),
    );
    const covers = (ack: { path: string; rule: string }, { path, rule }: Finding): boolean =>
      rule === ack.rule && (path === ack.path || path.startsWith(`${ack.path}/`));
    // None covers a whole stack, or all details of a rule.
    for (const { path, rule, reason } of reasons) {
      expect(path.split('/').length).toBeGreaterThan(1);
      expect(rule).not.toBe('AwsSolutions-IAM5');
      expect(reason).toMatch(/^[A-Z].{25,}\.$/s);
    }
    expect(reasons.filter((ack) => !findings.some((finding) => covers(ack, finding)))).toEqual([]);
    expect(findings.filter((finding) => !reasons.some((ack) => covers(ack, finding)))).toEqual([]);
    expect(findings.length).toBeGreaterThan(10);
  });
});

it('detects a deliberate mistake', () => {
  acknowledged.mockReset();
  const findings = findingsOf((app) => {
    const stack = new Stack(app, 'Careless');
    new Bucket(stack, 'Open');
    const role = new Role(stack, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    role.addToPolicy(new PolicyStatement({ actions: ['s3:*'], resources: ['*'] }));
  });
  expect(findings).toEqual(
    expect.arrayContaining([
      { rule: 'AwsSolutions-S10', path: 'Careless/Open/Resource' },
      { rule: 'AwsSolutions-IAM5[Resource::*]', path: 'Careless/Role/DefaultPolicy/Resource' },
      { rule: 'AwsSolutions-IAM5[Action::s3:*]', path: 'Careless/Role/DefaultPolicy/Resource' },
    ]),
  );
});
