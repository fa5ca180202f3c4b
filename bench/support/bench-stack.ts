/** The environment of both sides of a benchmark: a real MLflow server, S3, the stand-in judge, and our real bundles. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { functionEnvironment, nodeOptions } from '../../lib/settings/function-environment.ts';
import { parseSettings } from '../../lib/settings/settings.ts';
import { ensurePythonEnvironment, type Log, type PythonEnvironment } from '../../local/python/python-environment.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { synthesize } from '../../local/stack/deploy.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import type { StandInJudge } from '../../test/doubles/faulty-judge/server.ts';
import { startPeerJudge } from '../../test/doubles/peer-judge.ts';
import { createItemTable } from '../../test/helpers/item-table.ts';
import { separate } from './processors.ts';
import { WarmFunctions } from './warm-functions.ts';

export const PEER_MLFLOW = '3.9.0';
export const PEER_LITELLM = '1.81.0';

/** Prefixes of the functions' logical ids in the template. */
const CONSTRUCTS = {
  'plan-captures': 'PlanCaptures',
  'log-traces': 'LogTraces',
  'evaluate-traces': 'EvaluateTraces',
  'judge-batch': 'JudgeBatch',
  'summarize-run': 'SummarizeRun',
  'plan-replay': 'ReplayPlan',
  'replay-shard': 'ReplayShard',
  'summarize-replay': 'ReplaySummary',
};

type Handler = keyof typeof CONSTRUCTS;

const ENDPOINT = 'bench-endpoint';
const CAPTURES = 'bench-captures';
const WORK = 'bench-work';
const ARTIFACTS = 'bench-artifacts';
const BUDGET = 'bench-budget';
const ANSWERS = 'bench-answers';

/** A side's report of its work. */
export interface SideReport {
  /** Time from process start to the end of the imports. */
  importSeconds: number;
  /** Time of the work alone. */
  seconds: number;
  /** Peak resident memory of the whole process, MB (10^6 bytes). */
  maxRssMb: number;
  /** CPU time, for our side only. That of the imports counts too, but not in an invocation of a warm function. */
  cpuSeconds?: number;
  result: Record<string, unknown>;
  /** Measured by the parent: the lifetime of the process; of a warm function, the time from the event to its report. */
  wallSeconds: number;
}

interface BenchStackParts {
  mlflow: MlflowServer;
  /** Whether the MLflow server has a processor to itself, as it has a machine to itself on AWS. */
  isApart: boolean;
  judge: StandInJudge;
  peer: PythonEnvironment;
  reader: PythonEnvironment;
  directory: string;
  ministack: MiniStack;
  clients: AwsClients;
  bundles: Map<Handler, string>;
}

export class BenchStack {
  readonly #parts: BenchStackParts;
  readonly mlflow: MlflowServer;
  readonly judge: StandInJudge;
  readonly directory: string;

  constructor(parts: BenchStackParts) {
    this.#parts = parts;
    this.mlflow = parts.mlflow;
    this.judge = parts.judge;
    this.directory = parts.directory;
  }

  bundle(handler: Handler): string {
    return this.#parts.bundles.get(handler) ?? '';
  }

  /** Puts a capture file into the bucket. @returns its key */
  async put(name: string, body: string): Promise<string> {
    const key = `${ENDPOINT}/AllTraffic/2026/11/20/10/${name}.jsonl`;
    await this.#parts.clients.s3.send(new PutObjectCommand({ Bucket: CAPTURES, Key: key, Body: body }));
    writeFileSync(join(this.directory, `${name}.jsonl`), body);
    return key;
  }

  /** Runs the deployed bundle of a handler on a whole capture file, in a separate process. */
  async ours(handler: Handler, experiment: string, key: string): Promise<SideReport> {
    const event = JSON.stringify({ bucket: CAPTURES, key });
    const args = [packagePath('bench', 'support', 'invoke.js'), this.bundle(handler), event];
    return runSide(process.execPath, args, this.handlerEnvironment(experiment));
  }

