/** `npm start`: runs the whole pipeline on one machine, from capture files to traces and verdicts in MLflow. */
import { once } from 'node:events';
import { relative, resolve } from 'node:path';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { progress, terminal } from '../../bin/cli/output.ts';
import type { DeployedStack } from '../../bin/cli/stack.ts';
import { INTERRUPTED, stopOnSignals } from '../../bin/cli/stop-signals.ts';
import type { StartFlags } from '../../bin/commands/start.ts';
import { findCaptures } from '../../bin/operate/capture-files.ts';
import { SETTING_NAMES, slips } from '../../lib/settings/settings.ts';
import { isClone, keptPath, packagePath } from '../../src/core/process/package-folder.ts';
import { dotenvSettings } from '../../src/core/settings/dotenv-file.ts';
import { exact, type Page, pageText, section } from '../../src/core/text/page.ts';
import { STAND_IN_PATH } from '../../src/judge/judge-id.ts';
import { describeError } from '../machine/describe-error.ts';
import { checkProtection, checkSettings, givenSettings, personSettings } from '../settings/person-settings.ts';
import { startStandInEndpoint } from '../stand-in-endpoint/server.ts';
import type { ForwardTarget } from '../stand-in-judge/forward.ts';
import { type EnvFile, writeEnvFile } from './env-file.ts';
import { deployEndpoints, startEnvironment } from './environment.ts';
import { findLabels, forecastLines, joinLabels, measureFiles, processCaptures } from './process-captures.ts';
import { deployScorers, readScorers } from './scorer-function.ts';

/** npm runs scripts in the project's folder, but the user means a relative path from their own. */
const typedIn = (): string => process.env.INIT_CWD ?? process.cwd();
export const asTyped = (path: string): string => resolve(typedIn(), path);

/** Shortens a path to the form the user would type. */
function asShown(path: string): string {
  const short = relative(typedIn(), path);
  return short.length < path.length ? short : path;
}

async function main(options: StartFlags, signal: AbortSignal): Promise<number> {
  const stopped = once(signal, 'abort');
  signal.addEventListener('abort', () => progress.close('Stopping …'));
  const unlessStopped = <T>(work: Promise<T>): Promise<T> =>
    Promise.race([work, stopped.then(() => Promise.reject(signal.reason))]);
  const { bedrock = false, exit = false } = options;
  const captures = options.captures ? asTyped(options.captures) : packagePath('examples', 'captures');
  const keep = options.keep && asTyped(options.keep);
  const given = givenSettings(captures);
  const misspelt = slips(SETTING_NAMES, dotenvSettings(keptPath('.env')), process.env);
  for (const slip of misspelt) progress.log(`warning: ${slip}`);
  // Report invalid input before anything starts.
  checkProtection(given, { bedrock, keep });
  const real = bedrock && { region: bedrockRegion(options) };
  const checked = checkSettings(personSettings(given, { real, url: 'http://127.0.0.1' }).settings);
  const scorers = await unlessStopped(readScorers(options.scorerFile && asTyped(options.scorerFile)));
  const endpoints = await unlessStopped(findCaptures(captures, options.endpoint));
  const labels = await unlessStopped(findLabels(captures, endpoints));
  const sizes = await unlessStopped(measureFiles(endpoints.flatMap(({ files }) => files)));
  const forward = bedrock ? await unlessStopped(bedrockTarget(options)) : undefined;
  for (const line of forecastLines(sizes, checked, bedrock)) progress.log(line);
  progress.show('Starting the emulated AWS, MLflow and the judge …');
  const replayed = await startStandInEndpoint();
  // If the judge is a SageMaker endpoint, the stand-in judge answers for all endpoints.
  const endpointUrl = /^sagemaker:/.test(checked.BEDROCK_MODEL_ID) ? undefined : replayed.url;
  const environment = await startEnvironment({
    log: progress.log,
    awsPort: options.port,
    mlflowPort: options.mlflowPort,
    judgePort: options.judgePort,
    mlflowDirectory: keep,
    judge: forward ? { forward } : { path: STAND_IN_PATH },
    awsEnv: endpointUrl === undefined ? {} : { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpointUrl },
    signal,
  });
  if (endpointUrl !== undefined) progress.log(`stand-in endpoint, for replays: ${endpointUrl}`);
  const { settings, notes } = personSettings(given, { real, url: environment.judge.url });
  for (const note of notes) progress.log(note);
  let envFile: EnvFile | undefined;
  const work = async (): Promise<number> => {
    if (scorers) settings.SCORER_FUNCTIONS = await deployScorers(environment.clients.lambda, scorers);
    const deployed = await deployEndpoints(environment, endpoints, settings, progress.show, signal);
    const answers = endpointUrl ?? environment.judge.url;
    if (!exit) envFile = writeEnvFile({ environment, deployed, settings, endpointUrl: answers });
    progress.show('Waiting for MLflow …');
    await environment.mlflow;
    if (forward === undefined)
      progress.log("Verdicts are by a stand-in's rules, not a model's; --bedrock asks the model.");
    const own = { settings: checked, mlflowUrl: environment.mlflowUrl, exit, signal };
    const failed: boolean[] = [];
    for (const each of deployed) failed.push(await processCaptures(each, own));
    if (deployed[0] && labels !== undefined) await joinLabels(deployed[0], labels, signal);
    const page = envFile ? usePage(envFile.path, deployed.slice(1)) : [keep && `MLflow's database: ${keep}`];
    process.stdout.write(pageText(page, terminal()));
    return failed.includes(true) ? 1 : 0;
  };
  try {
    const code = await unlessStopped(work());
    if (!exit) await stopped;
    return code;
  } finally {
    progress.end();
    envFile?.remove();
    await Promise.all([environment.stop(), replayed.close()]);
  }
}

