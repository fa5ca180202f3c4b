/** Servers for cloud replays with a judge and MLflow: endpoint, MLflow server, stand-in judge, and the budget's table. */
import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { mlflowEnvironment } from '../../local/python/python-presets.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import { readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { PAIRWISE_SCORER, pairwiseJudge } from '../../src/judge/pairwise.ts';
import { readParameters } from '../../src/judge/parameters.ts';
import { priceCall, priceOptions } from '../../src/judge/pricing/prices.ts';
import { openAiTransport } from '../../src/judge/transports/openai.ts';
import type { Judge } from '../../src/judge/types.ts';
import { Budget, runScope } from '../../src/limits/budget.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { pairReader } from '../../src/monitoring/evaluate/reply-pair.ts';
import { DrawChances } from '../../src/monitoring/plan/draw-chances.ts';
import { runOptions } from '../../src/monitoring/plan/input.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { readManifest } from '../../src/monitoring/receipts.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { emulated } from './emulated.ts';
import { createItemTable } from './item-table.ts';
import { MlflowApi } from './mlflow-api.ts';
import { type MlflowReader, startMlflowReader } from './mlflow-reader.ts';
import { CloudReplays, type CloudRun, VARIABLES, WORK } from './replay-cloud.ts';
import { readSpending } from './spending.ts';

const TABLE = 'budget';
const JUDGE = 'openai:/stand-in';
/** US dollars per million tokens. */
export const JUDGE_PRICES = JSON.stringify({ [JUDGE]: { input: 1, output: 5 } });
export const JUDGE_MODEL = JUDGE;

export class EvaluatedReplays extends MlflowApi {
  readonly cloud!: CloudReplays;
  readonly mlflow!: MlflowServer;
  readonly standIn!: StandInJudge;
  /** Repeats the prompt, except for secrets, and records all requests. */
  readonly endpoint!: StandInEndpoint;
  /** Proxies of MLflow and of the judge, which pass everything on unless a test sets a rule. */
  readonly mlflowProxy!: MisbehavingServer;
  readonly judgeProxy!: MisbehavingServer;
  readonly client: MlflowClient;
  readonly reader!: MlflowReader;
  readonly #dynamo: DynamoDBClient;
  readonly #judge: Judge;
  /** Of the budget, of locks, and of what was sent before. */
  readonly #table: LimitsTable;
  readonly #answers: LimitsTable;