  /**
   * Returns the functions of a judged run, which stay warm until they are closed.
   *
   * @param mlflowUrl address of MLflow; default: the server itself
   */
  warmFunctions(experiment: string, mlflowUrl?: string): WarmFunctions {
    return new WarmFunctions({
      bundles: { plan: this.bundle('plan-captures'), evaluate: this.bundle('evaluate-traces') },
      env: this.handlerEnvironment(experiment, mlflowUrl),
      bucket: CAPTURES,
      work: { storage: new Storage(this.#parts.clients.s3), bucket: WORK },
      maxConcurrency: this.#settings(experiment).MAX_FUNCTIONS,
    });
  }

  /** Returns the environment that the stack gives its functions. */
  handlerEnvironment(experiment: string, mlflowUrl?: string): Record<string, string> {
    const settings = this.#settings(experiment, mlflowUrl);
    return {
      PATH: process.env.PATH ?? '',
      ...this.#parts.ministack.env,
      ...functionEnvironment(settings, WORK, BUDGET),
      ANSWERS_TABLE: ANSWERS,
      NODE_OPTIONS: nodeOptions(settings.LAMBDA_MEMORY_MB),
      AWS_ENDPOINT_URL_BEDROCK: this.judge.url,
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: this.judge.url,
      POWERTOOLS_LOG_LEVEL: 'WARN',
    };
  }

  #settings(experiment: string, mlflowUrl = this.mlflow.url): Settings {
    return parseSettings({
      STACK_PREFIX: 'bench',
      MLFLOW_TRACKING_URI: mlflowUrl,
      SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
      DATA_CAPTURE_S3_BUCKET: CAPTURES,
      MLFLOW_EXPERIMENT_NAME: experiment,
      // The peer has no budget either.
      EVALUATION_BUDGET_USD: '0',
    });
  }

  /** Runs the peer's script with the peer's Python. */
  async python(script: string, args: readonly string[]): Promise<SideReport> {
    const env = {
      PATH: `${this.#parts.peer.bin}:${process.env.PATH ?? ''}`,
      ...s3Environment(this.#parts.ministack),
      MLFLOW_TRACKING_URI: this.mlflow.url,
      AWS_BEDROCK_RUNTIME_ENDPOINT: this.judge.url,
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      // litellm downloads its tokenizer unless it is pointed to the one in its package.
      TIKTOKEN_CACHE_DIR: sitePackages(this.#parts.peer, 'litellm', 'litellm_core_utils', 'tokenizers'),
      MLFLOW_DISABLE_TELEMETRY: 'true',
    };
    return runSide(this.#parts.peer.python, [packagePath('bench', 'peer', script), ...args], env);
  }

  /** A note for the result: what shares a processor with the MLflow server. */
  get placeOfMlflow(): string {
    return this.#parts.isApart
      ? 'MLflow has a processor to itself; the functions, S3, the judge, the peer and the bare clients run on the rest'
      : 'MLflow has no processor to itself, which takes two of them, and Linux: what else computes slows it down';
  }

  /** Counts the traces and assessments of an experiment with MLflow's newest client. */
  async readBack(experiment: string): Promise<{ traces: number; assessments: number; errors: number }> {
    const script = packagePath('bench', 'support', 'read_back.py');
    const { stdout } = await promisify(execFile)(this.#parts.reader.python, [script, this.mlflow.url, experiment], {
      env: { PATH: process.env.PATH ?? '', MLFLOW_DISABLE_TELEMETRY: 'true' },
      maxBuffer: 2 ** 26,
    });
    return JSON.parse(stdout) as { traces: number; assessments: number; errors: number };
  }

  async stop(): Promise<void> {
    await Promise.all([this.mlflow.stop(), this.judge.close(), this.#parts.ministack.stop()]);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Returns the environment for MLflow's Python, which has a separate variable for the address of S3. */
const s3Environment = (ministack: MiniStack): Record<string, string> => ({
  ...ministack.env,
  MLFLOW_S3_ENDPOINT_URL: ministack.url,
});

/** Returns a path in the packages of a Python environment. */
function sitePackages(environment: PythonEnvironment, ...path: string[]): string {
  const lib = join(environment.bin, '..', 'lib');
  const version = readdirSync(lib).find((name) => name.startsWith('python3'));
  return join(lib, version ?? '', 'site-packages', ...path);
}

async function runSide(command: string, args: string[], env: Record<string, string>): Promise<SideReport> {
  const startedAt = performance.now();
  const { stdout } = await promisify(execFile)(command, args, { env, maxBuffer: 2 ** 26 });
  const wallSeconds = (performance.now() - startedAt) / 1000;
  const last = stdout.trimEnd().split('\n').at(-1) ?? '';
  return { ...(JSON.parse(last) as Omit<SideReport, 'wallSeconds'>), wallSeconds };
}

interface BenchStackOptions {
  mlflowVersion?: string;
  /** Latency of the judge, milliseconds. */
  judgeMs?: number;
  /** Keep artifacts in S3, where clients put them themselves, as with SageMaker's managed MLflow. */
  artifactsInS3?: boolean;
}

export async function startBenchStack(log: Log, options: BenchStackOptions = {}): Promise<BenchStack> {
  mkdirSync(packagePath('.local'), { recursive: true });
  const directory = mkdtempSync(packagePath('.local', 'bench-'));
  const reader = await defaultPythonEnvironment(log);
  const peer = await ensurePythonEnvironment({
    name: 'bench-peer',
    packages: { mlflow: PEER_MLFLOW, litellm: PEER_LITELLM, boto3: '1.43.106' },
    log,
  });
  log('starting MLflow, the emulated S3 and the stand-in judge');
  const ministack = await startMiniStack({ log });
  const clients = emulatedClients(ministack);
  for (const Bucket of [CAPTURES, WORK, ARTIFACTS]) await clients.s3.send(new CreateBucketCommand({ Bucket }));
  for (const table of [BUDGET, ANSWERS]) await createItemTable(ministack.url, table);
  const [mlflow, judge] = await Promise.all([
    startMlflowServer({
      log,
      ...(options.mlflowVersion ? { version: options.mlflowVersion } : {}),
      ...(options.artifactsInS3 ? { artifactRoot: `s3://${ARTIFACTS}/mlflow`, env: s3Environment(ministack) } : {}),
    }),
    startPeerJudge({ behavior: { delayMs: options.judgeMs ?? 0 }, keepCalls: 0 }),
  ]);
  const bundles = await bundle(ministack, directory, log);
  const isApart = await separate(mlflow.pid);
  return new BenchStack({ mlflow, isApart, judge, peer, reader, directory, ministack, clients, bundles });
}

/** Makes the bundles that `cdk deploy` would upload. */
async function bundle(ministack: MiniStack, directory: string, log: Log): Promise<Map<Handler, string>> {
  const settings = {
    STACK_PREFIX: 'bench',
    MLFLOW_TRACKING_URI: 'http://127.0.0.1:5000',
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    DATA_CAPTURE_S3_BUCKET: CAPTURES,
  };
  const assembly = await synthesize({ aws: ministack, directory, settings, log });
  const file = join(assembly, 'SageMakerInferenceMonitoringStack-bench.template.json');
  const template = JSON.parse(readFileSync(file, 'utf8')) as {
    Resources: Record<string, { Type: string; Metadata?: Record<string, string> }>;
  };
  const found = new Map<Handler, string>();
  for (const [handler, construct] of Object.entries(CONSTRUCTS)) {
    const entry = Object.entries(template.Resources).find(
      ([id, { Type }]) => Type === 'AWS::Lambda::Function' && id.startsWith(`${construct}Function`),
    );
    const asset = entry?.[1].Metadata?.['aws:asset:path'];
    if (asset === undefined)
      throw new Error(`The template has no bundle for ${handler}; got: ${entry?.[0] ?? 'no function'}`);
    found.set(handler as Handler, join(assembly, asset, 'index.mjs'));
  }
  return found;
}
