/**
 * Runs the pipeline’s functions against real servers, with proxies in front of S3 and MLflow that inject faults. This file
 * does the work of the state machine: it retries the named errors, runs each chunk separately, and always summarizes. The
 * tests of the deployed path have the real one.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { ChunkRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt, NamedError } from '../../src/core/contract/receipts.ts';
import errors from '../../src/core/errors/errors.json' with { type: 'json' };
import { toNamedError } from '../../src/core/errors/errors.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { readParameters } from '../../src/judge/parameters.ts';
import { priceCall } from '../../src/judge/pricing/prices.ts';
import { askedOf, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { bedrockTransport, createBedrockClient } from '../../src/judge/transports/bedrock.ts';
import type { Judge } from '../../src/judge/types.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from '../../src/mlflow/client.ts';
import { isRepeated } from '../../src/monitoring/chunk/attempt.ts';
import { withRanges } from '../../src/monitoring/chunk/ranges.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import type { EvaluateDependencies } from '../../src/monitoring/evaluate/types.ts';
import { DrawChances } from '../../src/monitoring/plan/draw-chances.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { readManifest } from '../../src/monitoring/receipts.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import { type FaultProxy, startFaultProxy } from '../doubles/fault-proxy.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { emulated } from './emulated.ts';
import type { ChunkJob, ChunkStep } from './fault-chunk-worker.ts';
import { type Count, type Equations, type FaultReader, startFaultReader } from './fault-reader.ts';
import { createItemTable } from './item-table.ts';

const CAPTURES = 'fault-captures';
export const WORK = 'fault-work';
export const TABLE = 'fault-limits';
const MODEL = 'global.anthropic.claude-haiku-4-5-20251001-v1:0';
/** Short waits: the tests are about what happens after them. */
const RETRY = { baseMs: 20, capMs: 300 };
/** The timeout for a body that stalls. SQLite on a busy machine answers well within it. */
const MLFLOW_TIMEOUT_MS = 8_000;
/** The attempts of the state machine: the first one and six retries. */
const ATTEMPTS = 7;
const RETRYABLE = new Set([...Object.keys(errors.transient), ...Object.keys(errors.throttled)]);
/** The name that Step Functions gives to the end of a function’s process. */
export const KILLED = 'Runtime.ExitError';
/** The time that a function has left, unless a test overrides it. */
const LAMBDA_MS = 300_000;

export type RunOutcome = Awaited<ReturnType<FaultCase['run']>>;

export interface RunHooks {
  /** Between planning and reading. */
  planned?(): Promise<unknown>;
  /** After a chunk, before the summary. */
  processed?(): Promise<unknown>;
  /** Runs the first attempt at this step in a separate process, for `killWorker` and `freezeWorker`. */
  inProcess?: ChunkStep;
  /** Returns the life of an attempt, which may end at any request that it makes. */
  live?(request: ChunkRequest): Promise<Life>;
  /** How far the clock of that process is ahead, in milliseconds. */
  clockAheadMs?: number;
  /** Returns the milliseconds that an attempt to evaluate has left; by default, plenty. */
  evaluateMs?(attempt: number): number | undefined;
}

/** The servers as one attempt sees them. When it is killed, its requests end nowhere, and `killed` is rejected. */
export interface Life {
  deps: Partial<EvaluateDependencies> & Pick<EvaluateDependencies, 'storage' | 'store'>;
  killed: Promise<never>;
}

interface Worker {
  child: ChildProcess;
  /** Ends the attempt, but not the process. */
  abandon(): void;
  ended: Promise<{ code: number | null; signal: string | null; complaints: string }>;
}

/** The servers that all tests of one MLflow version share. */
export class FaultPipeline {
  readonly ministack!: MiniStack;
  readonly judge!: StandInJudge;
  readonly s3!: S3Client;
  readonly dynamo!: DynamoDBClient;
  /** Of the locks, and of what was sent before. */
  readonly table: LimitsTable;
  readonly s3Proxy!: FaultProxy;
  readonly mlflowProxy!: FaultProxy;
  readonly reader!: FaultReader;
  readonly version: string;
  server!: MlflowServer;
  readonly #directory: string;
  readonly storage: Storage;
  readonly judgeUnderTest: Judge;
  readonly answers: LimitsTable;
  readonly #stores: MlflowClient[] = [];
  readonly running = new Set<string>();
  #worker: Worker | undefined;
  #frozen: Worker | undefined;

