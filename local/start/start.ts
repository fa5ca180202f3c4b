/** `npm start`: runs the whole pipeline on one machine, from capture files to traces and verdicts in MLflow. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { followDisplay } from '../../bin/cli/follow-display.ts';
import { terminal } from '../../bin/cli/output.ts';
import { type ProgressLine, startProgress } from '../../bin/cli/progress.ts';
import { INTERRUPTED, Stopped, type Stopping, stopOnSignals } from '../../bin/cli/stop-signals.ts';
import { findCaptures } from '../../bin/operate/capture-files.ts';
import { processFiles, type Run } from '../../bin/operate/process-files.ts';
import { readReasons, readRunSummary } from '../../bin/operate/run-summaries.ts';
import { readWorst, type WorstTrace, worstTraceFirst } from '../../bin/operate/worst.ts';
import { describeError } from '../../src/core/errors/describe-error.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { pageText } from '../../src/core/text/page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { STAND_IN_PATH } from '../../src/judge/judge-id.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import {
  checkProtection,
  checkSettings,
  givenSettings,
  personSettings,
  settingSlips,
} from '../settings/person-settings.ts';
import { startStandInEndpoint } from '../stand-in-endpoint/server.ts';
import type { ForwardTarget } from '../stand-in-judge/forward.ts';
import { type EnvFile, writeEnvFile } from './env-file.ts';
import {
  type DeployedEndpoint,
  deployEndpoints,
  isBackfill,
  type LocalEnvironment,
  startEnvironment,
} from './environment.ts';
import { findLabels, processLabels } from './labels.ts';
import { runBackfill } from './run-backfill.ts';
import { parseStartOptions, type StartOptions } from './start-options.ts';
import { exitCode, forecastLines, measureFiles, type Report, reportPage } from './start-report.ts';

async function main(options: StartOptions, stopping: Stopping): Promise<number> {
  const startedAt = Date.now();
  const progress = startProgress(process.stderr);
  const { signal, stopped } = stopping;
  signal.addEventListener('abort', () => progress.close('Stopping …'));
  const unlessStopped = <T>(work: Promise<T>): Promise<T> =>
    Promise.race([work, stopped.then(() => Promise.reject(new Stopped()))]);
  const captures = options.captures ?? packagePath('examples', 'captures');
  const given = givenSettings(captures);
  for (const slip of settingSlips()) progress.log(`warning: ${slip}`);
  // Report invalid input before anything starts.
  checkProtection(given, options);
  const real = options.bedrock && { region: bedrockRegion(options) };
  const checked = checkSettings(personSettings(given, { real, url: 'http://127.0.0.1' }).settings);
  const endpoints = await unlessStopped(findCaptures(captures, options.endpoint));
  const labels = await unlessStopped(findLabels(captures, endpoints));
  const sizes = await unlessStopped(measureFiles(endpoints.flatMap(({ files }) => files)));
  const forward = options.bedrock ? await unlessStopped(bedrockTarget(options)) : undefined;
  for (const line of forecastLines(sizes, checked, options.bedrock)) progress.log(line);
  progress.show('Starting the emulated AWS, MLflow and the judge …');
  const replayed = await startStandInEndpoint();
  // If the judge is a SageMaker endpoint, the stand-in judge answers for all endpoints.
  const endpointUrl = /^sagemaker:/.test(checked.BEDROCK_MODEL_ID) ? undefined : replayed.url;
  const environment = await startEnvironment({
    log: progress.log,
    awsPort: options.awsPort,
    mlflowPort: options.mlflowPort,
    judgePort: options.judgePort,
    mlflowDirectory: options.keep,
    judge: forward ? { forward } : { path: STAND_IN_PATH },
    awsEnv: endpointUrl === undefined ? {} : { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: endpointUrl },
    signal,
  });
  if (endpointUrl !== undefined) progress.log(`stand-in endpoint, for replays: ${endpointUrl}`);
  const { settings, notes } = personSettings(given, { real, url: environment.judge.url });
  for (const note of notes) progress.log(note);
  let envFile: EnvFile | undefined;
  const work = async (): Promise<number> => {
    const deployed = await deployEndpoints(environment, endpoints, settings, progress.show, signal);
    const answers = endpointUrl ?? environment.judge.url;
    if (!options.exit) envFile = writeEnvFile({ environment, deployed, settings, endpointUrl: answers });
    progress.show('Waiting for MLflow …');
    await environment.mlflow;
    return processAll(environment, deployed, {
      options,
      progress,
      signal,
      startedAt,
      scorers: activeScorers(checked),
      labels,
      settings: checked,
      envFile: envFile?.path ?? '',
      realJudge: forward && checked.BEDROCK_MODEL_ID,
    });
  };
  try {
    const code = await unlessStopped(work());
    if (options.exit) return code;
    console.log('\nEverything stays up until Ctrl-C.');
    await stopped;
    return code;
  } finally {
    progress.end();
    envFile?.remove();
    await Promise.all([environment.stop(), replayed.close()]);
  }
}

/** The emulated rule reacts immediately. */
const START_LIMIT_MS = 120_000;

