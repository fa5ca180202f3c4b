/** The CDK CLI against the emulated AWS: bootstrap, synth and deploy, each with a time limit. */
import { join } from 'node:path';
import { type GuardedProcess, startGuarded } from './guarded-process.ts';
import { cleanEnvironment, type MiniStack } from './ministack.ts';
import { projectPath } from './project-root.ts';
import type { Log } from './python-environment.ts';

/** Deploying hangs for an hour where a custom resource fails to answer; on two busy cores it takes half a minute. */
const CDK_LIMIT_MS = 240_000;

export interface DeployTarget {
  /** The emulated AWS to deploy to. */
  ministack: MiniStack;
  /** Folder for the CDK's output and logs. */
  directory: string;
  /** Settings of the stack, as they stand in `.env.example`. */
  settings: Record<string, string>;
  log?: Log;
  /** Ends the CDK at once. */
  signal?: AbortSignal;
}

/** Makes what the CDK needs in an account: the bucket for assets and the roles it deploys with. */
export async function bootstrap(target: Omit<DeployTarget, 'settings'>): Promise<void> {
  const { account, region } = target.ministack;
  // In a folder without a cdk.json, so that the CLI does not synthesize the app first.
  await cdk(target, 'bootstrap', ['bootstrap', `aws://${account}/${region}`], target.directory);
}

/** Bundles the Lambdas and makes the template, without deploying it. */
export async function synthesize(target: DeployTarget): Promise<string> {
  const output = join(target.directory, `cdk.out-${target.settings.STACK_PREFIX}`);
  await cdk(target, 'synth', ['synth', '--quiet', '--output', output]);
  return output;
}

/**
 * Deploys what `synthesize` made.
 *
 * @throws Error with what the CDK said when it fails or takes longer than its limit
 */
export async function deploy(target: DeployTarget, assembly: string): Promise<void> {
  await cdk(target, 'deploy', [
    'deploy',
    ...['--all', '--app', assembly, '--require-approval', 'never'],
    // Without a change set first: nobody looks at it here.
    ...['--method', 'direct', '--progress', 'events'],
  ]);
}

async function cdk(
  target: Omit<DeployTarget, 'settings'> & { settings?: Record<string, string> },
  step: string,
  args: string[],
  cwd = projectPath(),
): Promise<void> {
  const started = Date.now();
  const prefix = target.settings?.STACK_PREFIX;
  const logFile = join(target.directory, `cdk-${step}${prefix ? `-${prefix}` : ''}.log`);
  const child = startGuarded(
    process.execPath,
    [projectPath('node_modules', 'aws-cdk', 'bin', 'cdk'), '--no-notices', '--no-color', ...args],
    {
      logFile,
      cwd,
      env: {
        ...cleanEnvironment(),
        ...target.ministack.env,
        ...target.settings,
        // The person's .env names resources on AWS.
        DOTENV_CONFIG_PATH: join(target.directory, 'no-dotenv'),
        // The CLI's caches of accounts and connections must not mix with a person's own.
        CDK_HOME: join(target.directory, 'cdk-home'),
        // Nothing of a local run is reported to anybody.
        CDK_DISABLE_CLI_TELEMETRY: 'true',
        CI: 'true',
      },
    },
  );
  const end = await endOf(child, target.signal);
  await child.stop();
  target.signal?.throwIfAborted();
  if (end !== 'exit code 0') {
    throw new Error(
      [
        `cdk ${step} failed on the emulated AWS`,
        `got: ${end}`,
        `expected: exit code 0. The lines below say which resource or setting it was`,
        `what the CDK said:\n${child.logTail(40)}`,
        ...(step === 'synth' ? [] : [`what the emulator said:\n${target.ministack.logTail(15)}`]),
      ].join('; '),
    );
  }
  target.log?.(`cdk ${step}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

function endOf(child: GuardedProcess, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(`no end after ${CDK_LIMIT_MS / 1000} s`), CDK_LIMIT_MS);
    const aborted = () => resolve('it was called off');
    if (signal?.aborted) aborted();
    signal?.addEventListener('abort', aborted, { once: true });
    void child.exited.then((end) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      resolve(end);
    });
  });
}
