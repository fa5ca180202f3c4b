/**
 * What each role of a template has to be allowed, by the resources that act with it: functions, state machines and their
 * states, rules, the custom resource. And what its policies lack or allow without need.
 */
import type { Template } from 'aws-cdk-lib/assertions';
import {
  at,
  MACHINE,
  type Need,
  needsOfBatchJobs,
  needsOfCall,
  needsOfFunction,
  needsOfKey,
  TRUTH_MACHINE,
  WORK,
} from './iam-needs.ts';
import { overlap, type Reference } from './iam-reference.ts';
import { ACCOUNT, definitionOf, flattened, type Line, policiesOf, resourcesOfType } from './synth.ts';

interface State {
  Type: string;
  Resource?: string;
  Iterator?: { States: Record<string, State> };
  ItemProcessor?: { ProcessorConfig?: { Mode: string }; States: Record<string, State> };
  ItemReader?: { Parameters: { 'Key.$'?: string } };
  ResultWriter?: { Parameters: { 'Prefix.$'?: string } };
  Label?: string;
}

/** The parts of the work bucket that a Map reads, by the path of the key in its input. */
const READS: Record<string, Record<string, string>> = {
  Monitoring: {
    '$.plan.manifest.key': 'runs/some-run/manifest/1.jsonl',
    '$.batch.manifest.key': 'batch/some-run/state/manifest.jsonl',
  },
  ReplayMachine: { '$.plan.manifest.key': 'replays/some-run/manifest.jsonl' },
};

/**
 * The needs of a state: https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html for a Map, which
 * starts its children as executions of the machine itself.
 */
function needsOfState(machine: string, name: string, state: State): Need[] {
  const by = `state ${name}`;
  const need = (action: string, arn: string): Need => ({ action, arn, context: {}, by });
  if (state.Type === 'Task') return [need('lambda:InvokeFunction', state.Resource ?? '')];
  if (state.ItemProcessor?.ProcessorConfig?.Mode !== 'DISTRIBUTED') return [];
  const key = READS[machine]?.[state.ItemReader?.Parameters['Key.$'] ?? ''] ?? 'unknown';
  const [, prefix = 'unknown'] =
    /States\.Format\('([^']+)'/.exec(state.ResultWriter?.Parameters['Prefix.$'] ?? '') ?? [];
  const result = `${WORK}/${prefix.replace('{}', 'some-run')}/0.json`;
  const deployed = machine === 'Monitoring' ? MACHINE : 'sagemaker-data-capture-replay-test';
  const children = at('states', `execution:${deployed}/${state.Label}:child`);
  return [
    need('s3:GetObject', `${WORK}/${key}`),
    ...['PutObject', 'GetObject', 'ListMultipartUploadParts', 'AbortMultipartUpload'].map((each) =>
      need(`s3:${each}`, result),
    ),
    need('states:StartExecution', at('states', `stateMachine:${deployed}`)),
    ...['DescribeExecution', 'StopExecution'].flatMap((each) => [
      need(`states:${each}`, at('states', `execution:${deployed}:some-run`)),
      need(`states:${each}`, children),
    ]),
    need('states:RedriveExecution', children),
    ...Object.entries(state.ItemProcessor.States).flatMap(([child, each]) => needsOfState(machine, child, each)),
  ];
}

/** The actions that a state machine needs to deliver its logs: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html */
const LOG_DELIVERY = [
  ...['CreateLogDelivery', 'GetLogDelivery', 'UpdateLogDelivery', 'DeleteLogDelivery', 'ListLogDeliveries'],
  ...['PutResourcePolicy', 'DescribeResourcePolicies', 'DescribeLogGroups'],
].map((name) => `logs:${name}`);

/** What Lambda needs of the role of a function in a VPC. Source: AWS's managed policy AWSLambdaVPCAccessExecutionRole. */
const NETWORK_INTERFACES = [
  ...['CreateNetworkInterface', 'DescribeNetworkInterfaces', 'DescribeSubnets', 'DeleteNetworkInterface'],
  ...['AssignPrivateIpAddresses', 'UnassignPrivateIpAddresses'],
].map((name) => `ec2:${name}`);

