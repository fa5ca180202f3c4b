/** A stand-in for SageMaker's API with one endpoint, which an update changes as a test says. Its requests are held against AWS's models. */
import type { IncomingMessage } from 'node:http';
import { OUTPUT_PARAMETERS, outputPath } from '../../src/core/contract/names.ts';
import { type Answer, AwsAnswers } from '../helpers/aws-answers.ts';
import { logRequest } from './request-log.ts';

type Members = Record<string, unknown>;

const ARN = 'arn:aws:sagemaker:us-east-1:123456789012';
export const ROLE = 'arn:aws:iam::123456789012:role/model';
const CONFIGURATION = 'GET /2015-03-31/functions/any/configuration';
const SUMMARY = {
  VariantName: 'AllTraffic',
  CurrentWeight: 0.5,
  DesiredWeight: 0.5,
  CurrentInstanceCount: 3,
  DesiredInstanceCount: 3,
};

/** A configuration as DescribeEndpointConfig tells it. */
export const CONFIG = {
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

export class SagemakerEndpoint {
  readonly aws = new AwsAnswers();
  /** The inputs so far, by operation. */
  requests: [operation: string, input: Members][] = [];
  endpoint: Members = {};
  config: Members = {};
  tags: Record<string, { Key: string; Value: string }[]> = {};
  /** Of the stack `prod`. */
  outputs: Record<string, string> = {};
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

  reset(): void {
    this.requests = [];
    this.refuses = {};
    this.polls = 0;
    this.deployed = {};
    this.becomes = () => ({});
    this.config = structuredClone(CONFIG);
    this.endpoint = {
      EndpointName: 'garden',
      EndpointArn: `${ARN}:endpoint/garden`,
      EndpointConfigName: 'garden-1',
      EndpointStatus: 'InService',
      ProductionVariants: [SUMMARY],
    };
    this.tags = {
      [`${ARN}:endpoint-config/garden-1`]: [
        { Key: 'team', Value: 'chat' },
        { Key: 'aws:cloudformation:x', Value: 'y' },
      ],
    };
    this.outputs = {
      ...Object.fromEntries(Object.values(OUTPUT_PARAMETERS).map((name) => [name, 'any'])),
      'capture-bucket': 'my-captures',
      'capture-prefix': 'datacapture/garden/',
      endpoint: 'garden',
    };
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
    this.aws.answers = {
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
      const running = capture && {
        EnableCapture: true,
        CaptureStatus: 'Started',
        CurrentSamplingPercentage: capture.InitialSamplingPercentage,
        DestinationS3Uri: capture.DestinationS3Uri,
        KmsKeyId: capture.KmsKeyId ?? '',
      };
      const now = { EndpointStatus: 'InService', EndpointConfigName: this.#created.EndpointConfigName };
      Object.assign(this.endpoint, now, { DataCaptureConfig: running }, this.becomes(this.#created));
    }
    return this.endpoint;
  }
}