  private constructor(
    parts: Pick<
      FaultPipeline,
      'ministack' | 'judge' | 's3' | 'dynamo' | 's3Proxy' | 'mlflowProxy' | 'reader' | 'server'
    >,
    directory: string,
  ) {
    Object.assign(this, parts);
    this.table = new LimitsTable(parts.dynamo, TABLE);
    this.version = parts.server.version;
    this.#directory = directory;
    // Three attempts of the SDK, with waits of up to 0.1 and 0.2 s.
    this.storage = new Storage(clientOf(parts.s3Proxy.url, 3));
    this.answers = new LimitsTable(parts.dynamo, 'answers');
    const bedrockRuntime = createBedrockClient(emulated(parts.judge.url));
    const price = (usage: Parameters<typeof priceCall>[1]) => priceCall(MODEL, usage);
    this.judgeUnderTest = createJudgeOver(bedrockTransport(MODEL, readParameters(), bedrockRuntime), { price });
  }

  static async start(version?: string): Promise<FaultPipeline> {
    const directory = mkdtempSync(join(tmpdir(), 'faults-'));
    const [ministack, server, judge] = await Promise.all([
      startMiniStack(),
      startMlflowServer({ directory, ...(version === undefined ? {} : { version }) }),
      startStandInJudge({}),
    ]);
    const [s3Proxy, mlflowProxy, reader] = await Promise.all([
      startFaultProxy(ministack.url),
      startFaultProxy(server.url),
      startFaultReader(version, server.url, ministack.env),
    ]);
    const s3 = clientOf(ministack.url, 3);
    for (const Bucket of [CAPTURES, WORK]) await s3.send(new CreateBucketCommand({ Bucket }));
    for (const table of ['answers', TABLE]) await createItemTable(ministack.url, table);
    const dynamo = new DynamoDBClient(emulated(ministack.url));
    return new FaultPipeline({ ministack, server, judge, s3Proxy, mlflowProxy, reader, s3, dynamo }, directory);
  }

  async stop(): Promise<void> {
    this.#frozen?.child.kill('SIGKILL');
    for (const store of this.#stores) store.close();
    this.storage.s3.destroy();
    this.s3.destroy();
    this.dynamo.destroy();
    await this.reader.stop();
    await Promise.all([this.s3Proxy.stop(), this.mlflowProxy.stop(), this.judge.close()]);
    await Promise.all([this.server.stop(), this.ministack.stop()]);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  heal(): void {
    this.s3Proxy.heal();
    this.mlflowProxy.heal();
    this.judge.behave({});
  }

  /** Kills MLflow and starts it again with the same data at the same address. */
  async restartMlflow(): Promise<void> {
    const port = Number(new URL(this.server.url).port);
    const { version } = this;
    await this.server.stop();
    this.server = await startMlflowServer({ directory: this.#directory, port, version });
  }

  killWorker(): void {
    this.#worker?.child.kill('SIGKILL');
  }

  /** Suspends the process. Its attempt counts as killed, and the next one starts. */
  freezeWorker(): void {
    this.#frozen = this.#worker;
    this.#frozen?.child.kill('SIGSTOP');
    this.#frozen?.abandon();
  }

  /** Resumes the suspended process, and waits for its end. */
  async thawWorker(): Promise<void> {
    const frozen = this.#frozen;
    this.#frozen = undefined;
    if (frozen === undefined) throw new Error('No process is suspended');
    frozen.child.kill('SIGCONT');
    const { code, signal, complaints } = await frozen.ended;
    if (code !== 0) throw new Error(`The suspended process ended with ${signal ?? code}: ${complaints}`);
  }

  /** Returns an endpoint and an experiment for one test. */
  case(name: string, options: Partial<MlflowClientOptions> = {}, variables: Record<string, string> = {}): FaultCase {
    const store = createMlflowClient({
      trackingUri: this.mlflowProxy.url,
      s3: this.storage.s3,
      retry: RETRY,
      timeoutMs: MLFLOW_TIMEOUT_MS,
      ...options,
    });
    this.#stores.push(store);
    return new FaultCase(this, `${name}-endpoint`, store, variables);
  }

  /** The same, with a file of captures. */
  async caseOf(name: string, lines: readonly string[], options?: Partial<MlflowClientOptions>): Promise<FaultCase> {
    const one = this.case(name, options);
    await one.put(lines);
    return one;
  }

  /** @throws Error `Runtime.ExitError`, as Step Functions names it, when the process is killed or suspended */
  async inProcess(
    step: ChunkStep,
    request: ChunkRequest,
    variables: Record<string, string>,
    clockAheadMs = 0,
  ): Promise<void> {
    const urls = {
      awsUrl: this.ministack.url,
      s3Url: this.s3Proxy.url,
      mlflowUrl: this.mlflowProxy.url,
      judgeUrl: this.judge.url,
    };
    const job: ChunkJob = { step, request, variables, ...urls };
    const script = packagePath('test', 'helpers', 'fault-chunk-worker.ts');
    const clock = clockAheadMs === 0 ? [] : ['--import', shiftedClock(clockAheadMs)];
    const child = spawn(process.execPath, [...clock, script, JSON.stringify(job)], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let complaints = '';
    child.stderr.on('data', (text) => {
      complaints += text;
    });
    const ended: Worker['ended'] = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal, complaints }));
    });
    const how = await new Promise<Awaited<Worker['ended']> | 'frozen'>((resolve) => {
      this.#worker = { child, ended, abandon: () => resolve('frozen') };
      void ended.then(resolve);
    });
    this.#worker = undefined;
    if (how === 'frozen' || how.signal === 'SIGKILL') {
      throw Object.assign(new Error('The process was killed'), { name: KILLED });
    }
    if (how.code !== 0) throw new Error(how.complaints);
  }
}

