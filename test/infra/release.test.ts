/** The template that is deployed without the CDK. */
import { readdirSync } from 'node:fs';
import { releasedTemplate } from '../../lib/released-stack.ts';
import { settingsSchema } from '../../src/core/settings/schema.ts';
import { REGION, REQUIRED_SETTINGS, templateOf } from '../helpers/synth.ts';

const ZIPS = Object.fromEntries(readdirSync('lambda').map((folder) => [folder, `${folder}-0123456789abcdef.zip`]));
const APP = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-1';
const ALL = {
  ...REQUIRED_SETTINGS,
  MLFLOW_TRACKING_URI: APP,
  DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint/',
  ALARM_EMAIL: 'oncall@example.com',
  WORK_KMS_KEY_ARN: 'arn:aws:kms:eu-west-1:123456789012:key/a',
  ARTHUR_HOST: 'https://app.arthur.ai',
  ARTHUR_MODEL_ID: 'some-model',
  ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
  CDK_DEFAULT_REGION: REGION,
};
const release = (more: object = {}) => releasedTemplate({ ...ALL, ...more }, ZIPS);
type Parameters = Record<string, { Default?: string; AllowedPattern: string }>;

/** Puts values in place of parameters and of what the CDK knows in a stack with account and region. */
function deployed(value: unknown, values: Record<string, string>): unknown {
  if (Array.isArray(value)) return value.map((each) => deployed(each, values));
  if (typeof value !== 'object' || value === null) return value;
  const found = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, deployed(each, values)]));
  const {
    Ref: name,
    'Fn::Join': join,
    'Fn::If': condition,
  } = found as {
    Ref?: string;
    'Fn::Join'?: [string, unknown[]];
    'Fn::If'?: [string, unknown, unknown];
  };
  if (name !== undefined && values[name] !== undefined) return values[name];
  if (condition) return condition[1];
  if (!join) return found;
  // Neighboring texts of a join are one text, and a join of one text is that text.
  const parts: unknown[] = [];
  for (const part of join[1].flatMap(
    (each) => (each as { 'Fn::Join'?: [string, unknown[]] })?.['Fn::Join']?.[1] ?? [each],
  )) {
    if (typeof part === 'string' && typeof parts.at(-1) === 'string') parts.push(`${parts.pop()}${part}`);
    else parts.push(part);
  }
  return parts.length === 1 ? parts[0] : { 'Fn::Join': [join[0], parts] };
}

it('is the stack of these settings, with parameters', () => {
  const { Parameters: parameters, Resources } = release() as {
    Parameters: Parameters;
    Resources: Record<string, object>;
  };
  const defaults = Object.entries(parameters).flatMap(([name, { Default }]) => (Default ? [[name, Default]] : []));
  const values = { ...Object.fromEntries(defaults), 'AWS::Region': REGION, 'AWS::AccountId': '123456789012' };
  const withoutCode = (resources: Record<string, object>) => {
    const text = JSON.stringify(deployed(resources, values)).replaceAll(
      'SageMakerInferenceMonitoringStacktest',
      'SageMakerInferenceMonitor',
    );
    const all = JSON.parse(text) as Record<string, { Type: string; Properties: { Code?: { ZipFile?: string } } }>;
    for (const { Properties } of Object.values(all))
      if (Properties?.Code?.ZipFile === undefined) delete Properties?.Code;
    return JSON.parse(
      JSON.stringify(all)
        // The CDK names these by the place of a rule and by an address.
        .replace(/AllowEventRule\w+/g, 'AllowEventRule')
        .replace(/AlarmsTopic(?:oncall|TokenSubscription)\w+/, 'AlarmsTopicSubscription'),
    ) as object;
  };
  const { CDK_DEFAULT_REGION: _region, ...settings } = ALL;
  expect(withoutCode(Resources)).toEqual(
    withoutCode(templateOf(settings, REGION).toJSON().Resources as Record<string, object>),
  );
});