/** The shell command for the command line. */
const MONITOR = isClone() ? 'npm run monitor --' : 'npx inference-monitor';

/** Explains how to use the environment from another terminal. */
function usePage(envFile: string, others: readonly DeployedStack[]): Page {
  return [
    section(
      `For AWS tools and ${MONITOR}`,
      exact(`source ${asShown(envFile)}`),
      'sets their variables for this environment, until it stops.',
      ...others.map(({ about, prefix }) => `${about.endpoint} has a separate stack: --stack ${prefix}`),
    ),
    'Everything stays up until Ctrl-C.',
  ];
}

const DEFAULT_BEDROCK_REGION = 'us-east-1';

const bedrockRegion = ({ region }: StartFlags): string =>
  region ?? process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? DEFAULT_BEDROCK_REGION;

/** Returns where the stand-in judge forwards its calls. @throws Error if there are no AWS credentials */
async function bedrockTarget(options: StartFlags): Promise<ForwardTarget> {
  try {
    await defaultProvider()();
  } catch (error) {
    throw new Error(
      `--bedrock needs AWS credentials; got: ${(error as Error).message}; expected: credentials that may call Bedrock's Converse, from AWS_ACCESS_KEY_ID, AWS_PROFILE or aws sso login. Without --bedrock the stand-in judges by rules`,
      { cause: error },
    );
  }
  // The SDK's own variable for a VPC endpoint or a proxy.
  const endpoint = process.env.AWS_ENDPOINT_URL_BEDROCK_RUNTIME;
  return { region: bedrockRegion(options), endpoint: endpoint || undefined };
}

/** Runs until Ctrl-C, or with `--exit` until the result is printed. @returns the exit code */
export async function start(flags: StartFlags): Promise<number> {
  const { signal } = stopOnSignals();
  try {
    return await main(flags, signal);
  } catch (error) {
    // Ctrl-C also reaches the child processes, so their errors are not reported.
    if (signal.aborted) return INTERRUPTED;
    console.error(`\n${describeError(error)}`);
    return 1;
  }
}
