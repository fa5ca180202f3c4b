/** Synthesizes and deploys the stack of a canary with the CDK CLI and the person's own credentials. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DescribeStacksCommand, paginateListStackResources } from '@aws-sdk/client-cloudformation';
import { parseSettings, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { type DeployTarget, deploy, synthesize } from '../../local/stack/deploy.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import type { Canary } from './canary.ts';
import type { CanaryState } from './state.ts';

/** An account creates the stack in four minutes, and may take far longer for a role or a function. */
const LIMIT_MS = 30 * 60_000;

/** The stack's own name for the endpoint whose captures it watches. */
export const WATCHED = 'canary';

/** The most that the canary's judge may cost, in dollars per day. */
export const budgetOf = (batch: boolean): number => (batch ? 2.5 : 0.95);

/** The URL that replays go to, unless there is an endpoint. */
export const replayUrl = ({ url, facts }: CanaryState): string | undefined => url ?? facts.endpointUrl;

/** Settings of the stack, named as in `.env.example`. */
export function stackSettings(state: CanaryState, more: Record<string, string> = {}): Record<string, string> {
  const { prefix, settings, endpoint, batch, facts } = state;
  const url = replayUrl(state);
  return {
    ...settings,
    STACK_PREFIX: prefix,
    SAGEMAKER_ENDPOINT_NAME: WATCHED,
    DATA_CAPTURE_S3_BUCKET: facts.captureBucket || 'canary-forecast',
    MLFLOW_EXPERIMENT_NAME: prefix,
    EVALUATION_SAMPLE_RATE: '1',
    EVALUATION_BUDGET_USD: String(budgetOf(batch)),
    LOG_RETENTION_DAYS: '1',
    // The shortest that still collects events.
    BATCH_WINDOW_SECONDS: '1',
    ...(endpoint ? { REPLAY_ENDPOINT_NAMES: endpoint } : {}),
    ...(url ? { REPLAY_URLS: new URL(url).origin } : {}),
    ...more,
  };
}

/** @throws Error `InvalidSettings` with a line for every invalid setting */
export const checkedSettings = (state: CanaryState): Settings =>
  parseSettings({ ...stackSettings(state), CDK_DEFAULT_REGION: state.region });

/** The folder of a canary's template and logs. */
export const canaryFolder = (prefix: string): string => packagePath('.local', 'canary', prefix);

const targetOf = (state: CanaryState, more?: Record<string, string>): DeployTarget => {
  const directory = canaryFolder(state.prefix);
  mkdirSync(directory, { recursive: true });
  // Settings of the person's own stack, such as the prefix of its captures, do not apply to the canary's.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => value !== undefined && !SETTING_NAMES.includes(name)),
  );
  return {
    aws: { env: { ...(env as Record<string, string>), AWS_REGION: state.region, CDK_DEFAULT_REGION: state.region } },
    directory,
    limitMs: LIMIT_MS,
    settings: stackSettings(state, more),
    ...(process.env.FUNCTION_BUNDLES ? { functions: process.env.FUNCTION_BUNDLES } : {}),
  };
};

export interface Template {
  Resources: Record<string, { Type: string; Properties?: Record<string, unknown> }>;
}

/** Makes the template without touching AWS. */
export async function forecastTemplate(state: CanaryState): Promise<Template> {
  const assembly = await synthesize(targetOf(state));
  const file = readdirSync(assembly).find((name) => name.endsWith('.template.json')) ?? '';
  return JSON.parse(readFileSync(join(assembly, file), 'utf8')) as Template;
}

/** Deploys, or deploys again with other settings. */
export async function deployStack(canary: Canary, more?: Record<string, string>): Promise<void> {
  const target = { ...targetOf(canary.state, more), signal: canary.signal };
  await deploy(target, await synthesize(target));
}

/** @throws Error if the account has not been bootstrapped for the CDK */
export async function assertBootstrapped({ clients, state }: Canary): Promise<void> {
  await clients.cloudFormation.send(new DescribeStacksCommand({ StackName: 'CDKToolkit' })).catch((cause: Error) => {
    throw new Error(
      `The account is not ready for the CDK; got: ${cause.message}; expected: npx cdk bootstrap, once per account and region (${state.region})`,
      { cause },
    );
  });
}

/** Returns the resources of the deployed stack, by physical id and type. */
export async function stackResources({ clients, state }: Canary): Promise<{ id: string; type: string }[]> {
  const found: { id: string; type: string }[] = [];
  const StackName = resourceNames(state.prefix).stack;
  for await (const page of paginateListStackResources({ client: clients.cloudFormation }, { StackName })) {
    for (const { PhysicalResourceId: id = '', ResourceType: type = '' } of page.StackResourceSummaries ?? []) {
      found.push({ id, type });
    }
  }
  return found;
}
