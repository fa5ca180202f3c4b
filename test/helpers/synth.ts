/** The stack as a template, without bundling the Lambdas. */
import { readFileSync } from 'node:fs';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { resourceNames } from '../../lambda/contract.ts';
import { MonitoringStack } from '../../lib/monitoring-stack.ts';
import { parseSettings } from '../../lib/settings.ts';

export const REQUIRED_SETTINGS = {
  STACK_PREFIX: 'test',
  MLFLOW_TRACKING_URI: 'http://mlflow.internal:5000',
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: 'captures',
};

/** An app whose context is the project's own, plus what keeps esbuild out of template tests. */
export function testApp(): App {
  const { context } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { context: Record<string, unknown> };
  return new App({ context: { ...context, 'aws:cdk:bundling-stacks': [] } });
}

export function testStack(more: Record<string, string> = {}, app = testApp()): MonitoringStack {
  const settings = parseSettings({ ...REQUIRED_SETTINGS, ...more });
  const env = { account: '123456789012', region: 'eu-west-1' };
  return new MonitoringStack(app, resourceNames(settings.STACK_PREFIX).stack, { settings, env });
}

export const templateOf = (more: Record<string, string> = {}): Template => Template.fromStack(testStack(more));

export interface Resource {
  Type: string;
  Properties: Record<string, unknown>;
  DeletionPolicy?: string;
}

/** The state machine's definition as ASL: references of the template put in as their logical ids. */
export function definitionOf(template: Template): Record<string, unknown> {
  const machines = template.findResources('AWS::StepFunctions::StateMachine');
  const properties = Object.values(machines)[0]?.Properties as { DefinitionString: unknown };
  return JSON.parse(flatten(properties.DefinitionString)) as Record<string, unknown>;
}

/** An intrinsic function as a text in which every reference is the logical id that it names. */
export function flatten(value: unknown): string {
  if (typeof value === 'string') return value;
  const [[name, argument] = []] = Object.entries(value as Record<string, unknown>);
  if (name === 'Fn::Join') {
    const [separator, parts] = argument as [string, unknown[]];
    return parts.map(flatten).join(separator);
  }
  if (name === 'Ref') return String(argument);
  if (name === 'Fn::GetAtt') return `arn:aws:of:${(argument as string[])[0]}`;
  throw new Error(`No flat form of ${JSON.stringify(value)}`);
}