/** The ARN of a resource by its type and its logical id. */
const ARNS: Record<string, (id: string) => string> = {
  'AWS::DynamoDB::GlobalTable': (id) => at('dynamodb', `table/${id}`),
  'AWS::Events::Rule': (id) => at('events', `rule/${id}`),
  'AWS::IAM::Role': (id) => `arn:aws:iam::${ACCOUNT}:role/${id}`,
  'AWS::Lambda::Function': (id) => at('lambda', `function:${id}`),
  'AWS::Logs::LogGroup': (id) => at('logs', `log-group:${id}:*`),
  'AWS::S3::Bucket': () => WORK,
  'AWS::SQS::Queue': (id) => at('sqs', id),
};

const MACHINES: Record<string, string> = {
  Monitoring: MACHINE,
  ReplayMachine: 'sagemaker-data-capture-replay-test',
  GroundTruthMachine: TRUTH_MACHINE,
};

/** Replaces references to resources by their ARNs. */
function withArns<T>(template: Template, value: T): T {
  let text = JSON.stringify(value);
  for (const [type, arnOf] of Object.entries(ARNS)) {
    for (const id of Object.keys(resourcesOfType(template, type))) text = text.replaceAll(`<${id}.Arn>`, arnOf(id));
  }
  for (const [machine, name] of Object.entries(MACHINES)) {
    text = text.replaceAll(`<${machine}StateMachine>`, at('states', `stateMachine:${name}`));
  }
  return JSON.parse(text.replaceAll('<AlarmsTopic>', at('sns', 'AlarmsTopic'))) as T;
}

/** The statements of all roles with ARNs in place of references, by role (its logical id without the hash). */
export const linesOf = (template: Template): Record<string, Line[]> => withArns(template, policiesOf(template));

interface Acting {
  Role?: string;
  RoleArn?: string;
  LoggingConfig?: { LogGroup: string };
  Code?: { ZipFile?: string };
  VpcConfig?: object;
  FunctionName?: string;
  EventSourceArn?: string;
  DestinationConfig?: { OnFailure?: { Destination: string } };
  LoggingConfiguration?: object;
  Targets?: { Arn: string; RoleArn?: string }[];
}

const roleIn = (arn = ''): string => arn.slice(arn.lastIndexOf('/') + 1);

