/** Synthesizes the stack as a template, without bundling the Lambdas, and reads templates. */
import { readFileSync } from 'node:fs';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { MonitoringStack } from '../../lib/monitoring-stack.ts';
import { parseSettings } from '../../lib/settings/settings.ts';
import { resourceNames } from '../../src/core/contract/names.ts';

export const REQUIRED_SETTINGS = {
  STACK_PREFIX: 'test',
  MLFLOW_TRACKING_URI: 'http://mlflow.internal:5000',
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: 'captures',
};

/** The settings that have files forwarded to Arthur. */
export const ARTHUR = {
  ARTHUR_HOST: 'https://app.arthur.ai',
  ARTHUR_MODEL_ID: 'some-model',
  ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
};

export const ACCOUNT = '123456789012';
export const REGION = 'eu-west-1';

/** An app with the project's context, without bundling unless requested. */
export function testApp(props: { outdir?: string; bundle?: boolean } = {}): App {
  const { context } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { context: Record<string, unknown> };
  const { bundle = false, ...appProps } = props;
  return new App({ ...appProps, context: { ...context, ...(bundle ? {} : { 'aws:cdk:bundling-stacks': [] }) } });
}

/** @param region of the stack, which the settings then know as with the CDK's command line */
export function testStack(more: Record<string, string> = {}, app = testApp(), region?: string): MonitoringStack {
  const settings = parseSettings({ ...REQUIRED_SETTINGS, ...more, CDK_DEFAULT_REGION: region });
  const env = { account: ACCOUNT, region: region ?? REGION };
  return new MonitoringStack(app, resourceNames(settings.STACK_PREFIX).stack, { settings, env });
}

/** Templates by their settings, as JSON: a synth takes a quarter of a second, and most tests of a file look at the same one. */
const templates = new Map<string, string>();

/** The template of these settings, which the test may change. */
export function templateOf(more: Record<string, string> = {}, region?: string): Template {
  const key = JSON.stringify([more, region]);
  const known = templates.get(key);
  if (known !== undefined) return Template.fromJSON(JSON.parse(known) as object);
  const template = Template.fromStack(testStack(more, testApp(), region));
  templates.set(key, JSON.stringify(template.toJSON()));
  return template;
}

export interface Resource {
  Type: string;
  Properties: Record<string, unknown>;
  DeletionPolicy?: string;
  UpdateReplacePolicy?: string;
  DependsOn?: string[];
}

export const resourcesOf = (template: Template): Record<string, Resource> =>
  template.toJSON().Resources as Record<string, Resource>;

/** The resources of a type by logical id, without its hash. */
export function resourcesOfType(template: Template, type: string): Record<string, Resource> {
  const all = Object.entries(resourcesOf(template)).filter(([, { Type }]) => Type === type);
  return Object.fromEntries(all.map(([id, resource]) => [withoutHash(id), resource]));
}

/** The only resource of a type. */
export function onlyResource(template: Template, type: string): Resource {
  const all = Object.values(resourcesOfType(template, type));
  if (all.length !== 1 || all[0] === undefined)
    throw new Error(`Expected one resource of type ${type}; got ${all.length}`);
  return all[0];
}

/** Removes the hash of the construct's path with which the CDK ends logical ids. */
const withoutHash = (id: string): string => id.replace(/[0-9A-F]{8}$/, '');

/** What every task retries first: a function that nobody has called for weeks is not ready at once. */
export const NOT_READY = {
  ErrorEquals: [
    'Lambda.ResourceNotReadyException',
    'Lambda.ENINotReadyException',
    'Lambda.ENILimitReachedException',
    'Lambda.EC2ThrottledException',
    'Lambda.ResourceConflictException',
    'Lambda.CodeArtifactUserPendingException',
  ],
  IntervalSeconds: 10,
  BackoffRate: 1.5,
  MaxAttempts: 10,
};

