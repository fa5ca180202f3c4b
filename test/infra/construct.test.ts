/** The construct in an app of somebody else. */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { App, Fn, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { parse as parseDotenv } from 'dotenv';
import { InferenceMonitor } from '../../lib/inference-monitor.ts';
import { type InferenceMonitorProps, propName, settingsOfProps } from '../../lib/monitor-props.ts';
import { parseSettings, SETTING_NAMES } from '../../lib/settings/settings.ts';
import {
  ACCOUNT,
  REGION,
  REQUIRED_SETTINGS,
  type Resource,
  resourcesOf,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

const OWN = { stackPrefix: 'test', mlflow: 'http://mlflow.internal:5000', endpointName: 'my-endpoint' };
const PROPS = { ...OWN, captureBucket: 'captures' } satisfies InferenceMonitorProps;

/** A stack of an app that sets none of our flags. */
const stackOf = (flags: object = {}): Stack => {
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [], ...flags } });
  return new Stack(app, 'Theirs', { env: { account: ACCOUNT, region: REGION } });
};

/** A template as text without what depends on the place of the construct in the app: logical ids. */
const withoutIds = (resources: Record<string, Resource>): string[] => {
  let text = JSON.stringify(Object.values(resources));
  for (const id of Object.keys(resources).toSorted((a, b) => b.length - a.length)) {
    text = text.replaceAll(id, id.replace(/^Monitor(?=[A-Z])/, '').replace(/[0-9A-F]{8}$/, ''));
  }
  // The CDK names a statement by the place of its rule.
  text = text.replace(/AllowEventRule\w+/g, 'AllowEventRule');
  return (JSON.parse(text) as object[]).map((resource) => JSON.stringify(resource)).sort();
};

it('has what the stack of the same settings has', () => {
  const stack = stackOf();
  new InferenceMonitor(stack, 'Monitor', PROPS);
  expect(withoutIds(resourcesOf(Template.fromStack(stack)))).toEqual(withoutIds(resourcesOf(templateOf({}, REGION))));
});

it('exists in an app with all flags of a new one', () => {
  const flags = JSON.parse(readFileSync('node_modules/aws-cdk-lib/recommended-feature-flags.json', 'utf8')) as object;
  const stack = stackOf(flags);
  new InferenceMonitor(stack, 'Monitor', PROPS);
  Template.fromStack(stack).resourceCountIs('AWS::StepFunctions::StateMachine', 3);
});

