/** All checks of `doctor`, in the order of their findings. They change nothing, and only `--ask-judge` costs money. */

import { ARN_NAMES } from '../../lib/settings/checks.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import type { About } from '../cli/output.ts';
import { type DeployedStack, deployedSettings, openStack } from '../cli/stack.ts';
import { checkAccount } from './account.ts';
import { askJudge } from './ask-judge.ts';
import { checkArtifacts, checkCaptures, checkShape } from './buckets.ts';
import { checkEndpoint } from './endpoint.ts';
import { checkKey, checkReplayComponents, checkReplayEndpoints, checkSecret, checkVpc } from './environment.ts';
import {
  broken,
  type Check,
  type CheckContext,
  type Clients,
  checkAll,
  checked,
  checkOf,
  type Finding,
  hasError,
  quickClients,
  under,
} from './finding.ts';
import { checkJudge } from './judge.ts';
import { checkLedger } from './ledger.ts';
import { checkMlflow } from './mlflow.ts';
import { checkBedrock, checkLambda } from './quotas.ts';
import { checkSettingsFor, type ReadSettings } from './settings.ts';
import { checkStack, findStack } from './stack.ts';

export interface DoctorFlags {
  captures?: number;
  judgeModel?: string;
  region?: string;
  stack?: string;
  askJudge?: boolean | undefined;
  /** Window in which the ledger is compared with MLflow. */
  ledger?: TimeWindow | undefined;
}

export interface Diagnosis extends About {
  /** Whether nothing is broken. Checks that could not be made may hide faults. */
  healthy: boolean;
  counts: Record<Finding['level'], number>;
  findings: Finding[];
}

export async function diagnose(flags: DoctorFlags): Promise<Diagnosis> {
  const clients = quickClients(flags.region);
  try {
    const region = await clients.lambda.config.region().catch(() => undefined);
    const elsewhere = region && (await stackElsewhere(clients, flags));
    const given = { BEDROCK_MODEL_ID: flags.judgeModel, STACK_PREFIX: elsewhere ? elsewhere.prefix : flags.stack };
    const read = checkSettingsFor(region, given, elsewhere ? await deployedSettings(elsewhere) : undefined);
    const findings = await examine(clients, flags, region, read);
    const { SAGEMAKER_ENDPOINT_NAME: endpoint = null, STACK_PREFIX: stack = null } = read.settings;
    const count = (of: Finding['level']): number => findings.filter(({ level }) => level === of).length;
    const counts = { ok: count('ok'), warning: count('warning'), error: count('error'), unknown: count('unknown') };
    return { endpoint, stack, healthy: counts.error === 0, counts, findings };
  } finally {
    for (const client of Object.values(clients)) client.destroy();
  }
}

const ENDPOINT = 'sagemaker:DescribeEndpoint, DescribeEndpointConfig and ListEndpoints';
const SECRET = 'secretsmanager:DescribeSecret and kms:DescribeKey';
const STACK = 'cloudformation:DescribeStacks and cloudformation:DescribeStackResources';

const namesWith = (ending: string) => ARN_NAMES.filter((name) => name.endsWith(ending));

const CHECKS: readonly Check<CheckContext>[] = [
  checkOf('SAGEMAKER_ENDPOINT_NAME', 'endpoint', ENDPOINT, checkEndpoint),
  checkOf('DATA_CAPTURE_S3_BUCKET', 'captures', 's3:ListBucket', checkCaptures),
  checkOf('MLFLOW_TRACKING_URI', 'mlflow', 'access to MLflow', checkMlflow),
  checkOf('MLFLOW_ARTIFACT_BUCKET', 'artifacts', 's3:ListBucket', checkArtifacts),
  checkOf('BEDROCK_MODEL_ID', 'judge', 'bedrock:GetFoundationModel and bedrock:GetInferenceProfile', checkJudge),
  checkOf('BEDROCK_MODEL_ID', 'quota', 'servicequotas:ListServiceQuotas', checkBedrock),
  ['lambda', 'lambda:GetAccountSettings', checkLambda],
  checkOf('VPC_SUBNET_IDS', 'vpc', 'ec2:DescribeSubnets and ec2:DescribeSecurityGroups', checkVpc),
  ...namesWith('_KEY_ARN').map((setting) => checkOf(setting, 'keys', 'kms:DescribeKey', checkKey)),
  ...namesWith('_SECRET_ARN').map((setting) => checkOf(setting, 'secrets', SECRET, checkSecret)),
  checkOf('REPLAY_ENDPOINT_NAMES', 'replays', ENDPOINT, checkReplayEndpoints),
  checkOf('REPLAY_INFERENCE_COMPONENT_NAMES', 'replays', 'sagemaker:DescribeInferenceComponent', checkReplayComponents),
  checkOf('STACK_PREFIX', 'stack', STACK, checkStack),
];

async function examine(clients: Clients, flags: DoctorFlags, region: string | undefined, read: ReadSettings) {
  const { settings, complete, findings } = read;
  if (region === undefined) {
    const repair =
      'set AWS_REGION (also in .env), choose a profile with a region, or give --region. The checks that ask AWS are left out';
    return [...under('account', broken('The region of the stack is not known.', repair)), ...findings];
  }
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, DATA_CAPTURE_S3_PREFIX: capturePrefix = endpoint && `${endpoint}/` } =
    settings;
  const { STACK_PREFIX: prefix } = settings;
  let found: ReturnType<CheckContext['stack']> | undefined;
  const stack = async () => {
    found ??= prefix === undefined ? Promise.resolve(undefined) : findStack(clients, prefix);
    return found;
  };
  const isNamed = flags.stack !== undefined;
  const context = { ...clients, region, settings, complete, capturePrefix, stack, isNamed };
  const source = sourceOfRegion(flags);
  const account = await checked('account', 'sts:GetCallerIdentity', () => checkAccount(context, source));
  const { captures } = flags;
  const shape = captures
    ? [checkOf('DATA_CAPTURE_S3_BUCKET', 'shape', 's3:ListBucket and s3:GetObject', checkShape(captures))]
    : [];
  if (hasError(account)) return [...account, ...findings];
  const model = settings.BEDROCK_MODEL_ID;
  const answer = flags.askJudge && model !== undefined ? await askJudge(context, model) : [];
  const all = await checkAll([...CHECKS, ...shape], context);
  const ledger = flags.ledger ? await checkLedger(context, flags.ledger) : [];
  return [...account, ...findings, ...all, ...ledger, ...answer];
}

/**
 * Returns the stack that the user names, if the settings here belong to another stack. @throws the errors of
 * `openStack`
 */
async function stackElsewhere(clients: Clients, flags: DoctorFlags): Promise<DeployedStack | undefined> {
  const { STACK_PREFIX: inShell, SAGEMAKER_ENDPOINT_NAME: endpoint } = process.env;
  const { stack = inShell } = flags;
  if (!stack || stack === dotenvOfCommand().STACK_PREFIX) return undefined;
  // The settings of the environment may be meant for a first deployment.
  const found = await openStack(flags, clients).catch((e) => (stack === inShell ? undefined : Promise.reject(e)));
  return found?.outputs.endpoint === endpoint ? undefined : found;
}

/** The sources of the region, in the order of precedence. */
function sourceOfRegion(flags: DoctorFlags): string {
  const { AWS_REGION: named } = process.env;
  if (flags.region !== undefined || !named) return flags.region === undefined ? 'your AWS profile' : '--region';
  return named === dotenvOfCommand().AWS_REGION ? '.env' : 'AWS_REGION of the environment';
}
