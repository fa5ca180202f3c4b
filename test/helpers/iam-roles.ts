/** The statements of a template's roles, and the functions that act with them. */
import type { Template } from 'aws-cdk-lib/assertions';
import { ACCOUNT, type Line, policiesOf, REGION, resourcesOfType } from './synth.ts';

/** The construct of each function, and its folder under `lambda/`. */
export const FOLDERS: Record<string, string> = {
  StartRuns: 'start-runs',
  PlanCaptures: 'plan-captures',
  LogTraces: 'log-traces',
  EvaluateTraces: 'evaluate-traces',
  JudgeBatch: 'judge-batch',
  SummarizeRun: 'summarize-run',
  ReplayPlan: 'plan-replay',
  ReplayShard: 'replay-shard',
  ReplaySummary: 'summarize-replay',
  GroundTruthJoinLabels: 'ground-truth',
};

/** With those that exist only with some settings. */
export const ALL_FOLDERS: Record<string, string> = {
  ...FOLDERS,
  ForwardForwarder: 'forward-captures',
  GroundTruthStartRuns: 'start-runs',
};

const at = (service: string, resource: string): string => `arn:aws:${service}:${REGION}:${ACCOUNT}:${resource}`;

/** The ARN of a resource by its type and its logical id. */
const ARNS: Record<string, (id: string) => string> = {
  'AWS::DynamoDB::GlobalTable': (id) => at('dynamodb', `table/${id}`),
  'AWS::Events::Rule': (id) => at('events', `rule/${id}`),
  'AWS::IAM::Role': (id) => `arn:aws:iam::${ACCOUNT}:role/${id}`,
  'AWS::Lambda::Function': (id) => at('lambda', `function:${id}`),
  'AWS::Logs::LogGroup': (id) => at('logs', `log-group:${id}:*`),
  'AWS::S3::Bucket': () => 'arn:aws:s3:::workbucket',
  'AWS::SQS::Queue': (id) => at('sqs', id),
};

/** The statements of all roles with ARNs in place of references, by role (its logical id without the hash). */
export function linesOf(template: Template): Record<string, Line[]> {
  let text = JSON.stringify(policiesOf(template));
  for (const [type, arnOf] of Object.entries(ARNS)) {
    for (const id of Object.keys(resourcesOfType(template, type))) text = text.replaceAll(`<${id}.Arn>`, arnOf(id));
  }
  for (const id of Object.keys(resourcesOfType(template, 'AWS::StepFunctions::StateMachine'))) {
    text = text.replaceAll(`<${id}>`, at('states', `stateMachine:${id}`));
  }
  return JSON.parse(text.replaceAll('<AlarmsTopic>', at('sns', 'AlarmsTopic'))) as Record<string, Line[]>;
}
