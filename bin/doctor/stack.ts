/**
 * Checks the deployed stack: its state, settings of `.env` that are not deployed, stopped parts, alarms and dead
 * letters.
 */

import { DescribeStackResourcesCommand, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { GetFunctionConfigurationCommand, ListEventSourceMappingsCommand } from '@aws-sdk/client-lambda';
import { functionEnvironment, replayEnvironment } from '../../lib/settings/function-environment.ts';
import { SETTING_NAMES } from '../../lib/settings/settings.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { ringingAlarms } from '../../src/core/aws/cloudwatch.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { keptText } from '../../src/core/contract/kept.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { unpacked } from '../../src/core/settings/packed.ts';
import { redactRules } from '../../src/core/settings/redact-setting.ts';
import { burstsIn } from '../../src/quality/bursts.ts';
import { cellsOf, readWindow, sumOfCells } from '../../src/quality/counts-store.ts';
import { twoSources } from '../../src/quality/two-sources.ts';
import { commandText } from '../cli/run-text.ts';
import { functionVariables, orMissing } from '../operate/aws-calls.ts';
import {
  broken,
  type Check,
  type CheckContext,
  checkAll,
  type DeployedState,
  type Found,
  ok,
  under,
  warning,
} from './finding.ts';

type Clients = Pick<CheckContext, 'cloudFormation' | 'lambda'>;

/** A stack whose functions exist. */
interface StackContext extends CheckContext {
  /** Its STACK_PREFIX. */
  prefix: string;
}

const WEEK_MS = 7 * 86_400_000;

/** Checks of the deployed resources. */
const DEPLOYED: readonly Check<StackContext>[] = [
  ['deployed', 'lambda:GetFunctionConfiguration', checkDeployed],
  ['delivery', 'events:DescribeRule and lambda:ListEventSourceMappings', checkDelivery],
  ['alarms', 'cloudwatch:DescribeAlarms', checkAlarms],
  ['data', 'lambda:GetFunctionConfiguration, and s3:ListBucket and s3:GetObject on the work bucket', checkData],
];

export async function checkStack(context: CheckContext, prefix: string): Promise<Found> {
  const found = await context.stack();
  if (found === undefined) {
    const message = `No stack with STACK_PREFIX=${prefix} is deployed in ${context.region}.`;
    return (context.isNamed ? broken : warning)(message, 'deploy it: inference-monitor deploy');
  }
  return [stateFinding(found), isInUse(found) && (await checkAll(DEPLOYED, { ...context, prefix }))];
}

/**
 * Finds the CloudFormation stack of a prefix, which has the standard name or belongs to another CDK app. Returns
 * `undefined` if there is none.
 */
export async function findStack({ cloudFormation }: Clients, prefix: string): Promise<DeployedState | undefined> {
  const { stack, processor } = resourceNames(prefix);
  const describe = async (StackName: string): Promise<DeployedState | undefined> => {
    const reply = await cloudFormation.send(new DescribeStacksCommand({ StackName })).catch(orMissing);
    const status = reply?.Stacks?.[0]?.StackStatus;
    return status === undefined ? undefined : { name: StackName, status };
  };
  const own = await describe(stack);
  if (own !== undefined) return own;
  const command = new DescribeStackResourcesCommand({ PhysicalResourceId: processor });
  const reply = await cloudFormation.send(command).catch(orMissing);
  const name = reply?.StackResources?.[0]?.StackName;
  return name === undefined ? undefined : describe(name);
}

/** Whether its functions exist: not while it is created or deleted, nor after its creation has failed. */
export const isInUse = (found: DeployedState | undefined): boolean =>
  found !== undefined && !/^(CREATE_(?!COMPLETE)|ROLLBACK_|DELETE_|REVIEW_)/.test(found.status);

/** Returns a finding about the state of a deployment, with its remedy. */
function stateFinding({ name, status }: DeployedState): Found {
  const message = `The stack ${name} is ${status}.`;
  if (/^(CREATE|UPDATE|IMPORT)_COMPLETE$/.test(status)) return ok(message);
  if (/IN_PROGRESS$/.test(status)) return warning(message, 'wait until it is complete');
  if (status === 'UPDATE_ROLLBACK_COMPLETE') {
    const what = `${message} The last deployment failed, and the one before it runs.`;
    return warning(what, "look for the cause in the stack's events, and deploy again");
  }
  const repair = status.startsWith('ROLLBACK')
    ? 'delete the stack'
    : "continue its rollback in CloudFormation's console";
  return broken(message, `look for the cause in the stack's events, ${repair}, and deploy again`);
}

const MAX_SHOWN = 60;
const shown = (value: string | undefined): string =>
  value === undefined ? 'not set' : value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value || 'empty';

/** Checks whether the stack was deployed by a version with the same contract. */
function contractFinding(deployed: string | undefined): Found {
  if (deployed === String(CONTRACT)) return undefined;
  const [age, repair] =
    Number(deployed) > CONTRACT
      ? ['a newer', 'update this command line before it starts, stops or retries runs']
      : ['an older', 'deploy again when its runs have ended: they cannot be continued by another version'];
  return warning(`The stack was deployed by ${age} version (contract ${deployed}, here ${CONTRACT}).`, repair);
}

/** Compares the deployed functions with the settings, if these are complete. */
async function checkDeployed({ lambda, prefix, complete: settings }: StackContext): Promise<Found> {
  const { processor, replayer } = resourceNames(prefix);
  const configuration = (FunctionName: string) => lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  const [ours, replays] = await Promise.all([configuration(processor), configuration(replayer)]);
  const version = under('version', contractFinding(ours.Environment?.Variables?.CONTRACT));
  if (settings === undefined) return version;
  const ids = (all: readonly string[] = []): string => all.toSorted().join(',');
  const expected = unpacked({
    ...functionEnvironment(settings, '', ''),
    ...replayEnvironment(settings),
    LAMBDA_MEMORY_MB: String(settings.LAMBDA_MEMORY_MB),
    VPC_SUBNET_IDS: ids(settings.VPC_SUBNET_IDS),
    VPC_SECURITY_GROUP_IDS: ids(settings.VPC_SECURITY_GROUP_IDS),
  });
  const found = unpacked({
    ...replays.Environment?.Variables,
    ...ours.Environment?.Variables,
    LAMBDA_MEMORY_MB: String(ours.MemorySize),
    VPC_SUBNET_IDS: ids(ours.VpcConfig?.SubnetIds),
    VPC_SECURITY_GROUP_IDS: ids(ours.VpcConfig?.SecurityGroupIds),
  });
  const different = SETTING_NAMES.filter((name) => expected[name] !== found[name]).map((name) => {
    const message = `${name} is deployed as ${shown(found[name])}, and here it is ${shown(expected[name])}.`;
    return warning(message, 'deploy again, or correct the setting');
  });
  const same = ok("The functions' settings are those of .env and the environment.");
  return [version, different.length > 0 ? different : same];
}

const ONE_SOURCE = "leave out calls: 'all' in the application, or switch Data Capture off (inference-monitor capture)";

/**
 * Reports where captured text is kept, and faults of the captures of a week. A field of REDACT that no capture has is
 * probably misspelled.
 */
async function checkData({ lambda, s3, prefix }: StackContext): Promise<Found> {
  const { REDACT, CONTENT, WORK_BUCKET = '' } = await functionVariables(lambda, resourceNames(prefix).processor);
  const content = CONTENT === 'none' ? CONTENT : 'all';
  const kept = ok(`Captures are kept ${keptText({ REDACT, CONTENT: content })}. See docs/your-data.md.`);
  const { fields } = redactRules(REDACT ?? '');
  const window = { fromMs: Date.now() - WEEK_MS, toMs: Date.now() };
  const cells = cellsOf(await readWindow({ storage: new Storage(s3), workBucket: WORK_BUCKET }, window));
  const { captures = 0, masked = {} } = sumOfCells(cells);
  const absent = fields.filter((name) => captures > 0 && masked[name.toLowerCase()] === undefined);
  return [
    kept,
    absent.map((name) => warning(`No capture of a week had field:${name} of REDACT.`, 'correct its name')),
    burstsIn(cells, (...texts) => commandText(texts, prefix)).map((message) => ok(`${message}.`)),
    twoSources(cells).map((message) => warning(`In a week, ${message}.`, ONE_SOURCE)),
  ];
}

/**
 * Checks the way of a new capture to its run: the rule and the queue's mapping must be on. Alarms report undelivered
 * events.
 */
async function checkDelivery({ lambda, prefix }: StackContext): Promise<Found> {
  const { rule, starter } = resourceNames(prefix);
  const [{ State: ruleState }, { EventSourceMappings = [] }] = await Promise.all([
    callAws<{ State?: string }>(lambda, 'events', 'DescribeRule', { Name: rule }),
    lambda.send(new ListEventSourceMappingsCommand({ FunctionName: starter })),
  ]);
  const mapping = EventSourceMappings[0]?.State ?? 'missing';
  const off = [
    ...(ruleState === 'ENABLED' ? [] : [`the rule ${rule} is ${ruleState}`]),
    ...(mapping === 'Enabled' ? [] : [`the mapping of the queue to ${starter} is ${mapping}`]),
  ];
  if (off.length === 0) return ok('New captures start runs.');
  return broken(`New captures start no runs: ${off.join(', ')}.`, 'enable it, or deploy again');
}

/** The alarms that are on. */
async function checkAlarms({ lambda, prefix }: StackContext): Promise<Found> {
  const ringing = await ringingAlarms(lambda, prefix);
  if (ringing.length === 0) return ok('No alarm is on.');
  return ringing.map(({ id, name, what }) => {
    const section = id.startsWith('Quality-') ? 'QualityMissed' : id;
    return broken(`The alarm ${name} is on: ${what}.`, `section ${section} of docs/runbook.md`);
  });
}
