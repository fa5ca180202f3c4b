/** A cloud replay whose functions run in this process, with an emulated S3. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { ExchangesInput } from '../../src/core/contract/input.ts';
import {
  type EndedExecution,
  type ReplayPlanResult,
  replayEndSchema,
  type SummarizeReplayResult,
} from '../../src/core/contract/replay.ts';
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { type ReplayEnvironment, readReplayEnvironment } from '../../src/core/settings/environment.ts';
import type { ModelCheck } from '../../src/judge/model-check.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { START_LEAD_MS } from '../../src/replay/cloud/limits.ts';
import { planReplay } from '../../src/replay/cloud/plan/plan-replay.ts';
import { replayShard, type ShardCounts } from '../../src/replay/cloud/shard/shard.ts';
import { summarizeReplay } from '../../src/replay/cloud/summarize/summarize-replay.ts';
import type { StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import { emulated } from './emulated.ts';
import type { ReplayRecord } from './replay.ts';
import { TEST_VARIABLES } from './test-environment.ts';

export const CAPTURES = 'captures';
export const WORK = 'work';
export const PREFIX = 'my-endpoint/';
/** More time than any function needs. */
const PLENTY_MS = 900_000;

export const VARIABLES = {
  ...TEST_VARIABLES,
  WORK_BUCKET: WORK,
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: CAPTURES,
  DATA_CAPTURE_S3_PREFIX: PREFIX,
  MLFLOW_EXPERIMENT_NAME: 'my-endpoint',
  BEDROCK_MODEL_ID: 'openai:/test',
  EVALUATION_BUDGET_USD: '0',
  REPLAY_ENDPOINT_NAMES: 'my-endpoint-v2, other',
  AWS_REGION: 'us-east-1',
};

export class CloudReplays {
  readonly aws: MiniStack;
  readonly s3: S3Client;
  readonly storage: Storage;
  /** Tests with a judge or MLflow replace theirs. */
  settings = readReplayEnvironment(VARIABLES);
  mlflow: () => Promise<MlflowClient> = () => Promise.reject(new Error('This test has no MLflow'));
  checkJudgeModel: () => Promise<ModelCheck | undefined> = async () => undefined;
  /** The runs of the monitoring that summaries have started, by name. */
  readonly started = new Map<string, ExchangesInput>();
  #runs = 0;

  private constructor(aws: MiniStack) {
    this.aws = aws;
    this.s3 = new S3Client(emulated(aws.url));
    this.storage = new Storage(this.s3);
  }

  static async start(): Promise<CloudReplays> {
    const cloud = new CloudReplays(await startMiniStack());
    for (const Bucket of [CAPTURES, WORK]) await cloud.s3.send(new CreateBucketCommand({ Bucket }));
    return cloud;
  }

  async stop(): Promise<void> {
    this.s3.destroy();
    await this.aws.stop();
  }

  /** Uploads a capture file for the hour from 10:00. */
  async put(name: string, lines: readonly string[]): Promise<string> {
    const Key = `${PREFIX}AllTraffic/2026/11/20/10/${name}.jsonl`;
    await this.storage.putText(CAPTURES, Key, `${lines.join('\n')}\n`);
    return Key;
  }

  async keys(prefix: string): Promise<string[]> {
    const found = await Array.fromAsync(this.storage.list(WORK, prefix));
    return found.map(({ key }) => key.slice(prefix.length));
  }

  async text(key: string): Promise<string> {
    return (await this.storage.getText(WORK, key))?.text ?? '';
  }

  lines<T>(key: string): Promise<T[]> {
    return this.storage.getJsonLines<T>(WORK, key);
  }

  run(input: object, environment: Partial<ReplayEnvironment> = {}, name = `run-${this.#runs++}`): CloudRun {
    // Only the target of this run, on this machine as the emulator is.
    const { url } = (input as { target?: { url?: string } }).target ?? {};
    const REPLAY_URLS = url === undefined || !URL.canParse(url) ? [] : [new URL(url).origin];
    const doors = { REPLAY_URLS, AWS_ENDPOINT_URL: this.aws.url };
    return new CloudRun(this, input, { ...doors, ...environment }, name);
  }
}

export class CloudRun {
  readonly #cloud: CloudReplays;
  readonly #input: object;
  readonly #own: Partial<ReplayEnvironment>;
  readonly name: string;

  constructor(cloud: CloudReplays, input: object, own: Partial<ReplayEnvironment>, name: string) {
    this.#cloud = cloud;
    this.#input = input;
    this.#own = own;
    this.name = name;
  }

  get #environment(): ReplayEnvironment {
    return { ...this.#cloud.settings, ...this.#own };
  }