it('needs no bootstrap and no file but the zips', () => {
  const template = release();
  expect(template).not.toHaveProperty('Rules');
  expect(JSON.stringify(template)).not.toMatch(/cdk-hnb659fds|\$\{Token|BootstrapVersion/);
  const codes = Object.values(template.Resources as Record<string, { Properties: { Code?: object } }>).flatMap(
    ({ Properties }) => Properties?.Code ?? [],
  );
  expect(codes.filter((code) => !('ZipFile' in code))).toEqual(
    expect.arrayContaining(
      Object.values(ZIPS).map((zip) => ({
        S3Bucket: { Ref: 'ZipBucket' },
        S3Key: { 'Fn::Join': ['', [{ Ref: 'ZipPrefix' }, zip]] },
      })),
    ),
  );
});

it('has a parameter for a key and for an address only if the settings have one', () => {
  const names = Object.keys(release({ ALARM_EMAIL: '', WORK_KMS_KEY_ARN: '' }).Parameters as object);
  expect(names.toSorted()).toEqual([
    'CaptureBucket',
    'CapturePrefix',
    'EndpointName',
    'MlflowArn',
    'StackPrefix',
    'ZipBucket',
    'ZipPrefix',
  ]);
});

it('checks parameters as the settings are checked', () => {
  const { Parameters: arn } = release() as { Parameters: Parameters };
  const { Parameters: url } = release({ MLFLOW_TRACKING_URI: 'https://mlflow.example.com' }) as {
    Parameters: Parameters;
  };
  const server = APP.replace('mlflow-app', 'mlflow-tracking-server');
  const samples: [string, Parameters, keyof typeof settingsSchema.shape, string[], string[]][] = [
    ['StackPrefix', arn, 'STACK_PREFIX', ['prod-1'], ['prod_1', 'a'.repeat(31)]],
    ['EndpointName', arn, 'SAGEMAKER_ENDPOINT_NAME', ['My-endpoint'], ['my_endpoint', '-a']],
    ['CaptureBucket', arn, 'DATA_CAPTURE_S3_BUCKET', ['a.b-c'], ['s3://a-bucket', 'a..b']],
    ['CapturePrefix', arn, 'DATA_CAPTURE_S3_PREFIX', ['data/é x/'], ['/data/', 's3://b/', 'a\u0001/']],
    ['MlflowArn', arn, 'MLFLOW_TRACKING_URI', [APP], ['mlflow-app/app-1', 'ftp://a']],
    [
      'MlflowUrl',
      url,
      'MLFLOW_TRACKING_URI',
      ['http://a:5000', 'https://a.b/c/'],
      ['https://bob:secret@a', 'https://a/?token=1', 'a.b'],
    ],
    ['AlarmEmail', arn, 'ALARM_EMAIL', ['a@b.de'], ['a@b', 'a b@c.de']],
    ['KmsKeyArn', arn, 'WORK_KMS_KEY_ARN', [ALL.WORK_KMS_KEY_ARN], ['arn:aws:kms:eu-west-1:123456789012:alias/a']],
  ];
  for (const [name, parameters, setting, right, wrong] of samples) {
    const pattern = new RegExp(parameters[name]?.AllowedPattern ?? 'missing');
    for (const value of [...right, ...wrong]) {
      const isRight = right.includes(value);
      expect({ name, value, isRight: pattern.test(value) }).toEqual({ name, value, isRight });
      expect({ setting, value, isRight: settingsSchema.shape[setting].safeParse(value).success }).toEqual({
        setting,
        value,
        isRight,
      });
    }
  }
  // Stricter than the settings: another kind has other permissions, and a template cannot escape.
  expect(arn.MlflowArn?.AllowedPattern).not.toMatch('tracking-server');
  expect(new RegExp(arn.MlflowArn?.AllowedPattern ?? '').test(server)).toBe(false);
  for (const value of ['data', 'a*b/', 'a?b/', 'a$b/', 'a\\b/']) {
    expect({ value, isRight: new RegExp(arn.CapturePrefix?.AllowedPattern ?? '').test(value) }).toEqual({
      value,
      isRight: false,
    });
  }
});

it('names wrong settings', () => {
  expect(() => release({ STACK_PREFIX: '' })).toThrow(/^Some settings are invalid[\s\S]*STACK_PREFIX: got nothing/);
});
