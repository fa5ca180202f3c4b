/**
 * The stack for the tests in this folder: deployed once, with one processed capture file, for all suites. Commands run in this
 * process: starting one takes half a second of a CPU, so each is started as a process once at most.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { type CommandOutput, outputOf } from '../../helpers/command-here.ts';
import { chatLine, mixedLines } from '../../helpers/deployed-captures.ts';
import { DeployedPipeline, type Outcome } from '../../helpers/deployed-pipeline.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from '../../helpers/local-environment.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

const START_MS = 6 * 60_000;
export const PREFIX = 'operated';
export const ENDPOINT = 'garden-endpoint';
export const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;
/** Label files under it are read by themselves. */
export const LABELS = 'labels/';
export const GROUND_TRUTH_S3_PREFIX = `s3://${CAPTURE_BUCKET}/${LABELS}`;
/** The file that is processed before the suites begin: five captures, three of which are judged, and a line that is cut off. */
export const PROCESSED_KEY = `${HOUR}/processed.jsonl`;
export const PROCESSED_LINES = mixedLines('processed');

export let environment: LocalEnvironment;
export let pipeline: DeployedPipeline;
/** The run over `PROCESSED_KEY`. */
export let processed: Outcome;

/** The variables of a person who works with the stack. */
export const personVariables = (): Record<string, string> => ({
  ...environment.ministack.env,
  AWS_ENDPOINT_URL_BEDROCK_RUNTIME: environment.judge.url,
  AWS_ENDPOINT_URL_BEDROCK: environment.judge.url,
  STACK_PREFIX: PREFIX,
  SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
  DATA_CAPTURE_S3_BUCKET: pipeline.outputs.captureBucket,
  MLFLOW_TRACKING_URI: environment.mlflowUrl,
  MLFLOW_EXPERIMENT_NAME: ENDPOINT,
});

/** Puts a file of chats, without a line for each that is not a capture. @returns its key */
export async function putChats(name: string, count: number): Promise<string> {
  const key = `${HOUR}/${name}.jsonl`;
  const lines = Array.from({ length: count }, (_, index) => chatLine(`${name}-${index}`));
  await pipeline.put(key, lines);
  return key;
}

const folder = temporaryFolder('operate-');

/** Writes a file of lines on this machine. @returns its path */
export function local(path: string, lines: readonly string[]): string {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, lines.map((line) => `${line}\n`).join(''));
  return file;
}

/** Runs a command in this process, as its entry does, and captures what it prints. */
export const run = (command: Command, ...args: string[]): Promise<CommandOutput> =>
  outputOf(() => command.exitOverride().parseAsync(args, { from: 'user' }));

beforeAll(async () => {
  // Shortens the waits between retries to a twentieth: the tests are not about them.
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' } });
  const settings = {
    STACK_PREFIX: PREFIX,
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    BATCH_WINDOW_SECONDS: '0',
    GROUND_TRUTH_S3_PREFIX,
  };
  pipeline = new DeployedPipeline(environment, PREFIX, await environment.deployStack(settings));
  await environment.mlflow;
  Object.assign(process.env, personVariables());
  processed = await pipeline.process(PROCESSED_KEY, PROCESSED_LINES);
}, START_MS);

afterAll(() => environment?.stop());

afterEach(() => {
  environment.judge.behave({});
});
