/** The stack for the emulated AWS: bundles, template, bootstrap and deployment, each with a time limit. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CloudFormationClient,
  CreateStackCommand,
  waitUntilStackCreateComplete,
} from '@aws-sdk/client-cloudformation';
import { runGuarded } from '../machine/guarded-process.ts';
import { projectPath } from '../project-root.ts';
import type { Log } from '../python/python-environment.ts';
import { cleanEnvironment, type MiniStack } from '../servers/ministack.ts';

/** Deploying hangs for an hour where a custom resource fails to answer; on two busy cores it takes half a minute. */
const STEP_LIMIT_MS = 240_000;

/** Where each step works. */
interface Place {
  /** Folder for the CDK's output and logs. */
  directory: string;
  log?: Log;
  /** Ends the step at once. */
  signal?: AbortSignal;
}

interface DeployTarget extends Place {
  /** The emulated AWS to deploy to. */
  ministack: MiniStack;
  /** Settings of the stack, as they stand in `.env.example`. */
  settings: Record<string, string>;
  /** Folder with the functions' bundles, which are made anew where it is left out. */
  functions?: string;
}

/** Bundles the functions: for all stacks at once, and before there is anything to deploy to. */
export async function bundleFunctions(place: Place): Promise<string> {
  const outdir = join(place.directory, 'functions');
  const script = "import('./lib/bundle-functions.ts').then((module) => module.bundleFunctions(process.argv[1]))";
  await run(place, 'bundle functions', ['--eval', script, outdir], cleanEnvironment());
  return outdir;
}

/** Makes what the CDK needs in an account, by the CLI's own template: the bucket for assets and the roles it deploys with. */
export async function bootstrap(client: CloudFormationClient, abortSignal?: AbortSignal): Promise<void> {
  const template = projectPath('node_modules', 'aws-cdk', 'lib', 'api', 'bootstrap', 'bootstrap-template.yaml');
  const StackName = 'CDKToolkit';
  await client.send(
    new CreateStackCommand({
      StackName,
      TemplateBody: readFileSync(template, 'utf8'),
      Capabilities: ['CAPABILITY_NAMED_IAM'],
      Parameters: [
        {
          ParameterKey: 'CloudFormationExecutionPolicies',
          ParameterValue: 'arn:aws:iam::aws:policy/AdministratorAccess',
        },
      ],
    }),
  );
  const maxWaitTime = STEP_LIMIT_MS / 1000;
  await waitUntilStackCreateComplete({ client, maxWaitTime, minDelay: 1, abortSignal }, { StackName });
}

/** Makes the template, by the app alone and as the CDK CLI runs it: the CLI would take as long again. */
export async function synthesize(target: DeployTarget): Promise<string> {
  const { directory, settings, functions } = target;
  const output = join(directory, `cdk.out-${settings.STACK_PREFIX}`);
  const { context } = JSON.parse(readFileSync(projectPath('cdk.json'), 'utf8')) as { context: object };
  await run(target, `cdk synth ${settings.STACK_PREFIX}`, ['--import', './local/ready.js', 'bin/app.ts'], {
    ...environmentOf(target),
    ...settings,
    CDK_OUTDIR: output,
    CDK_CONTEXT_JSON: JSON.stringify({ ...context, 'aws:cdk:enable-asset-metadata': true }),
    ...(functions ? { FUNCTION_BUNDLES: functions } : {}),
  });
  return output;
}

/**
 * Deploys what `synthesize` made, by the CDK CLI.
 *
 * @throws Error with what the CDK said when it fails or takes longer than its limit
 */
export async function deploy(target: DeployTarget, assembly: string): Promise<void> {
  const args = [
    projectPath('node_modules', 'aws-cdk', 'bin', 'cdk'),
    ...['--no-notices', '--no-color', 'deploy'],
    ...['--all', '--app', assembly, '--require-approval', 'never'],
    // Without a change set first: nobody looks at it here.
    ...['--method', 'direct', '--progress', 'events'],
  ];
  await run(target, `cdk deploy ${target.settings.STACK_PREFIX}`, args, environmentOf(target)).catch((error: Error) => {
    error.message += `; what the emulator said:\n${target.ministack.logTail(15)}`;
    throw error;
  });
}

const environmentOf = ({ ministack, directory }: DeployTarget): Record<string, string> => ({
  ...cleanEnvironment(),
  ...ministack.env,
  // The person's .env names resources on AWS.
  DOTENV_CONFIG_PATH: join(directory, 'no-dotenv'),
  // The CLI's caches of accounts and connections must not mix with a person's own.
  CDK_HOME: join(directory, 'cdk-home'),
  // Nothing of a local run is reported to anybody.
  CDK_DISABLE_CLI_TELEMETRY: 'true',
  CI: 'true',
});

async function run(place: Place, step: string, args: string[], env: Record<string, string>): Promise<void> {
  const { directory, log, signal } = place;
  const started = Date.now();
  const logFile = join(directory, `${step.replaceAll(' ', '-')}.log`);
  const cwd = projectPath();
  const { end, tail } = await runGuarded(process.execPath, args, { logFile, cwd, env, signal, limitMs: STEP_LIMIT_MS });
  if (end !== 'exit code 0') {
    throw new Error(
      [
        `${step} failed`,
        `got: ${end}`,
        'expected: exit code 0. The lines below say which resource or setting it was',
        `what it said:\n${tail}`,
      ].join('; '),
    );
  }
  log?.(`${step}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
}
