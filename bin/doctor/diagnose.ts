/** All checks of `doctor`, in the order of their findings. Nothing is changed, and nothing is paid for. */
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { checkAccount } from './account.ts';
import { checkArtifacts, checkCaptures } from './buckets.ts';
import { checkEndpoint } from './endpoint.ts';
import { checkEnvironment } from './environment.ts';
import { checked, type Finding, finding } from './finding.ts';
import { type Clients, type Ground, quickClients } from './ground.ts';
import { checkJudge } from './judge.ts';
import { checkMlflow } from './mlflow.ts';
import { checkBedrock, checkLambda, checkStates } from './quotas.ts';
import { checkSettingsFor } from './settings.ts';
import { checkAlarms, checkDelivery, checkDeployed, findStack, isInUse, stateFinding } from './stack.ts';

export interface DoctorFlags {
  model?: string;
  region?: string;
  stack?: string;
}

export interface Diagnosis {
  /** Whether nothing is broken. What could not be asked may be. */
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

async function examine(clients: Clients, flags: DoctorFlags): Promise<Finding[]> {
  const region = await clients.lambda.config.region().catch(() => undefined);
  const read = checkSettingsFor(region, { BEDROCK_MODEL_ID: flags.model, STACK_PREFIX: flags.stack });
  const { settings, complete, findings } = read;
  if (region === undefined) {
    const repair =
      'set AWS_REGION (also in .env), choose a profile with a region, or give --region. The checks that ask AWS are left out';
    return [finding('error', 'account', 'The region of the stack is not known.', repair), ...findings];
  }
  const account = await checked('account', 'sts:GetCallerIdentity', () =>
    checkAccount(clients.lambda, settings, { name: region, source: sourceOfRegion(flags) }),
  );
  if (account.some(({ level }) => level === 'error')) return [...account, ...findings];
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, DATA_CAPTURE_S3_PREFIX = endpoint && `${endpoint}/` } = settings;
  const ground: Ground = { ...clients, region, settings, capturePrefix: DATA_CAPTURE_S3_PREFIX };
  const asked = await Promise.all([...aroundStack(ground, flags, complete)]);
  return [...account, ...findings, ...asked.flat()];
}

/** Who says what the region is, in the order of precedence. */
function sourceOfRegion(flags: DoctorFlags): string {
  const { AWS_REGION: named } = process.env;
  if (flags.region !== undefined || !named) return flags.region === undefined ? 'your AWS profile' : '--region';
  return named === dotenvOfCommand().AWS_REGION ? '.env' : 'AWS_REGION of the environment';
}

function aroundStack(ground: Ground, { stack }: DoctorFlags, complete: Settings | undefined): Promise<Finding[]>[] {
  const { lambda, settings } = ground;
  const { STACK_PREFIX: prefix } = settings;
  const found = prefix === undefined ? Promise.resolve(undefined) : findStack(ground, prefix);
  const deployed = found.then(
    (one) => one !== undefined && isInUse(one),
    () => undefined,
  );
  return [
    checked('endpoint', 'sagemaker:DescribeEndpoint, DescribeEndpointConfig and ListEndpoints', () =>
      checkEndpoint(ground),
    ),
    checked('captures', 's3:ListBucket', () => checkCaptures(ground, deployed)),
    checked('mlflow', 'access to MLflow', () => checkMlflow(ground)),
    checked('artifacts', 's3:ListBucket', () => checkArtifacts(ground)),
    checked('judge', 'bedrock:GetFoundationModel and bedrock:GetInferenceProfile', () => checkJudge(ground)),
    checked('quota', 'servicequotas:ListServiceQuotas', () => checkBedrock(lambda, settings)),
    checked('lambda', 'lambda:GetAccountSettings', () => checkLambda(lambda, settings)),
    checked('states', 'servicequotas:ListServiceQuotas', () => checkStates(lambda)),
    checkEnvironment(ground),
    ...(prefix === undefined
      ? []
      : [
          checked('stack', 'cloudformation:DescribeStacks and cloudformation:DescribeStackResources', async () =>
            checkStack(ground, prefix, await found, { isNamed: stack !== undefined, complete }),
          ),
        ]),
  ];
}

/** @param isNamed whether the person says that there is a stack */
async function checkStack(
  ground: Ground,
  prefix: string,
  found: Awaited<ReturnType<typeof findStack>>,
  { isNamed, complete }: { isNamed: boolean; complete: Settings | undefined },
): Promise<Finding[]> {
  if (found === undefined) {
    const message = `No stack with STACK_PREFIX=${prefix} is deployed in ${ground.region}.`;
    return [finding(isNamed ? 'error' : 'warning', 'stack', message, 'deploy it: inference-monitor deploy')];
  }
  const state = stateFinding(found);
  if (!isInUse(found)) return [state];
  const checks = [
    checked('deployed', 'lambda:GetFunctionConfiguration', () => checkDeployed(ground, prefix, complete)),
    checked(
      'delivery',
      'events:DescribeRule, events:ListTargetsByRule, lambda:ListEventSourceMappings, sqs:GetQueueUrl and sqs:GetQueueAttributes',
      () => checkDelivery(ground, prefix),
    ),
    checked('alarms', 'cloudwatch:DescribeAlarms', () => checkAlarms(ground, prefix)),
  ];
  return [state, ...(await Promise.all(checks)).flat()];
}
