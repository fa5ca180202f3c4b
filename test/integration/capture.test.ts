/** `capture` against a stand-in for SageMaker. Every request is held against AWS's model; what SageMaker does with it is not known here. */

import type { IncomingMessage } from 'node:http';
import { dirname } from 'node:path';
import MEMBERS from '../../bin/capture/endpoint-config-members.json' with { type: 'json' };
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { OUTPUT_PARAMETERS, outputPath } from '../../src/core/contract/names.ts';
import { awsRequests } from '../aws-requests/aws-requests.ts';
import { type ServiceModel, ServiceModels } from '../aws-requests/models.ts';
import { logRequest } from '../doubles/request-log.ts';
import { type Answer, AwsAnswers } from '../helpers/aws-answers.ts';
import { runHere } from '../helpers/command-here.ts';
import { expectPublished } from '../helpers/published-json.ts';

type Members = Record<string, unknown>;

const ARN = 'arn:aws:sagemaker:us-east-1:123456789012';
const ROLE = 'arn:aws:iam::123456789012:role/model';
const CONFIGURATION = 'GET /2015-03-31/functions/any/configuration';
const SUMMARY = { VariantName: 'AllTraffic', CurrentWeight: 0.5, CurrentInstanceCount: 3 };

/** A configuration as DescribeEndpointConfig tells it. */
const CONFIG = {
  EndpointConfigName: 'garden-1',
  EndpointConfigArn: `${ARN}:endpoint-config/garden-1`,
  CreationTime: 1_795_000_000,
  ProductionVariants: [
    {
      VariantName: 'AllTraffic',
      ModelName: 'garden-model',
      InitialInstanceCount: 1,
      InstanceType: 'ml.g5.xlarge',
      InitialVariantWeight: 1,
      ManagedInstanceScaling: { Status: 'ENABLED', MinInstanceCount: 1, MaxInstanceCount: 4 },
      RoutingConfig: { RoutingStrategy: 'LEAST_OUTSTANDING_REQUESTS' },
    },
  ],
  KmsKeyId: 'alias/volumes',
  VpcConfig: { SecurityGroupIds: ['sg-1'], Subnets: ['subnet-1'] },
  EnableNetworkIsolation: false,
};

const aws = new AwsAnswers();

/** Answers for SageMaker, the stack `prod` and its functions. */
class SagemakerEndpoint {
  /** The inputs so far, by operation. */
  requests: [operation: string, input: Members][] = [];
  endpoint: Members = {
    EndpointName: 'garden',
    EndpointArn: `${ARN}:endpoint/garden`,
    EndpointConfigName: 'garden-1',
    EndpointStatus: 'InService',
    ProductionVariants: [SUMMARY],
  };
  config: Members = structuredClone(CONFIG);
  tags: Record<string, { Key: string; Value: string }[]> = {
    [`${ARN}:endpoint-config/garden-1`]: [
      { Key: 'team', Value: 'chat' },
      { Key: 'aws:cloudformation:x', Value: 'y' },
    ],
  };
  /** Of the stack `prod`. */
  outputs: Record<string, string> = {
    ...Object.fromEntries(Object.values(OUTPUT_PARAMETERS).map((name) => [name, 'any'])),
    'capture-bucket': 'my-captures',
    'capture-prefix': 'datacapture/garden/',
    endpoint: 'garden',
  };
  /** What its functions have. */
  deployed: Record<string, string> = {};
  /** What the endpoint is after an update, beside what the new configuration says. */
  becomes: (asked: Members) => Members = () => ({});
  /** Errors by operation. */
  refuses: Record<string, Answer> = {};
  /** How often an updating endpoint is asked before it is in service. */
  polls = 0;
  #asked = 0;
  #created: Members = {};

