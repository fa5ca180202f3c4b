/**
 * The role of each function allows exactly the actions of the AWS calls in its bundle. Actions, resources and condition keys are
 * those of AWS's service reference. On which resources they are allowed is recorded (recorded.test.ts), and the integration test
 * with enforced policies checks that they are sufficient.
 */
import type { Template } from 'aws-cdk-lib/assertions';
import { namedOperations } from '../aws-requests/product-operations.ts';
import {
  AUTHORIZED_AS,
  accepts,
  actionOf,
  faultsOfLine,
  type Reference,
  readReference,
  UNLISTED,
} from '../helpers/iam-reference.ts';
import { ALL_FOLDERS, FOLDERS, linesOf } from '../helpers/iam-roles.ts';
import { type Bundle, bundlesOf } from '../helpers/sdk-calls.ts';
import { settingsVariants } from '../helpers/settings-variants.ts';
import { denialsOf, flattened, type Line, REGION, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

/** Calls by the project's own HTTP clients: a text that a bundle with such a client contains, its actions, and who never makes them. */
const OWN_CALLS: [mark: string, actions: string[], never?: string][] = [
  ['x-sm-mlflow-app-arn', ['sagemaker:CallMlflowAppApi', 'sagemaker-mlflow:*']],
  ['/invocations${', ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'], 'plan-replay'],
  ['MessageStructure', ['sns:Publish']],
  ['"ChangeMessageVisibility"', ['sqs:ChangeMessageVisibility']],
  ['"SendMessage"', ['sqs:SendMessage']],
  [
    'Invocation5XXErrors',
    ['cloudwatch:DescribeAlarms', 'cloudwatch:GetMetricData', 'dynamodb:GetItem', 'sagemaker:DescribeEndpoint'],
  ],
];

/** Operations of the SDK's helper for uploads that the product does not reach: it neither tags objects nor creates buckets. */
const UNREACHED = ['s3:HeadBucket', 's3:PutObjectTagging'];

/** What IAM may check besides an action: of a bucket with versions, a judge with a guardrail, a job with a role of its own. */
const BESIDES: Record<string, string> = {
  's3:GetObject': 's3:GetObjectVersion',
  'bedrock:InvokeModel': 'bedrock:ApplyGuardrail',
  'bedrock:CreateModelInvocationJob': 'iam:PassRole',
};

/** What Lambda does with a function's role: it writes logs, polls queues, connects to a VPC, and services use a person's keys. */
const OF_LAMBDA = /^(?:logs|ec2|kms):|^sqs:(?:ReceiveMessage|DeleteMessage|GetQueueAttributes)$/;

interface Variant {
  name: string;
  template: Template;
  lines: Record<string, Line[]>;
}

let reference: Reference;
let bundles: Record<string, Bundle>;
let variants: Variant[];
beforeAll(async () => {
  reference = await readReference();
  bundles = await bundlesOf(Object.values(ALL_FOLDERS));
  variants = Object.entries(settingsVariants({ region: REGION, partition: 'aws' })).map(([name, settings]) => {
    const template = templateOf(settings, REGION);
    return { name, template, lines: linesOf(template) };
  });
});

it('covers all functions', () => {
  const functions = Object.keys(resourcesOfType((variants[0] as Variant).template, 'AWS::Lambda::Function'));
  const ours = functions.filter((id) => id !== 'CapturesNotificationsFunction');
  expect(ours).toEqual(Object.keys(FOLDERS).map((step) => `${step}Function`));
});

it('knows in which test each call of each bundle is held against AWS’s models', () => {
  const calls = Object.values(bundles).flatMap((bundle) => bundle.calls.filter((call) => !UNREACHED.includes(call)));
  const names = new Set(calls.map((call) => call.split(':')[1] ?? ''));
  // The replay's own HTTP client makes this one, and signed posts the others.
  for (const name of ['InvokeEndpointWithResponseStream', 'SendMessage', 'ChangeMessageVisibility']) names.add(name);
  expect(new Set(namedOperations())).toEqual(names);
});

it.each(Object.entries(ALL_FOLDERS))(
  'allows %s what its bundle calls with some settings, and nothing else',
  (step, folder) => {
    const { calls, text } = bundles[folder] as Bundle;
    const own = OWN_CALLS.filter(([mark, , never]) => text.includes(mark) && never !== folder).flatMap(
      ([, actions]) => actions,
    );
    const sdk = calls.filter((call) => !UNREACHED.includes(call)).map((call) => actionOf(reference, call) ?? call);
    const allowed = variants
      .flatMap(({ lines }) => lines[`${step}Role`] ?? [])
      .flatMap(([actions]) => actions)
      .filter((action) => !OF_LAMBDA.test(action));
    const needed = [...own, ...sdk];
    // Lambda puts what a function could not do into its queue.
    const besides = [...needed.map((action) => BESIDES[action]), step === 'ReplayStop' && 'sqs:SendMessage'];
    expect(needed.filter((action) => !allowed.includes(action))).toEqual([]);
    expect(allowed.filter((action) => ![...needed, ...besides].includes(action))).toEqual([]);
  },
);

it('has only actions, resources and condition keys of the service reference, in roles and in policies of resources', () => {
  const ofRoles = variants.flatMap(({ name, lines }) =>
    Object.entries(lines).flatMap(([role, all]) => all.map((line) => ({ label: `${role}, ${name}`, line }))),
  );
  const denied = variants.flatMap(({ name, template }) =>
    Object.values(denialsOf(template)).flatMap((lines) => lines.map((line) => ({ label: name, line }))),
  );
  const ofResources = variants.flatMap(({ name, template }) =>
    resourceLines(template).map((line) => ({ label: name, line })),
  );
  expect(ofResources.length).toBeGreaterThan(5 * variants.length);
  const faults = [...ofRoles, ...denied, ...ofResources].flatMap(({ label, line }) =>
    faultsOfLine(reference, line).map((fault) => `${label}: ${fault}`),
  );
  expect(faults).toEqual([]);
});

/** The statements of the policies of buckets, queues, topics and roles; those of the last have no resource. */
function resourceLines(template: Template): Line[] {
  return Object.values(resourcesOf(template)).flatMap(({ Type, Properties }) => {
    if (Type === 'AWS::IAM::Policy') return [];
    const document = (Properties?.PolicyDocument ?? Properties?.AssumeRolePolicyDocument) as
      | { Statement: object[] }
      | undefined;
    return (document?.Statement ?? []).map((statement): Line => {
      const { Action, Condition } = flattened(statement) as { Action: string; Condition?: object };
      return [[Action].flat(), [], Condition];
    });
  });
}

describe('the tables here', () => {
  it('say nothing that the reference says itself', () => {
    const named = Object.keys(AUTHORIZED_AS).filter(
      (call) => accepts(reference, call, '*') || faultsOfLine(reference, [[call], []]).length === 0,
    );
    expect(named).toEqual([]);
    const actions = Object.values(AUTHORIZED_AS).filter((action) => faultsOfLine(reference, [[action], []]).length > 0);
    expect(actions).toEqual([]);
  });

  it('say nothing that no bundle and no statement needs', () => {
    const calls = Object.values(bundles).flatMap((bundle) => bundle.calls);
    expect(UNREACHED.filter((call) => !calls.includes(call))).toEqual([]);
    const all = variants.flatMap(({ lines }) => Object.values(lines).flat());
    const needed = UNLISTED.filter((entry) => {
      const others = UNLISTED.filter((other) => other !== entry);
      return all.some((line) => faultsOfLine(reference, line, others).length > 0);
    });
    expect(needed).toEqual(UNLISTED);
  });
});
