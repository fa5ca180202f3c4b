/** `npm start`: the whole pipeline on one machine, from capture files to traces and verdicts in MLflow. */
import { availableParallelism } from 'node:os';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { DEFAULT_JUDGE_MODEL } from '../lambda/contract.ts';
import { findCaptures } from './capture-files.ts';
import { type DeployedEndpoint, deployEndpoints } from './deployed-endpoint.ts';
import { describeError } from './describe-error.ts';
import { type LocalEnvironment, startEnvironment } from './environment.ts';
import { experimentId } from './mlflow-pages.ts';
import { givenSettings, personSettings } from './person-settings.ts';
import { type FileProgress, processFiles, type Run } from './process-files.ts';
import { bar, type Progress, startProgress } from './progress.ts';
import { projectPath } from './project-root.ts';
import { readRunSummaries } from './run-summaries.ts';
import type { ForwardTarget } from './stand-in-judge/forward.ts';
import { parseStartOptions, START_HELP, type StartOptions } from './start-options.ts';
import { reportLines } from './start-report.ts';
import { INTERRUPTED, Stopped, type Stopping, stopOnSignals } from './stop-signals.ts';

/** Files that are in the works at a time, each a run with its own Lambda processes. */
const FILES_AT_ONCE = Math.max(2, Math.floor(availableParallelism() / 2));

async function main(options: StartOptions, stopping: Stopping): Promise<number> {
  const startedAt = Date.now();
  const progress = startProgress(process.stderr);
  const endpoints = await findCaptures(options.captures ?? projectPath('examples', 'captures'), options.endpoint);
  const given = givenSettings();
  // Before anything is started: what cannot be.
  personSettings(given, { real: options.bedrock, url: '' });
  const forward = options.bedrock ? await bedrockTarget(options) : undefined;
  progress.show('Starting the emulated AWS, MLflow and the judge …');
  const environment = await startEnvironment({
    log: progress.log,
    awsPort: options.awsPort,
    mlflowPort: options.mlflowPort,
    judgePort: options.judgePort,
    ...(options.keep ? { mlflowDirectory: options.keep } : {}),
    judge: forward ? { forward } : {},
  });
  const { settings, notes } = personSettings(given, { real: options.bedrock, url: environment.judge.url });
  for (const note of notes) progress.log(note);
  const work = async (): Promise<boolean> => {
    const deployed = await deployEndpoints(environment, endpoints, settings, progress.show);
    progress.show('Waiting for MLflow …');
    await environment.mlflow;
    const failed = await processAll(environment, deployed, {
      progress,
      signal: stopping.signal,
      startedAt,
      ...(forward ? { realJudge: settings.BEDROCK_MODEL_ID ?? DEFAULT_JUDGE_MODEL } : {}),
    });
    return failed;
  };
  try {
    const failed = await Promise.race([work(), stopping.stopped.then(() => Promise.reject(new Stopped()))]);
    if (options.exit) return failed ? 1 : 0;
    console.log('\nAll of it stays up until Ctrl-C.');
    await stopping.stopped;
    return 0;
  } finally {
    progress.end();
    await environment.stop();
  }
}

interface Work {
  progress: Progress;
  signal: AbortSignal;
  startedAt: number;
  /** The judge's model, when it is the real one. */
  realJudge?: string;
}

/** @returns whether a run failed */
async function processAll(environment: LocalEnvironment, deployed: DeployedEndpoint[], work: Work): Promise<boolean> {
  const { clients } = environment;
  const runs: Run[] = [];
  const summaries: Awaited<ReturnType<typeof readRunSummaries>> = new Map();
  const experiments: { name: string; id: string }[] = [];
  for (const { endpoint, files, outputs } of deployed) {
    const own = await processFiles({
      clients,
      captureBucket: outputs.captureBucket,
      stateMachineArn: outputs.stateMachineArn,
      files,
      atOnce: FILES_AT_ONCE,
      signal: work.signal,
      onProgress: (state) => work.progress.show(progressText(endpoint, state, work.startedAt)),
    });
    runs.push(...own);
    for (const [name, summary] of await readRunSummaries(clients, outputs.workBucket, own)) {
      summaries.set(name, summary);
    }
    const id = await experimentId(environment.mlflowUrl, endpoint);
    if (id) experiments.push({ name: endpoint, id });
  }
  work.progress.end();
  const seconds = (Date.now() - work.startedAt) / 1000;
  const judge = work.realJudge ? { realJudge: work.realJudge } : {};
  for (const line of reportLines({ environment, deployed, runs, summaries, ...judge, experiments, seconds })) {
    console.log(line);
  }
  return runs.some((run) => run.status !== 'SUCCEEDED');
}

function progressText(endpoint: string, { files, done, runs }: FileProgress, startedAt: number): string {
  const count = (status: string) => runs.filter((run) => run.status === status).length;
  const failed = runs.length - count('RUNNING') - count('SUCCEEDED');
  const seconds = Math.round((Date.now() - startedAt) / 1000);
  return `${endpoint} ${bar(done, files)} files, ${count('RUNNING')} running, ${failed} failed, ${seconds} s`;
}

const DEFAULT_BEDROCK_REGION = 'us-east-1';

/** @throws Error when there are no credentials to pass on with */
async function bedrockTarget({ region }: StartOptions): Promise<ForwardTarget> {
  try {
    await defaultProvider()();
  } catch (error) {
    throw new Error(
      `--bedrock needs AWS credentials; got: ${(error as Error).message}; expected: credentials that may call Bedrock's Converse, by AWS_ACCESS_KEY_ID, AWS_PROFILE or aws sso login. Without --bedrock the stand-in's rules judge`,
      { cause: error },
    );
  }
  // A VPC endpoint, a proxy: as the SDK itself is told of it.
  const endpoint = process.env.AWS_ENDPOINT_URL_BEDROCK_RUNTIME;
  return {
    region: region ?? process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION ?? DEFAULT_BEDROCK_REGION,
    ...(endpoint ? { endpoint } : {}),
  };
}

async function run(): Promise<number> {
  const stopping = stopOnSignals();
  try {
    const options = parseStartOptions(process.argv.slice(2));
    if (options.help) {
      console.log(START_HELP);
      return 0;
    }
    return await main(options, stopping);
  } catch (error) {
    // Ctrl-C reaches the commands that we have started too; what they say of it is no news.
    if (stopping.signal.aborted) return INTERRUPTED;
    console.error(`\n${describeError(error)}`);
    return 1;
  }
}

process.exit(await run());