/** Returns the URL of a module that shifts the clock of the process that imports it first. */
function shiftedClock(aheadMs: number): string {
  const module = `
    const Real = Date;
    globalThis.Date = class extends Real {
      constructor(...given) { super(...(given.length === 0 ? [Real.now() + ${aheadMs}] : given)); }
      static now() { return Real.now() + ${aheadMs}; }
    };`;
  return `data:text/javascript,${encodeURIComponent(module)}`;
}

export const clientOf = (endpoint: string, maxAttempts: number): S3Client =>
  new S3Client({ ...emulated(endpoint), maxAttempts });

export class FaultCase {
  readonly endpoint: string;
  readonly store: MlflowClient;
  readonly scorers = scorersFor({ guidelines: {} });
  readonly #pipeline: FaultPipeline;
  readonly #variables: Record<string, string>;

  constructor(pipeline: FaultPipeline, endpoint: string, store: MlflowClient, variables: Record<string, string>) {
    this.#pipeline = pipeline;
    this.endpoint = endpoint;
    this.store = store;
    this.#variables = {
      STACK_PREFIX: 'faults',
      WORK_BUCKET: WORK,
      BUDGET_TABLE: 'limits',
      SAGEMAKER_ENDPOINT_NAME: endpoint,
      DATA_CAPTURE_S3_BUCKET: CAPTURES,
      DATA_CAPTURE_S3_PREFIX: `${endpoint}/`,
      MLFLOW_TRACKING_URI: pipeline.mlflowProxy.url,
      MLFLOW_EXPERIMENT_NAME: endpoint,
      BEDROCK_MODEL_ID: MODEL,
      EVALUATION_SAMPLE_RATE: '1',
      ...variables,
    };
  }

  key(name = 'records'): string {
    return `${this.endpoint}/AllTraffic/2026/11/20/10/${name}.jsonl`;
  }

  async put(lines: readonly string[], key = this.key()): Promise<string> {
    await this.#pipeline.s3.send(new PutObjectCommand({ Bucket: CAPTURES, Key: key, Body: `${lines.join('\n')}\n` }));
    return key;
  }

  async remove(key: string): Promise<void> {
    await this.#pipeline.s3.send(new DeleteObjectCommand({ Bucket: CAPTURES, Key: key }));
  }

  event(key = this.key(), options: Record<string, unknown> = {}) {
    return { detail: { bucket: { name: CAPTURES }, object: { key } }, ...options };
  }

  /** Runs one execution: plans, logs and evaluates each chunk with retries, and always summarizes. */
  async run(input: unknown = this.event(), hooks: RunHooks = {}) {
    const { storage, reader } = this.#pipeline;
    const run = `run-${randomUUID().slice(0, 8)}`;
    const arn = `arn:${run}`;
    /** The names of the errors of failed attempts, in order. */
    const errors: string[] = [];
    let failure: NamedError | undefined;
    this.#pipeline.running.add(arn);
    try {
      const plan = await this.#retried(errors, () =>
        planCaptures(
          {
            input,
            run: { name: run, arn, startTime: new Date().toISOString() },
            part: 0,
            nextChunk: 0,
            cursor: null,
          },
          this.#plannerDependencies(),
        ),
      );
      await hooks.planned?.();
      if (plan.outcome === 'planned') await this.#chunks(run, plan, errors, hooks);
    } catch (error) {
      failure = toNamedError(error);
    }
    const times = { name: run, startTime: new Date().toISOString() };
    try {
      const summary = await this.#retried(errors, () => summarizeRun({ storage, workBucket: WORK }, times, failure));
      const equations = await reader.do<Equations>({ do: 'equations', workBucket: WORK, run });
      return { run, summary, equations, errors };
    } finally {
      this.#pipeline.running.delete(arn);
    }
  }

  retry({ run }: RunOutcome, what = 'failed'): Promise<RunOutcome> {
    return this.run({ retry: { run, what } });
  }

  async #chunks(run: string, { options }: PlanResult, errors: string[], hooks: RunHooks): Promise<void> {
    const work = { storage: this.#pipeline.storage, workBucket: WORK };
    for await (const line of readManifest(work, run)) {
      const chunk = await withRanges(work, line);
      const step = options.evaluate ? 'evaluate' : 'log';
      try {
        await this.#untilDone(errors, { run, chunk, options, attempt: 0 }, async (request) => {
          if (!isRepeated(request) && hooks.inProcess === step)
            return this.#pipeline.inProcess(step, request, this.#variables, hooks.clockAheadMs);
          const life = await hooks.live?.(request);
          const remainingMs = () => hooks.evaluateMs?.(request.attempt) ?? LAMBDA_MS;
          const attempt = this[step](request, { remainingMs, ...life?.deps });
          attempt.catch(() => undefined);
          await (life === undefined ? attempt : Promise.race([attempt, life.killed]));
        });
        await hooks.processed?.();
      } catch {
        // The failure of one chunk stops no other; its receipts report it.
      }
    }
  }

  log(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<LogReceipt> {
    return logChunk(request, { ...this.#dependencies(), ...more });
  }

  /** Makes an attempt at a chunk. */
  evaluate(request: ChunkRequest, more: Partial<EvaluateDependencies> = {}): Promise<EvaluateReceipt> {
    return evaluateChunk(request, {
      ...this.#dependencies(),
      answers: this.#pipeline.answers,
      judge: this.#pipeline.judgeUnderTest,
      scorers: this.scorers,
      always: () => undefined,
      ...more,
    });
  }

  /** Processes a chunk until it is done, also after its function is killed. */
  async #untilDone(
    errors: string[],
    chunk: ChunkRequest,
    work: (request: ChunkRequest) => Promise<void>,
  ): Promise<void> {
    for (let kills = 0; ; kills += 1) {
      const request = { ...chunk, progress: { kills } };
      try {
        return await this.#retried(errors, (attempt) => work({ ...request, attempt }));
      } catch (error) {
        if ((error as Error).name !== KILLED) throw error;
      }
    }
  }

  async #retried<T>(errors: string[], work: (attempt: number) => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await work(attempt);
      } catch (error) {
        const { name } = error as Error;
        errors.push(name);
        if (!RETRYABLE.has(name) || attempt + 1 >= ATTEMPTS) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY.capMs));
      }
    }
  }

  #dependencies() {
    return {
      storage: this.#pipeline.storage,
      store: this.store,
      environment: readEnvironment(this.#variables),
      table: this.#pipeline.table,
      remainingMs: () => LAMBDA_MS,
      requestId: randomUUID(),
    };
  }

  #plannerDependencies() {
    return {
      ...this.#dependencies(),
      isRunning: async (arn: string) => this.#pipeline.running.has(arn),
      scorers: askedOf(this.scorers).length,
      checkJudgeModel: async () => undefined,
      chances: new DrawChances(this.#dependencies().environment, this.#pipeline.table),
    };
  }

  count(keys: string[] = [this.key()]): Promise<Count> {
    return this.do<Count>('count', { bucket: CAPTURES, keys });
  }

  traceIds(key = this.key()): Promise<string[]> {
    return this.do<string[]>('trace_ids', { bucket: CAPTURES, keys: [key] });
  }

  do<T>(command: string, more: Record<string, unknown> = {}): Promise<T> {
    return this.#pipeline.reader.do<T>({ do: command, experiment: this.endpoint, ...more });
  }
}