  private constructor(
    parts: Pick<EvaluatedReplays, 'cloud' | 'mlflow' | 'standIn' | 'endpoint' | 'mlflowProxy' | 'judgeProxy'>,
    reader: MlflowReader,
  ) {
    super(parts.mlflow.url);
    Object.assign(this, parts, { reader });
    const { aws } = parts.cloud;
    this.#dynamo = new DynamoDBClient(emulated(aws.url));
    const retry = { attempts: 3, baseMs: 5, capMs: 20 };
    this.client = createMlflowClient({ trackingUri: this.mlflowProxy.url, retry, s3: parts.cloud.s3 });
    const settings = readReplayEnvironment({
      ...VARIABLES,
      MLFLOW_TRACKING_URI: this.mlflowProxy.url,
      BEDROCK_MODEL_ID: JUDGE,
      JUDGE_PRICES,
      EVALUATION_BUDGET_USD: '20',
    });
    const prices = priceOptions(settings);
    this.cloud.settings = settings;
    this.cloud.mlflow = async () => this.client;
    const where = { model: JUDGE.replace('openai:/', ''), baseUrl: `${this.judgeProxy.url}/v1`, apiKey: 'k' };
    this.#judge = createJudgeOver(openAiTransport({ ...where, parameters: readParameters() }), {
      price: (usage) => priceCall(JUDGE, usage, prices),
      retry: { baseMs: 1, capMs: 5, attempts: 3 },
    });
    this.#table = new LimitsTable(this.#dynamo, TABLE);
    this.#answers = new LimitsTable(this.#dynamo, 'answers');
  }

  /**
   * @param version MLflow's version. Default: the newest tested one
   * @param artifactRoot where clients upload artifacts. Default: to the server
   */
  static async start(version?: string, artifactRoot?: string): Promise<EvaluatedReplays> {
    // For clients without explicit credentials.
    process.env.AWS_ACCESS_KEY_ID = 'test';
    process.env.AWS_SECRET_ACCESS_KEY = 'test';
    const [cloud, mlflow, standIn, endpoint] = await Promise.all([
      CloudReplays.start(),
      startMlflowServer({ ...(version === undefined ? {} : { version }), ...(artifactRoot ? { artifactRoot } : {}) }),
      startStandInJudge(),
      startStandInEndpoint({
        latencyMs: 5,
        record: true,
        answer: ({ prompt }) => (prompt.includes('secret') ? 'I do not know.' : `You asked: ${prompt}`),
      }),
    ]);
    const mlflowProxy = await startMisbehavingServer({ upstream: mlflow.url });
    const judgeProxy = await startMisbehavingServer({ upstream: standIn.url });
    const reader = startMlflowReader(await mlflowEnvironment(version), mlflow.url);
    const all = new EvaluatedReplays({ cloud, mlflow, standIn, endpoint, mlflowProxy, judgeProxy }, reader);
    for (const table of [TABLE, 'answers']) await createItemTable(cloud.aws.url, table);
    return all;
  }

  async stop(): Promise<void> {
    this.client.close();
    this.#dynamo.destroy();
    await this.reader.close();
    await this.mlflowProxy.stop();
    await this.judgeProxy.stop();
    await this.endpoint.close();
    await this.standIn.close();
    await this.mlflow.stop();
    await this.cloud.stop();
  }

  /** Removes all rules of the proxies and all recorded requests. */
  heal(): void {
    this.standIn.forget();
    this.endpoint.requests.length = 0;
    for (const proxy of [this.mlflowProxy, this.judgeProxy]) {
      proxy.rule(() => undefined);
      proxy.requests.length = 0;
    }
  }

  /** The cost of judging a replay according to the budget, US dollars. */
  async paidUsd(run: CloudRun): Promise<number> {
    const name = (await run.stored()).mlflow?.monitoringRun ?? '';
    return (await readSpending({ client: this.#dynamo, table: TABLE }, runScope(name))).spentUsd;
  }

  /**
   * Traces and judges the exchanges of a replay: one attempt at each chunk of the run that its summary has started.
   *
   * @param attempt from 0; of a later one, planning is over
   * @returns the first error of a chunk, if there was one, and the summary
   */
  async monitor(run: CloudRun, attempt = 0): Promise<{ error?: Error; summary: RunSummary }> {
    const { storage, settings: environment, started } = this.cloud;
    const name = (await run.stored()).mlflow?.monitoringRun ?? '';
    const input = started.get(name);
    if (input === undefined) throw new Error(`Nothing has started ${name}`);
    const execution = { name, arn: `arn:aws:states:us-east-1:0:execution:monitoring:${name}`, startTime: '2026-11-20' };
    const remainingMs = (): number => 300_000;
    if (attempt === 0) {
      const request = { input, run: execution, part: 0, nextChunk: 0, cursor: null };
      await planCaptures(request, {
        ...{ storage, environment, remainingMs, store: this.client, scorers: 9 },
        isRunning: async () => false,
        chances: new DrawChances(environment, this.#table),
        checkJudgeModel: async () => undefined,
      });
    }
    let error: Error | undefined;
    for await (const chunk of readManifest({ storage, workBucket: WORK }, name)) {
      const options = runOptions(input, { sampleRate: 0 });
      const request: ChunkRequest = { run: name, chunk, options, attempt };
      const requestId = randomUUID();
      const writing = { storage, environment, remainingMs, store: this.client, table: this.#table, requestId };
      const step = options.evaluate
        ? evaluateChunk(request, {
            ...writing,
            judge: pairwiseJudge(this.#judge, pairReader(storage, environment)),
            scorers: [PAIRWISE_SCORER],
            always: () => undefined,
            limit: new Budget({ table: this.#table, dailyUsd: 20, runUsd: options.budgetUsd, run: name }),
            answers: this.#answers,
          })
        : logChunk(request, writing);
      await step.catch((failure: Error) => {
        error ??= failure;
      });
    }
    const summary = await summarizeRun({ storage, workBucket: WORK }, execution);
    return { ...(error ? { error } : {}), summary };
  }
}