/** The needs of all roles of a template, by role. */
export function needsOf(
  reference: Reference,
  template: Template,
  settings: Record<string, string>,
): Record<string, Need[]> {
  const needs: Record<string, Need[]> = { BatchServiceRole: needsOfBatchJobs(reference, settings) };
  const add = (role: string, by: string, actions: string[], arn: string): void => {
    needs[role] ??= [];
    needs[role]?.push(...actions.map((action) => ({ action, arn, context: {}, by })));
  };
  const resources = (type: string): [string, Acting][] =>
    Object.entries(resourcesOfType(template, type)).map(([id, { Properties }]) => {
      const { DefinitionString: _, ...rest } = Properties;
      return [id, withArns(template, flattened(rest)) as Acting];
    });
  for (const [id, { Role, LoggingConfig, Code, VpcConfig }] of resources('AWS::Lambda::Function')) {
    const role = roleIn(Role);
    const logs = LoggingConfig?.LogGroup.replace(/[<>]/g, '');
    if (VpcConfig !== undefined) add(role, id, NETWORK_INTERFACES, '*');
    add(role, id, ['logs:CreateLogStream', 'logs:PutLogEvents'], at('logs', `log-group:${logs}:log-stream:some`));
    if (Code?.ZipFile === undefined)
      needs[role]?.push(...needsOfFunction(reference, id.replace(/Function$/, ''), settings));
    else needs[role]?.push(...needsOfScript(reference, Code.ZipFile, settings));
  }
  for (const [id, { FunctionName, DestinationConfig }] of resources('AWS::Lambda::EventInvokeConfig')) {
    const queue = DestinationConfig?.OnFailure?.Destination;
    const step = FunctionName?.replace(/^<|Function>$/g, '');
    if (queue === undefined) continue;
    add(`${step}Role`, id, ['sqs:SendMessage'], queue);
    needs[`${step}Role`]?.push(...needsOfKey('sqs:SendMessage', settings.WORK_KMS_KEY_ARN));
  }
  // https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
  const POLLING = ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'];
  for (const [id, { FunctionName, EventSourceArn }] of resources('AWS::Lambda::EventSourceMapping')) {
    const step = FunctionName?.replace(/^<|Function>$/g, '');
    add(`${step}Role`, id, POLLING, EventSourceArn ?? '');
    needs[`${step}Role`]?.push(...needsOfKey('sqs:ReceiveMessage', settings.WORK_KMS_KEY_ARN));
  }
  for (const [id, { RoleArn, LoggingConfiguration }] of resources('AWS::StepFunctions::StateMachine')) {
    const role = roleIn(RoleArn);
    if (LoggingConfiguration !== undefined) add(role, id, LOG_DELIVERY, '*');
    const { States } = definitionOf(template, id) as unknown as { States: Record<string, State> };
    const machine = id.replace(/StateMachine$/, '');
    needs[role]?.push(...Object.entries(States).flatMap(([name, state]) => needsOfState(machine, name, state)));
    // The Maps read their manifest, and write their results by multipart upload.
    if (!Object.values(States).some(({ ItemProcessor }) => ItemProcessor)) continue;
    needs[role]?.push(
      ...['s3:GetObject', 's3:UploadPart'].flatMap((each) => needsOfKey(each, settings.WORK_KMS_KEY_ARN)),
    );
  }
  for (const [id, { Targets = [] }] of resources('AWS::Events::Rule')) {
    for (const { Arn, RoleArn } of Targets) if (RoleArn) add(roleIn(RoleArn), id, ['states:StartExecution'], Arn);
  }
  return needs;
}

/** The needs of the custom resource's Python program, which concerns the buckets of captures and labels. */
function needsOfScript(reference: Reference, script: string, settings: Record<string, string>): Need[] {
  const operations = [...script.matchAll(/\bs3\.(\w+)\(/g)].map(([, name = '']) =>
    name.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase()),
  );
  const names = ['captures', ...(settings.GROUND_TRUTH_S3_PREFIX ? ['labels'] : [])];
  const buckets = { arns: names.map((name) => `arn:aws:s3:::${name}`) };
  return [...new Set(operations)].flatMap((name) => needsOfCall(reference, `s3:${name}`, buckets));
}

/**
 * Whether a resource of a statement covers an ARN. AWS's own policies for global profiles name the model with any region and
 * without a region, and no document says that `*` matches an empty one, so it does not here.
 */
function covers(resource: string, arn: string): boolean {
  const [region, other] = [resource, arn].map((text) => text.split(':')[3]);
  return resource === arn || (overlap(resource, arn) && (region === '') === (other === ''));
}

/** Whether a statement allows a request. */
function allows([actions, resources, condition = {}]: Line, { action, arn, context }: Need): boolean {
  if (!actions.includes(action) || !resources.some((resource) => covers(resource, arn))) return false;
  return Object.entries(condition as Record<string, Record<string, string | string[]>>).every(([operator, test]) =>
    Object.entries(test).every(([key, values]) =>
      [values].flat().some((value) => {
        const given = context[key];
        if (given === undefined) return false;
        return operator === 'StringEquals' ? value === given : overlap(value, given);
      }),
    ),
  );
}

/** What a role's statements lack for its needs, and what they allow that nothing needs. */
export function faultsOfRole(lines: Line[], needs: Need[]): string[] {
  const missing = needs.filter((need) => !lines.some((line) => allows(line, need)));
  const idle = lines.flatMap(([actions, resources, condition]) =>
    actions.flatMap((action) =>
      resources
        .filter((resource) => !needs.some((need) => allows([[action], [resource], condition], need)))
        .map((resource) => `nothing needs ${action} on ${resource}`),
    ),
  );
  return [...missing.map(({ by, action, arn }) => `${by} needs ${action} on ${arn}`), ...idle];
}
