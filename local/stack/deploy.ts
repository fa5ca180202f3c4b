/** Deploys the stack, to the emulated AWS or to an account: bundles, template, bootstrap and deployment, each with a time limit. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CloudFormationClient,
  CreateStackCommand,
  type CreateStackCommandInput,
  waitUntilStackCreateComplete,
} from '@aws-sdk/client-cloudformation';
import { cdkContext, cdkFile } from '../../bin/cli/cdk.ts';
import { withFacts } from '../../src/core/errors/errors.ts';
import { isClone, packagePath, programArgs } from '../../src/core/process/package-folder.ts';
import { runGuarded } from '../machine/guarded-process.ts';
import type { Log } from '../python/python-environment.ts';
import { cleanEnvironment } from '../servers/ministack.ts';
import BOOTSTRAP from './bootstrap.json' with { type: 'json' };

/** A deployment takes half a minute on two busy cores, but hangs for an hour if a custom resource does not answer. */
const STEP_LIMIT_MS = 240_000;

/** The context of a step. */
interface StepContext {
  /** Folder for the CDK's output and logs. */
  directory: string;
  log?: Log;
  /** Stops the step immediately. */
  signal?: AbortSignal;
  /** Default: enough for the emulator. */
  limitMs?: number;
}

export interface DeployTarget extends StepContext {
  /** The AWS to deploy to: the variables of its clients, and the emulator's log. */
  aws: { env: Record<string, string>; logTail?(lines: number): string };
  /** Settings of the stack, named as in `.env.example`. */
  settings: Record<string, string>;
  /** Folder with the functions' bundles. Default: they are bundled again. */
  functions?: string | undefined;
}

/**
 * Bundles the functions once for all stacks, while the servers start. @returns the folder with the bundles; `undefined`
 * in a package, which already contains them
 */
export async function makeBundles(context: StepContext): Promise<string | undefined> {
  if (!isClone()) return undefined;
  const outdir = join(context.directory, 'functions');
  const script = "import('./lib/bundle-functions.ts').then((module) => module.bundleFunctions(process.argv[1]))";
  await run(context, 'bundle functions', ['--eval', script, outdir], cleanEnvironment());
  return outdir;
}

/** Bootstraps the account with the CLI's own template: the bucket for assets and the roles for deployments. */
export async function bootstrap(client: CloudFormationClient, abortSignal?: AbortSignal): Promise<void> {
  const template = cdkFile('aws-cdk/lib/api/bootstrap/bootstrap-template.yaml');
  const TemplateBody = readFileSync(template, 'utf8');
  await client.send(new CreateStackCommand({ ...(BOOTSTRAP as CreateStackCommandInput), TemplateBody }));
  const maxWaitTime = STEP_LIMIT_MS / 1000;
  await waitUntilStackCreateComplete({ client, maxWaitTime, minDelay: 1, abortSignal }, BOOTSTRAP);
}

/** Synthesizes the template by running the app directly, as the CDK CLI would; the CLI would take twice as long. @returns the cloud assembly's folder */
export async function synthesize(target: DeployTarget): Promise<string> {
  const { directory, settings, functions } = target;
  const output = join(directory, `cdk.out-${settings.STACK_PREFIX}`);
  await run(target, `cdk synth ${settings.STACK_PREFIX}`, programArgs('bin/app.ts', 'app'), {
    ...environmentOf(target),
    ...settings,
    CDK_OUTDIR: output,
    CDK_CONTEXT_JSON: JSON.stringify({ ...cdkContext(), 'aws:cdk:enable-asset-metadata': true }),
    ...(functions ? { FUNCTION_BUNDLES: functions } : {}),
  });
  return output;
}

/**
 * Deploys the assembly of `synthesize` with the CDK CLI.
 *
 * @throws Error with the CDK's output if it fails or exceeds the time limit
 */
export async function deploy(target: DeployTarget, assembly: string): Promise<void> {
  const args = [
    cdkFile('aws-cdk/bin/cdk'),
    ...['--no-notices', '--no-color', 'deploy'],
    ...['--all', '--app', assembly, '--require-approval', 'never'],
    // No change set: there is no one to review it.
    ...['--method', 'direct', '--progress', 'events'],
  ];
  await run(target, `cdk deploy ${target.settings.STACK_PREFIX}`, args, environmentOf(target)).catch((error: Error) => {
    if (target.aws.logTail) error.message += `; the emulator's log:\n${target.aws.logTail(15)}`;
    throw error;
  });
}

const environmentOf = ({ aws, directory }: DeployTarget): Record<string, string> => ({
  ...cleanEnvironment(),
  ...aws.env,
  // The user's .env names resources on AWS.
  DOTENV_CONFIG_PATH: join(directory, 'no-dotenv'),
  // The CLI's caches of accounts and connections must not mix with the user's own.
  CDK_HOME: join(directory, 'cdk-home'),
  // A local run sends no telemetry.
  CDK_DISABLE_CLI_TELEMETRY: 'true',
  CI: 'true',
});

async function run(context: StepContext, step: string, args: string[], env: Record<string, string>): Promise<void> {
  const { directory, log, signal, limitMs = STEP_LIMIT_MS } = context;
  const started = Date.now();
  const logFile = join(directory, `${step.replaceAll(' ', '-')}.log`);
  const cwd = packagePath();
  const { end, tail } = await runGuarded(process.execPath, args, { logFile, cwd, env, signal, limitMs });
  if (end !== 'exit code 0') {
    const expected = 'exit code 0. The output names the resource or setting at fault';
    throw new Error(`${withFacts(`${step} failed`, { got: end, expected })}; output:\n${tail}`);
  }
  log?.(`${step}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}