interface Work extends Pick<Report, 'options' | 'envFile' | 'realJudge'> {
  scorers: readonly Scorer[];
  labels: readonly string[];
  settings: Settings;
  progress: ProgressLine;
  signal: AbortSignal;
  startedAt: number;
}

/**
 * Processes the captures of all endpoints and prints the report. @returns the exit code: 1 if a run failed, or if lines
 * were captured but no trace was written
 */
async function processAll(environment: LocalEnvironment, deployed: DeployedEndpoint[], work: Work): Promise<number> {
  const { clients } = environment;
  const { progress, signal, startedAt, scorers, labels: files, settings, ...facts } = work;
  const runs: Run[] = [];
  const withBucket: Parameters<typeof readReasons>[1][number][] = [];
  const processed: Report['deployed'][number][] = [];
  for (const captures of deployed) {
    const { endpoint, files, outputs } = captures;
    const { captureBucket, stateMachineArn, workBucket } = outputs;
    const { wait: onWait, show: onPoll } = followDisplay(progress);
    const common = { clients, captureBucket, workBucket, stateMachineArn, signal, onWait, onPoll };
    const own = await (isBackfill(captures)
      ? runBackfill({ ...common, prefix: `${endpoint}/` })
      : processFiles({ ...common, files, startLimitMs: START_LIMIT_MS }));
    runs.push(...own);
    const found = await Promise.all(own.map(({ name }) => readRunSummary(clients, workBucket, name)));
    const written = found.filter((summary) => summary !== undefined);
    processed.push({ ...captures, summaries: written });
    withBucket.push(...written.map((summary) => ({ workBucket, summary })));
  }
  const [first] = deployed;
  const limits = { settings, signal, startLimitMs: START_LIMIT_MS, show: progress.show };
  const labels = first && files.length > 0 ? await processLabels(environment, first, files, limits) : undefined;
  runs.push(...(labels?.runs ?? []));
  const summaries = new Map(withBucket.map(({ summary }) => [summary.run, summary]));
  const quarantine = await readReasons(clients.s3, withBucket);
  const { SHADOW_VARIANTS } = settings;
  const ofMlflow = await inMlflow(environment.mlflowUrl, deployed, scorers, SHADOW_VARIANTS);
  progress.end();
  const seconds = (Date.now() - startedAt) / 1000;
  const found = { runs, summaries, active: scorers, SHADOW_VARIANTS, quarantine, ...ofMlflow, labels, seconds };
  const report = { ...facts, ...found, environment, deployed: processed };
  process.stdout.write(`\n${pageText(reportPage(report), terminal())}`);
  return exitCode(runs, [...summaries.values()]);
}

/** Traces at the end of the report. */
const WORST_SHOWN = 5;

/**
 * Finds the experiments of the endpoints, and their traces with the worst verdicts, without traces of shadow variants.
 */
async function inMlflow(
  mlflowUrl: string,
  deployed: readonly DeployedEndpoint[],
  scorers: readonly Scorer[],
  shadow: readonly string[],
): Promise<Pick<Report, 'experiments' | 'worst'>> {
  const mlflow = createMlflowClient({ trackingUri: mlflowUrl });
  const experiments: { name: string; id: string }[] = [];
  const worst: WorstTrace[] = [];
  try {
    for (const { endpoint: name } of deployed) {
      const own = deployed.length > 1 ? `${name}, ` : '';
      const { id } = (await findExperiment(mlflow.rest, name)) ?? {};
      if (id === undefined) continue;
      experiments.push({ name, id });
      const query = { experimentId: id, scorers, shadow, limit: WORST_SHOWN, server: mlflowUrl };
      for (const one of (await readWorst(mlflow.rest, query)).worst) worst.push({ ...one, variant: own + one.variant });
    }
    return { experiments, worst: worst.sort(worstTraceFirst).slice(0, WORST_SHOWN) };
  } finally {
    mlflow.close();
  }
}

const DEFAULT_BEDROCK_REGION = 'us-east-1';

const bedrockRegion = ({ region }: StartOptions): string =>
  region ?? process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? DEFAULT_BEDROCK_REGION;

/** Returns where the stand-in judge forwards its calls. @throws Error if there are no AWS credentials */
async function bedrockTarget(options: StartOptions): Promise<ForwardTarget> {
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

async function run(): Promise<number> {
  const stopping = stopOnSignals();
  try {
    const options = parseStartOptions(process.argv.slice(2));
    return await main(options, stopping);
  } catch (error) {
    // Ctrl-C also reaches the child processes, so their errors are not reported.
    if (stopping.signal.aborted) return INTERRUPTED;
    console.error(`\n${describeError(error)}`);
    return 1;
  }
}

process.exit(await run());