  constructor() {
    const operations: Record<string, (input: Members) => Answer> = {
      DescribeEndpoint: () => [200, this.#described()],
      DescribeEndpointConfig: () => [200, this.config],
      DescribeModel: ({ ModelName }) => [200, { ModelName, ExecutionRoleArn: ROLE }],
      ListTags: ({ ResourceArn }) => [200, { Tags: this.tags[ResourceArn as string] ?? [] }],
      AddTags: () => [200, {}],
      CreateEndpointConfig: (input) => {
        this.#created = input;
        return [200, {}];
      },
      UpdateEndpoint: () => {
        this.endpoint.EndpointStatus = 'Updating';
        this.#asked = 0;
        return [200, {}];
      },
    };
    const answers = Object.entries(operations).map(([name, answer]) => {
      const answered = (message: IncomingMessage, text: string): Answer => {
        const { method = '', url = '', headers } = message;
        logRequest({ method, url, headers, text, length: Buffer.byteLength(text) });
        this.requests.push([name, JSON.parse(text)]);
        return this.refuses[name] ?? answer(JSON.parse(text));
      };
      return [name, answered] as const;
    });
    aws.answers = {
      ...Object.fromEntries(answers),
      GetParametersByPath: () => [200, { Parameters: this.#parameters() }],
      [CONFIGURATION]: () => [200, { Environment: { Variables: this.deployed } }],
    };
  }

  inputOf(operation: string): Members | undefined {
    return this.requests.find(([name]) => name === operation)?.[1];
  }

  #parameters(): Members[] {
    return Object.entries(this.outputs).map(([name, Value]) => ({ Name: `${outputPath('prod')}${name}`, Value }));
  }

  #described(): Members {
    this.#asked += 1;
    if (this.endpoint.EndpointStatus === 'Updating' && this.#asked > this.polls) {
      const capture = this.#created.DataCaptureConfig as Members | undefined;
      const { InitialSamplingPercentage: CurrentSamplingPercentage, DestinationS3Uri, KmsKeyId = '' } = capture ?? {};
      const running = capture && { ...RUNNING, CurrentSamplingPercentage, DestinationS3Uri, KmsKeyId };
      const now = { EndpointStatus: 'InService', EndpointConfigName: this.#created.EndpointConfigName };
      Object.assign(this.endpoint, now, { DataCaptureConfig: running }, this.becomes(this.#created));
    }
    return this.endpoint;
  }
}

const KEY = 'arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555';
const CAPTURE = {
  EnableCapture: true,
  InitialSamplingPercentage: 100,
  DestinationS3Uri: 's3://my-captures/datacapture',
  CaptureOptions: [{ CaptureMode: 'Input' }, { CaptureMode: 'Output' }],
  CaptureContentTypeHeader: { CsvContentTypes: ['text/csv'], JsonContentTypes: ['application/json'] },
};
const RUNNING = {
  ...{ EnableCapture: true, CaptureStatus: 'Started', CurrentSamplingPercentage: 100 },
  ...{ DestinationS3Uri: 's3://my-captures/datacapture', KmsKeyId: '' },
};
const WANTED = 'Started, 100% to s3://my-captures/datacapture';
const CHANGES = ['CreateEndpointConfig', 'AddTags', 'UpdateEndpoint'];

const STATUS = `endpoint: garden
status: InService
configuration: garden-1
place: s3://my-captures/datacapture
serverless: false
node: captureInvocations(client, { bucket: "my-captures", prefix: "datacapture" });
python: capture_invocations(client, bucket="my-captures", prefix="datacapture")

── configured ──
${JSON.stringify(CAPTURE, null, 2)}

── running ──
${JSON.stringify(RUNNING, null, 2)}

── policy ──
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": "s3:PutObject",
      "Resource": "arn:aws:s3:::my-captures/datacapture/garden/*"
    }
  ]
}
`;

let sagemaker: SagemakerEndpoint;
beforeAll(() => aws.start());
afterAll(() => aws.close());
beforeEach(() => {
  sagemaker = new SagemakerEndpoint();
});

const capture = (...args: string[]) => runHere(['capture', ...args], aws.variables({ STACK_PREFIX: 'prod' }));
const changes = () => sagemaker.requests.map(([name]) => name).filter((name) => CHANGES.includes(name));
const isOn = () => {
  sagemaker.config.DataCaptureConfig = CAPTURE;
  sagemaker.endpoint.DataCaptureConfig = RUNNING;
};

test('on copies the configuration, with what runs now, and updates the endpoint', async () => {
  sagemaker.polls = 1;
  sagemaker.deployed = { DATA_CAPTURE_KMS_KEY_ARN: KEY };
  const { stdout, stderr, code } = await capture('on', 'garden', '--sampling', '20', '--yes', '--json');
  expect({ stderr, code }).toMatchObject({ code: 0 });
  expect(expectPublished('capture', stdout)).toEqual({ endpoint: 'garden', switched: 'on', differences: [] });
  expect(changes()).toEqual(CHANGES);
  const { EndpointConfigArn: _, CreationTime: _time, ...copied } = CONFIG;
  const { EndpointConfigName, ...made } = sagemaker.inputOf('CreateEndpointConfig') ?? {};
  expect(made).toEqual({
    ...copied,
    EndpointConfigName: undefined,
    ProductionVariants: [{ ...CONFIG.ProductionVariants[0], InitialInstanceCount: 3, InitialVariantWeight: 0.5 }],
    DataCaptureConfig: { ...CAPTURE, InitialSamplingPercentage: 20, KmsKeyId: KEY },
    Tags: [{ Key: 'team', Value: 'chat' }],
  });
  expect(EndpointConfigName).toMatch(/^garden-capture-on-\d{17}$/);
  const retained = { RetainAllVariantProperties: true, RetainDeploymentConfig: true };
  expect(sagemaker.inputOf('UpdateEndpoint')).toEqual({ EndpointName: 'garden', EndpointConfigName, ...retained });
  expect(sagemaker.inputOf('AddTags')).toMatchObject({
    Tags: [{ Key: 'inference-monitor:former-endpoint-config', Value: 'garden-1' }],
  });
  expect(stderr).toContain('replaces the fleet: AllTraffic 3 × ml.g5.xlarge, weight 0.5.');
  expect(stderr).toContain(ROLE);
  expect(stderr).toContain('"Resource":"arn:aws:s3:::my-captures/datacapture/garden/*"');
  expect(stderr).toContain(`"Action":"kms:GenerateDataKey","Resource":"${KEY}"`);
  expect(stderr).toContain(
    'The way back: aws sagemaker update-endpoint --endpoint-name garden --endpoint-config-name garden-1 ',
  );
  expect(stderr).toContain(`Updating to ${EndpointConfigName} takes minutes. Ctrl-C ends only the wait.`);
  const counts = await awsRequests.counts();
  for (const operation of [...CHANGES, 'ListTags', 'DescribeModel'])
    expect(counts[`sagemaker:${operation}`]).toBe(operation === 'ListTags' ? 2 : 1);
});

test.each([
  ['garden/', 's3://my-captures'],
  ['a/garden/AllTraffic/', 's3://my-captures/a'],
  ['all/endpoints/', 's3://my-captures/all/endpoints'],
])('the stack that watches %s', async (prefix, place) => {
  sagemaker.outputs['capture-prefix'] = prefix;
  const { stdout } = await capture('status', 'garden', '--json');
  expect(expectPublished('capture', stdout)).toMatchObject({ place });
});

test('a stack that watches another endpoint', async () => {
  sagemaker.outputs.endpoint = 'other';
  sagemaker.outputs['capture-prefix'] = 'datacapture/other/';
  const { stderr, code } = await capture('on', 'garden', '--yes');
  expect(stderr).toContain(
    'EndpointNotSwitchable: The stack reads s3://my-captures/datacapture/other/; got: garden; expected: other, or --stack for the stack of garden',
  );
  expect(code).toBe(2);
});

test('off copies the configuration without capture', async () => {
  isOn();
  const { code } = await capture('off', 'garden', '--yes');
  expect(code).toBe(0);
  expect(sagemaker.inputOf('CreateEndpointConfig')).not.toHaveProperty('DataCaptureConfig');
  expect(sagemaker.requests.map(([name]) => name)).not.toContain('GetParametersByPath');
});

test('an endpoint with several variants, scaled to zero or without counts', async () => {
  const [variant] = CONFIG.ProductionVariants;
  const InstancePools = [{ InstanceType: 'ml.g6.xlarge' }];
  const { InitialInstanceCount: _, InstanceType: _type, ...named } = { ...variant, VariantName: 'pooled' };
  const pooled = { ...named, InstancePools };
  sagemaker.config.ProductionVariants = [{ ...variant, InitialInstanceCount: 0 }, pooled];
  sagemaker.endpoint.EndpointName = 'g'.repeat(63);
  sagemaker.endpoint.ProductionVariants = [
    { VariantName: 'pooled', CurrentWeight: 2, CurrentInstanceCount: 5 },
    { VariantName: 'AllTraffic', CurrentWeight: 0, CurrentInstanceCount: 0 },
  ];
  const { stdout, stderr } = await capture('on', 'garden', '--dry-run', '--json');
  expect(stderr).toContain(
    'AllTraffic 1 × ml.g5.xlarge, weight 0, pooled some × [{"InstanceType":"ml.g6.xlarge"}], weight 2',
  );
  const { requests } = expectPublished('capture', stdout) as unknown as {
    requests: { CreateEndpointConfig: typeof CONFIG };
  };
  expect(requests.CreateEndpointConfig.ProductionVariants).toEqual([
    { ...variant, InitialInstanceCount: 1, InitialVariantWeight: 0 },
    { ...pooled, InitialVariantWeight: 2 },
  ]);
  expect(requests.CreateEndpointConfig.EndpointConfigName).toMatch(/^g{34}-capture-on-\d{17}$/);
  expect(changes()).toEqual([]);
});

describe('SageMaker answers otherwise', () => {
  const NEW = 'InService with garden-capture-on-#, Data Capture';
  const running = (more: object) => ({ DataCaptureConfig: { ...RUNNING, ...more } });
  const off = { DataCaptureConfig: undefined };
  const fleet = { ProductionVariants: [{ VariantName: 'AllTraffic', CurrentInstanceCount: 1 }] };
  const FLEETS = 'AllTraffic 1 × instances, weight undefined, not AllTraffic 3 × instances, weight 0.5';
  const rolledBack = { EndpointConfigName: 'garden-1', FailureReason: 'The role cannot write.', ...off };

  test.each<[string, object, string]>([
    ['keeps the capture of before', off, `${NEW} off`],
    ['has not started', running({ CaptureStatus: 'Stopped' }), `${NEW} Stopped, 100% to s3://my-captures/datacapture`],
    ['samples less', running({ CurrentSamplingPercentage: 5 }), `${NEW} Started, 5% to s3://my-captures/datacapture`],
    ['captures elsewhere', running({ DestinationS3Uri: 's3://b/x' }), `${NEW} Started, 100% to s3://b/x`],
    ['rolls back', rolledBack, 'InService with garden-1, Data Capture off'],
    ['fails', { EndpointStatus: 'Failed' }, `Failed with garden-capture-on-#, Data Capture ${WANTED}`],
    ['starts another fleet, and no capture', { ...off, ...fleet }, `${NEW} off; ${FLEETS}`],
  ])('%s', async (_, becomes, got) => {
    sagemaker.becomes = () => becomes as Record<string, unknown>;
    const { stderr, code } = await capture('on', 'garden', '--yes');
    const { FailureReason = 'none' } = becomes as { FailureReason?: string };
    expect(stderr.replaceAll(/\d{17}/g, '#')).toContain(
      `CaptureNotSwitched: The endpoint does not capture as asked for; got: ${got}; FailureReason: ${FailureReason}; expected: ${NEW} ${WANTED}. The way back: aws sagemaker update-endpoint --endpoint-name garden --endpoint-config-name garden-1 --retain-all-variant-properties --retain-deployment-config`,
    );
    expect(code).toBe(2);
  });

  test('with other counts and weights, which are shown', async () => {
    sagemaker.becomes = () => ({
      ProductionVariants: [{ VariantName: 'AllTraffic', CurrentWeight: 1, CurrentInstanceCount: 2 }],
    });
    const { stdout, code } = await capture('on', 'garden', '--yes');
    expect(stdout).toBe(
      'endpoint: garden\nswitched: on\n\n── differences ──\n[\n  "AllTraffic 2 × instances, weight 1, not AllTraffic 3 × instances, weight 0.5"\n]\n',
    );
    expect(code).toBe(0);
  });

  test.each(CHANGES)('and refuses %s', async (operation) => {
    const message = `User: me is not authorized to perform: sagemaker:${operation}`;
    sagemaker.refuses[operation] = [400, { __type: 'ValidationException', message }];
    const { stderr, code } = await capture('on', 'garden', '--yes');
    expect(stderr).toContain(`CaptureRefused: SageMaker refused ${operation}; got: AWS denies access`);
    expect(stderr).toContain('expected: a request that it accepts');
    expect(code).toBe(2);
  });
});

const shadow = { VariantName: 'next', ModelName: 'm', InitialInstanceCount: 1, InstanceType: 'ml.m5.large' };
const stackTag = { Key: 'aws:cloudformation:stack-name', Value: 'my-app' };
describe('nothing changes', () => {
  const [variant] = CONFIG.ProductionVariants;
  const serverless = {
    ...{ VariantName: 'AllTraffic', ModelName: 'm' },
    ServerlessConfig: { MaxConcurrency: 1, MemorySizeInMB: 1024 },
  };
  const slash = { ...CAPTURE, DestinationS3Uri: `${CAPTURE.DestinationS3Uri}/` };
  const noEndpoint = { __type: 'ValidationException', message: 'Could not find endpoint "garden".' };
  type Part = 'endpoint' | 'config' | 'tags' | 'refuses';

  test.each<[string, Part, object, string]>([
    ['while it is updated', 'endpoint', { EndpointStatus: 'SystemUpdating' }, 'got: SystemUpdating'],
    ['when it failed', 'endpoint', { EndpointStatus: 'Failed', FailureReason: 'No image.' }, 'got: Failed (No image.)'],
    ['with shadow variants', 'config', { ShadowProductionVariants: [shadow] }, 'It has shadow variants; got: next'],
    ['with an unknown field', 'config', { NewConfig: {} }, 'got: NewConfig'],
    [
      'with an unknown field of a variant',
      'config',
      { ProductionVariants: [{ ...variant, NewWay: 1 }] },
      'got: NewWay',
    ],
    [
      'of a serverless endpoint',
      'config',
      { ProductionVariants: [serverless] },
      `got: garden; expected: in the application: captureInvocations(client, { bucket: "my-captures", prefix: "datacapture", calls: 'all' });`,
    ],
    [
      'that CloudFormation made',
      'tags',
      { [`${ARN}:endpoint/garden`]: [stackTag] },
      `CloudFormation made the endpoint; got: my-app; expected: its template with DataCaptureConfig: ${JSON.stringify(CAPTURE)}, or --force`,
    ],
    ['that does not exist', 'refuses', { DescribeEndpoint: [400, noEndpoint] }, 'NoSuchEndpoint: There is no such'],
  ])('%s', async (_, part, change, said) => {
    Object.assign(sagemaker[part], change);
    const { stderr, stdout, code } = await capture('on', 'garden', '--yes');
    expect(stderr).toContain(said);
    expect([code, stdout, changes()]).toEqual([2, '', []]);
  });

  test.each([CAPTURE, slash])('that is unchanged (%#: also with a slash behind the place)', async (configured) => {
    isOn();
    sagemaker.config.DataCaptureConfig = configured;
    const { stdout, code } = await capture('on', 'garden', '--yes');
    expect([code, stdout, changes()]).toEqual([0, 'endpoint: garden\nswitched: unchanged\n', []]);
  });

  test('without --yes in a pipe, and with options that have no effect', async () => {
    expect((await capture('on', 'garden')).stderr).toContain(
      'NotConfirmed: Switch Data Capture of garden on?; got: no terminal',
    );
    expect((await capture('off', 'garden', '--sampling', '5')).stderr).toContain('OptionsContradict');
    expect(changes()).toEqual([]);
  });
});

test('--force updates an endpoint of CloudFormation with shadow variants', async () => {
  sagemaker.config.ShadowProductionVariants = [shadow];
  sagemaker.endpoint.ShadowProductionVariants = [{ VariantName: 'next', CurrentInstanceCount: 2 }];
  sagemaker.tags[`${sagemaker.endpoint.EndpointArn}`] = [stackTag];
  const { stderr, code } = await capture('on', 'garden', '--yes', '--force');
  expect({ stderr, code }).toMatchObject({ code: 0 });
  expect(sagemaker.inputOf('CreateEndpointConfig')).toMatchObject({
    ShadowProductionVariants: [{ ...shadow, InitialInstanceCount: 2 }],
  });
});

test('status shows both, the application’s lines and policy', async () => {
  isOn();
  const { stdout } = await capture('status', 'garden');
  expect(stdout).toBe(STATUS);
  sagemaker.endpoint.DataCaptureConfig = { ...RUNNING, DestinationS3Uri: 's3://other/x' };
  sagemaker.config.DataCaptureConfig = { ...CAPTURE, DestinationS3Uri: 's3://other/x' };
  const elsewhere = await capture('status', 'garden', '--json');
  const place = { DestinationS3Uri: 's3://other/x' };
  expect(expectPublished('capture', elsewhere.stdout)).toMatchObject({ configured: place, running: place });
  sagemaker = new SagemakerEndpoint();
  expect((await capture('status', 'garden')).stdout).toContain('configured: none\nrunning: none\n');
});

test('a copy has all members of CreateEndpointConfig in AWS’s model', async () => {
  const { bin } = await lockedEnvironment('aws-checks');
  const { shapes, operations } = new ServiceModels(dirname(bin)).model('sagemaker') as ServiceModel;
  const names = new Set<string>();
  const visit = (name: string, above: readonly string[] = []): void => {
    const { members = {}, member } = shapes[name] ?? {};
    if (above.includes(name)) return;
    for (const [own, { shape }] of Object.entries(members)) {
      names.add(own);
      visit(shape, [...above, name]);
    }
    if (member) visit(member.shape, [...above, name]);
  };
  visit(operations.CreateEndpointConfig?.input?.shape ?? '');
  expect(MEMBERS).toEqual([...names].toSorted());
});