export const MONITORING = 'MonitoringStateMachine';
export const REPLAY = 'ReplayMachineStateMachine';
export const GROUND_TRUTH = 'GroundTruthMachineStateMachine';

/** Returns a state machine by its logical id without the hash. */
export function stateMachineOf(template: Template, id: string): Resource {
  const machine = resourcesOfType(template, 'AWS::StepFunctions::StateMachine')[id];
  if (machine === undefined) throw new Error(`No state machine ${id}`);
  return machine;
}

/** The definition of a state machine as ASL, with references replaced by possible deployed values. */
export function definitionOf(template: Template, id = MONITORING): Record<string, unknown> {
  const { DefinitionString: text } = stateMachineOf(template, id).Properties;
  const lambdaArn = (id: string): string => `arn:aws:lambda:${REGION}:${ACCOUNT}:function:${id}`;
  return JSON.parse(flatten(text, lambdaArn)) as Record<string, unknown>;
}

/**
 * Turns an intrinsic function into a text, with references as `<logical id>` or `<logical id.attribute>`, without hashes.
 *
 * @param arnOf writes the ARN of a resource
 */
export function flatten(value: unknown, arnOf: (id: string) => string = (id) => `<${id}.Arn>`): string {
  if (typeof value === 'string') return value;
  const [[name, argument] = []] = Object.entries(value as Record<string, unknown>);
  if (name === 'Fn::Join') {
    const [separator, parts] = argument as [string, unknown[]];
    return parts.map((part) => flatten(part, arnOf)).join(separator);
  }
  if (name === 'Ref')
    return argument === 'AWS::Partition'
      ? 'aws'
      : argument === 'AWS::URLSuffix'
        ? 'amazonaws.com'
        : `<${withoutHash(String(argument))}>`;
  if (name === 'Fn::GetAtt') {
    const [id = '', attribute = ''] = argument as string[];
    return attribute === 'Arn' ? arnOf(withoutHash(id)) : `<${withoutHash(id)}.${attribute}>`;
  }
  throw new Error(`Unknown intrinsic function: ${JSON.stringify(value)}`);
}

/** Flattens all intrinsic functions in a part of a template. */
export function flattened(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(flattened);
  if (typeof value !== 'object' || value === null) return value;
  const names = Object.keys(value);
  if (names.length === 1 && /^(Ref|Fn::.*)$/.test(names[0] ?? '')) return flatten(value);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, flattened(part)]));
}

/** A statement of a policy: actions, resources and an optional condition. */
export type Line = [actions: string[], resources: string[], condition?: unknown];

interface Statement {
  Effect: string;
  Action: string | string[];
  Resource: unknown;
  Condition?: unknown;
}

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);

/** The statements of all inline policies that allow something, by role (its logical id without the hash). */
export const policiesOf = (template: Template): Record<string, Line[]> => statementsOf(template, 'Allow');

/** Those that deny something. */
export const denialsOf = (template: Template): Record<string, Line[]> => statementsOf(template, 'Deny');

function statementsOf(template: Template, wanted: 'Allow' | 'Deny'): Record<string, Line[]> {
  const found: Record<string, Line[]> = {};
  for (const { Properties } of Object.values(resourcesOfType(template, 'AWS::IAM::Policy'))) {
    const { PolicyDocument, Roles } = flattened(Properties) as {
      PolicyDocument: { Statement: Statement[] };
      Roles: string[];
    };
    for (const role of Roles) {
      const statements = PolicyDocument.Statement.filter(({ Effect }) => Effect === wanted);
      if (statements.length === 0) continue;
      found[role.slice(1, -1)] ??= [];
      found[role.slice(1, -1)]?.push(
        ...statements.map(({ Action, Resource, Condition }): Line => {
          const actions = list(Action) as string[];
          const resources = list(Resource) as string[];
          return Condition === undefined ? [actions, resources] : [actions, resources, Condition];
        }),
      );
    }
  }
  return found;
}