it('reads every prop as its setting', () => {
  const example = readFileSync('.env.example', 'utf8').replaceAll('us-east-1', REGION);
  const { AWS_REGION: _, ...examples } = parseDotenv(example.replace(/^#(?=[A-Z0-9_]+=)/gm, ''));
  const own = {
    STACK_PREFIX: 'prod',
    MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
    SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
    DATA_CAPTURE_S3_BUCKET: 'captures',
  };
  // Where the example is the default.
  const others = {
    MLFLOW_EXPERIMENT_NAME: 'helpdesk',
    MLFLOW_EXPERIMENT_SHARED: 'true',
    BEDROCK_MODEL_ID: 'eu.anthropic.claude-sonnet-5-5',
    MLFLOW_EVALUATION_MODEL_PARAM: '{"max_tokens":900}',
    EVALUATION_SAMPLE_RATE: '0.5',
    JUDGED_CAPTURES_PER_DAY: '500',
    EVALUATION_BUDGET_USD: '0.5',
    EVALUATION_ALWAYS: '[{"name":"long replies","replyTokensOver":800}]',
    NOT_TRAFFIC: '[{"name":"canary","inferenceId":"canary-*"}]',
    QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95,"over":"1d"}]',
    ALARM_QUOTES: 'true',
    JUDGE_RATIONALES: 'failures',
    JUDGE_PREFIX: 'cached',
    JUDGE_GUIDELINES: '{"kind":"Be kind."}',
    SCORER_FUNCTIONS: '{"long":{"arn":"arn:aws:lambda:eu-west-1:123456789012:function:s:live","values":"number"}}',
    JUDGE_PRICES: '{"sagemaker:/my-judge":{"input":0.4,"output":0.4}}',
    MAX_FUNCTIONS: '3',
    SIZE: 'large',
    JUDGE_TOKENS_PER_MINUTE: '70000',
    CSV_HEADER: 'true',
    FEATURE_NAMES: '["age","income"]',
    MAX_LINE_BYTES: '100000',
    BATCH_WINDOW_SECONDS: '0',
    LAMBDA_MEMORY_MB: '2048',
    LOG_RETENTION_DAYS: '90',
    MISSING_LABELS_HOURS: '24',
    ENDPOINT_VARIANTS: 'blue,green',
    ARTHUR_S3_SUFFIX: '-1.jsonl',
    OTLP_VERDICTS: 'phoenix',
  };
  const all: Record<string, string> = { ...examples, ...own, ...others };
  expect(Object.keys(all).toSorted()).toEqual(SETTING_NAMES.toSorted());
  // Arthur gets the capture files themselves, which contradicts masking.
  for (const left of [/^ARTHUR_/, /^(?:REDACT|CONTENT)/]) {
    const texts = Object.fromEntries(Object.entries(all).filter(([name]) => !left.test(name)));
    const settings = parseSettings(texts);
    const usual = Object.entries(parseSettings(own)).filter(([name]) => !(name in own) && name in texts);
    expect(usual.filter(([name, value]) => isDeepStrictEqual(value, settings[name as 'STACK_PREFIX']))).toEqual([]);
    const props = Object.fromEntries(SETTING_NAMES.map((name) => [propName(name), settings[name as 'STACK_PREFIX']]));
    const read = settingsOfProps(props as unknown as Parameters<typeof settingsOfProps>[0], {
      region: REGION,
      where: 'Monitor',
    });
    expect(read.settings).toEqual(settings);
  }
  expect(propName('DATA_CAPTURE_S3_BUCKET')).toBe('captureBucket');
  expect(propName('EVALUATION_SAMPLE_RATE')).toBe('evaluationSampleRate');
});

it('names every wrong, missing and unknown prop, as the app does its settings', () => {
  const wrong = { endpointName: 'my_endpoint', captureBucket: 'captures', evaluationSampelRate: 0.1 };
  expect(() => new InferenceMonitor(stackOf(), 'Monitor', wrong as unknown as InferenceMonitorProps)).toThrow(
    [
      'Some props of the InferenceMonitor Theirs/Monitor are invalid:',
      '  mlflow: got nothing (it is required); expected: the ARN of a SageMaker mlflow-app, or an http(s) URL',
      '  endpointName: got "my_endpoint"; expected: the name of the endpoint whose captures are processed: letters, digits and "-", at most 63 characters',
      '  evaluationSampelRate: is no prop; did you mean evaluationSampleRate?',
    ].join('\n'),
  );
});

it('warns by the names of the props', () => {
  const stack = stackOf();
  new InferenceMonitor(stack, 'Monitor', { ...PROPS, judgeBaseUrl: 'https://llm.example.com/v1' });
  Annotations.fromStack(stack).hasWarning('/Theirs/Monitor', Match.stringLikeRegexp('^judgeBaseUrl is not used'));
});

it('watches a bucket of the same app, with a key of the same app, and switches its events on', () => {
  const stack = stackOf();
  const captureBucket = new Bucket(stack, 'Captures');
  const key = new Key(stack, 'Key');
  new InferenceMonitor(stack, 'Monitor', { ...PROPS, captureBucket, workKmsKeyArn: key.keyArn });
  const template = Template.fromStack(stack);
  const bucket = stack.resolve(captureBucket.bucketName);
  template.hasResourceProperties('Custom::CaptureNotifications', { BucketName: bucket });
  template.hasResourceProperties('AWS::SSM::Parameter', {
    Name: Match.stringLikeRegexp('/test/capture-bucket$'),
    Value: bucket,
  });
  template.hasResourceProperties('AWS::SNS::Topic', { KmsMasterKeyId: stack.resolve(key.keyArn) });
});