  get #execution() {
    return { name: this.name, arn: `arn:aws:states:us-east-1:0:execution:replay:${this.name}`, startTime: '' };
  }

  /** @param startsInMs time until the clock starts; negative: it has already started */
  plan(startsInMs: number, remainingMs: number | (() => number) = PLENTY_MS): Promise<ReplayPlanResult> {
    const { storage, mlflow, checkJudgeModel } = this.#cloud;
    return planReplay(
      { input: this.#input, run: this.#execution },
      {
        storage,
        environment: this.#environment,
        mlflow,
        checkJudgeModel,
        redacted: async () => this.#environment,
        remainingMs: typeof remainingMs === 'number' ? () => remainingMs : remainingMs,
        now: () => Date.now() - START_LEAD_MS + startsInMs,
      },
    );
  }

  async stored(): Promise<StoredPlan> {
    return JSON.parse(await this.#cloud.text(replayKeys.plan(this.name))) as StoredPlan;
  }

  /** @param directory of its files. Default: a new one */
  shard(shard: number, remainingMs = PLENTY_MS, directory?: string): Promise<ShardCounts> {
    const { storage } = this.#cloud;
    const until = Date.now() + remainingMs;
    return replayShard(
      { run: this.name, shard },
      {
        storage,
        environment: this.#environment,
        redacted: async () => this.#environment,
        remainingMs: () => until - Date.now(),
        ...(directory === undefined ? {} : { directory }),
      },
    );
  }

  /** Summarizes the replay at the end of its execution. */
  summarize(error?: { Error: string; Cause: string }): Promise<SummarizeReplayResult> {
    return this.#end({ run: this.#execution, error });
  }

  /** Ends the replay after its execution was stopped or has failed. */
  ended(status: EndedExecution['detail']['status']): Promise<Partial<SummarizeReplayResult>> {
    return this.#end({ detail: { executionArn: this.#execution.arn, status } });
  }

  /** Calls the function with a request that passed through JSON, as from the state machine. */
  #end(request: object): Promise<SummarizeReplayResult> {
    const { storage, started, mlflow } = this.#cloud;
    const startMonitoring = async (run: string, input: ExchangesInput): Promise<string> => {
      started.set(run, input);
      return `arn:aws:states:us-east-1:0:execution:monitoring:${run}`;
    };
    return summarizeReplay(replayEndSchema.parse(JSON.parse(JSON.stringify(request))), {
      ...{ storage, workBucket: WORK, mlflow, startMonitoring },
      remainingMs: () => PLENTY_MS,
    }) as Promise<SummarizeReplayResult>;
  }

  /** Plans, sends all shards concurrently, and summarizes. */
  async all(startsInMs: number): Promise<SummarizeReplayResult> {
    const { shards } = await this.plan(startsInMs);
    await this.replay(shards);
    return this.summarize();
  }

  /** Sends all shards concurrently. */
  async replay(shards: number): Promise<void> {
    await Promise.all(Array.from({ length: shards }, (_, shard) => this.shard(shard)));
  }

  result(name: string): Promise<string> {
    return this.#cloud.text(`${areaOf('replayResults', this.name)}${name}`);
  }

  async json<T = Record<string, unknown>>(name: string): Promise<T> {
    return JSON.parse(await this.result(name)) as T;
  }

  /** Reads the files of this name of all shards: their lines, or the JSON of each. */
  async parts<T>(name: string): Promise<T[]> {
    const { parts } = await this.json<{ parts: string[] }>('replay.json');
    const prefix = replayKeys.prefix(this.name);
    const read = (key: string): Promise<T[]> =>
      name.endsWith('l') ? this.#cloud.lines<T>(key) : this.#cloud.text(key).then((text) => [JSON.parse(text)]);
    return (await Promise.all(parts.map((part) => read(`${prefix}${part}${name}`)))).flat();
  }

  records(): Promise<ReplayRecord[]> {
    return this.parts<ReplayRecord>(FILES.records);
  }

  results(): Promise<string[]> {
    return this.#cloud.keys(areaOf('replayResults', this.name));
  }

  /** Copies the figures to a folder, and joins the parts of the other files of AIPerf. */
  async download(directory: string): Promise<string> {
    mkdirSync(directory, { recursive: true });
    for (const name of await this.results()) writeFileSync(join(directory, name), await this.result(name));
    const records = (await this.records()).map((record) => `${JSON.stringify(record)}\n`);
    writeFileSync(join(directory, FILES.records), records.join(''));
    const inputs = await this.parts<{ data: object[] }>(FILES.inputs);
    writeFileSync(join(directory, FILES.inputs), JSON.stringify({ data: inputs.flatMap(({ data }) => data) }));
    return directory;
  }
}
