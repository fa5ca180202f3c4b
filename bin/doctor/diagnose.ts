/** All checks of `doctor`, in the order of their findings. Nothing is changed, and nothing is paid for. */

import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { checkAccount } from './account.ts';
import { checkArtifacts, checkCaptures } from './buckets.ts';
import { checkEndpoint } from './endpoint.ts';
import { environmentChecks } from './environment.ts';
import {
  broken,
  type Check,
  type CheckContext,
  type Clients,
  checkAll,
  checked,
  type Finding,
  hasError,
  quickClients,
  under,
} from './finding.ts';
import { checkJudge } from './judge.ts';
import { checkMlflow } from './mlflow.ts';
import { checkBedrock, checkLambda, checkStates } from './quotas.ts';
import { checkSettingsFor } from './settings.ts';
import { checkStack, findStack, isInUse } from './stack.ts';

export interface DoctorFlags {
  judgeModel?: string;
  region?: string;
  stack?: string;
}

export interface Diagnosis {
  /** Whether nothing is broken. What could not be checked may be. */
  healthy: boolean;
  counts: Record<Finding['level'], number>;
  findings: Finding[];
}

export async function diagnose(flags: DoctorFlags): Promise<Diagnosis> {
  const clients = quickClients(flags.region);
  try {
    const findings = await examine(clients, flags);
    const count = (of: Finding['level']): number => findings.filter(({ level }) => level === of).length;
    const counts = { ok: count('ok'), warning: count('warning'), error: count('error'), unknown: count('unknown') };
    return { healthy: counts.error === 0, counts, findings };
  } finally {
    for (const client of Object.values(clients)) client.destroy();
  }
}

/** What is around the stack. */
const AROUND: readonly Check<CheckContext>[] = [
  ['endpoint', 'sagemaker:DescribeEndpoint, DescribeEndpointConfig and ListEndpoints', checkEndpoint],
  ['captures', 's3:ListBucket', checkCaptures],
  ['mlflow', 'access to MLflow', checkMlflow],
  ['artifacts', 's3:ListBucket', checkArtifacts],
  ['judge', 'bedrock:GetFoundationModel and bedrock:GetInferenceProfile', checkJudge],
  ['quota', 'servicequotas:ListServiceQuotas', checkBedrock],
  ['lambda', 'lambda:GetAccountSettings', checkLambda],
  ['states', 'servicequotas:ListServiceQuotas', checkStates],
];

const STACK: Check<CheckContext> = [
  'stack',
  'cloudformation:DescribeStacks and cloudformation:DescribeStackResources',
  checkStack,
];

async function examine(clients: Clients, flags: DoctorFlags): Promise<Finding[]> {
  const region = await clients.lambda.config.region().catch(() => undefined);
  const read = checkSettingsFor(region, { BEDROCK_MODEL_ID: flags.judgeModel, STACK_PREFIX: flags.stack });
  const { settings, complete, findings } = read;
  if (region === undefined) {
    const repair =
      'set AWS_REGION (also in .env), choose a profile with a region, or give --region. The checks that ask AWS are left out';
    return [...under('account', broken('The region of the stack is not known.', repair)), ...findings];
  }
  const account = await checked('account', 'sts:GetCallerIdentity', () =>
    checkAccount(clients.lambda, settings, { name: region, source: sourceOfRegion(flags) }),
  );
  if (hasError(account)) return [...account, ...findings];
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, DATA_CAPTURE_S3_PREFIX = endpoint && `${endpoint}/` } = settings;
  const { STACK_PREFIX: prefix } = settings;
  const stack = prefix === undefined ? Promise.resolve(undefined) : findStack(clients, prefix);
  const isDeployed = stack.then(
    (found) => found !== undefined && isInUse(found),
    () => undefined,
  );
  const isNamed = flags.stack !== undefined;
  const facts = { region, settings, complete, capturePrefix: DATA_CAPTURE_S3_PREFIX, stack, isDeployed, isNamed };
  const context: CheckContext = { ...clients, ...facts };
  const asked = await checkAll([...AROUND, ...environmentChecks(context), STACK], context);
  return [...account, ...findings, ...asked];
}

/** The sources of the region, in the order of precedence. */
function sourceOfRegion(flags: DoctorFlags): string {
  const { AWS_REGION: named } = process.env;
  if (flags.region !== undefined || !named) return flags.region === undefined ? 'your AWS profile' : '--region';
  return named === dotenvOfCommand().AWS_REGION ? '.env' : 'AWS_REGION of the environment';
}