it('takes whole lists that only the deployment knows', () => {
  const stack = stackOf();
  const vpcSubnetIds = Fn.split(',', Fn.importValue('subnets'));
  new InferenceMonitor(stack, 'Monitor', { ...PROPS, vpcSubnetIds, vpcSecurityGroupIds: [Fn.importValue('group')] });
  const functions = Object.values(resourcesOfType(Template.fromStack(stack), 'AWS::Lambda::Function'));
  for (const { Properties } of functions) {
    const SubnetIds = { 'Fn::Split': [',', { 'Fn::ImportValue': 'subnets' }] };
    expect(Properties.VpcConfig).toEqual({ SubnetIds, SecurityGroupIds: [{ 'Fn::ImportValue': 'group' }] });
  }
});

it('leaves the events of other buckets of the app to the CDK', () => {
  const stack = stackOf();
  new InferenceMonitor(stack, 'Monitor', PROPS);
  new Bucket(stack, 'Other', { eventBridgeEnabled: true });
  const template = Template.fromStack(stack);
  template.resourceCountIs('Custom::S3BucketNotifications', 1);
  const [handler] = Object.values(resourcesOfType(template, 'Custom::S3BucketNotifications'));
  expect(JSON.stringify(handler?.Properties.ServiceToken)).toContain('BucketNotificationsHandler');
});

it('exists several times in a stack, each with names and keys of its own', () => {
  const stack = stackOf();
  const of = (endpointName: string, more: object = {}) =>
    new InferenceMonitor(stack, endpointName, { ...PROPS, stackPrefix: undefined, endpointName, ...more });
  const one = of('one', { workKmsKeyArn: `arn:aws:kms:${REGION}:${ACCOUNT}:key/one` });
  const two = of('two', { workKmsKeyArn: `arn:aws:kms:${REGION}:${ACCOUNT}:key/two` });
  expect([one.stackPrefix, two.stackPrefix]).toEqual([
    expect.stringMatching(/^Theirs-one-[0-9A-F]{8}$/),
    expect.stringMatching(/^Theirs-two-[0-9A-F]{8}$/),
  ]);
  const topics = Object.values(resourcesOfType(Template.fromStack(stack), 'AWS::SNS::Topic'));
  expect(topics.map(({ Properties }) => Properties.KmsMasterKeyId)).toEqual([
    expect.stringContaining('key/one'),
    expect.stringContaining('key/two'),
  ]);
});

it('gives out metrics and the permission to start runs', () => {
  const stack = stackOf();
  const monitor = new InferenceMonitor(stack, 'Monitor', PROPS);
  const role = new Role(stack, 'Caller', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  monitor.grantStart(role);
  Template.fromStack(stack).hasResourceProperties('AWS::IAM::Policy', {
    PolicyDocument: {
      Statement: [
        {
          Action: 'states:StartExecution',
          Effect: 'Allow',
          Resource: stack.resolve(monitor.stateMachine.stateMachineArn),
        },
      ],
    },
    Roles: [stack.resolve(role.roleName)],
  });
  expect(monitor.metric('QuarantinedLines').toMetricConfig().metricStat).toMatchObject({
    namespace: 'SageMakerInferenceMonitor',
    metricName: 'QuarantinedLines',
    dimensions: [{ name: 'StackPrefix', value: 'test' }],
  });
  expect(
    monitor.qualityMetric('Passed', { Scorer: 'safety', Variant: 'AllTraffic' }).toMetricConfig().metricStat
      ?.dimensions,
  ).toHaveLength(3);
});

it('knows the required settings of the stack', () => {
  expect(Object.keys(REQUIRED_SETTINGS).map(propName).toSorted()).toEqual(Object.keys(PROPS).toSorted());
});
