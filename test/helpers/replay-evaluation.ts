/** Servers for cloud replays with a judge and MLflow: endpoint, MLflow server, stand-in judge, and the budget's table. */
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { mlflowEnvironment } from '../../local/python/python-presets.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { createJudge } from '../../src/judge/create-judge.ts';
import { priceCall, priceOptions } from '../../src/judge/pricing/prices.ts';
import { Budget, runScope } from '../../src/limits/budget.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { budgetRun } from '../../src/replay/cloud/evaluate/evaluate.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { type MlflowReader, startMlflowReader } from './mlflow-reader.ts';
import { fetchOnNewConnection } from './new-connection.ts';
import { CAPTURES, CloudReplays, type CloudRun, PREFIX, WORK } from './replay-cloud.ts';
import { readSpending } from './spending.ts';

const TABLE = 'budget';
const JUDGE = 'openai:/stand-in';
/** US dollars per million tokens. */
export const JUDGE_PRICES = JSON.stringify({ [JUDGE]: { input: 1, output: 5 } });
export const JUDGE_MODEL = JUDGE;

export interface RunInMlflow {
  info: { run_id: string; run_name: string; status: string; end_time?: number; artifact_uri: string };
  data: {
    metrics?: { key: string; value: number }[];
    params?: { key: string; value: string }[];
    tags?: { key: string; value: string }[];
  };
}

export class EvaluatedReplays {
  readonly cloud: CloudReplays;
  readonly mlflow: MlflowServer;
  readonly standIn: StandInJudge;
  /** Repeats the prompt, except for secrets, and records all requests. */
  readonly endpoint: StandInEndpoint;
  /** Proxies of MLflow and of the judge, which pass everything on unless a test sets a rule. */
  readonly mlflowProxy: MisbehavingServer;
  readonly judgeProxy: MisbehavingServer;
  readonly client: MlflowClient;
  readonly reader: MlflowReader;
  readonly #dynamo: DynamoDBClient;

  private constructor(
    parts: Pick<EvaluatedReplays, 'cloud' | 'mlflow' | 'standIn' | 'endpoint' | 'mlflowProxy' | 'judgeProxy'>,
    reader: MlflowReader,
  ) {
    this.cloud = parts.cloud;
    this.mlflow = parts.mlflow;
    this.standIn = parts.standIn;
    this.endpoint = parts.endpoint;
    this.mlflowProxy = parts.mlflowProxy;
    this.judgeProxy = parts.judgeProxy;
    this.reader = reader;
    const { aws } = parts.cloud;
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    this.#dynamo = new DynamoDBClient({ endpoint: aws.url, region: aws.region, credentials });
    const retry = { attempts: 3, baseMs: 5, capMs: 20 };
    this.client = createMlflowClient({ trackingUri: this.mlflowProxy.url, retry, s3: parts.cloud.s3 });
    const settings = readEnvironment({
      STACK_PREFIX: 'test',
      WORK_BUCKET: WORK,
      SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
      DATA_CAPTURE_S3_BUCKET: CAPTURES,
      DATA_CAPTURE_S3_PREFIX: PREFIX,
      MLFLOW_TRACKING_URI: this.mlflowProxy.url,
      MLFLOW_EXPERIMENT_NAME: 'my-endpoint',
      BEDROCK_MODEL_ID: JUDGE,
      JUDGE_PRICES,
      EVALUATION_BUDGET_USD: '20',
    });
    const prices = priceOptions(settings);
    this.cloud.settings = settings;
    this.cloud.mlflow = async () => this.client;
    this.cloud.judge = async () =>
      createJudge({
        model: JUDGE,
        baseUrl: `${this.judgeProxy.url}/v1`,
        apiKey: 'k',
        price: (usage) => priceCall(JUDGE, usage, prices),
        retry: { baseMs: 1, capMs: 5, attempts: 3 },
      });
    this.cloud.limit = (run, runUsd) =>
      new Budget({
        table: new LimitsTable(this.#dynamo, TABLE),
        dailyUsd: settings.EVALUATION_BUDGET_USD,
        runUsd,
        run,
      });
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
    await all.#dynamo.send(
      new CreateTableCommand({
        TableName: TABLE,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
        KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
      }),
    );
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

  /** The cost of a replay according to the budget, US dollars. */
  async paidUsd(run: CloudRun): Promise<number> {
    const { spentUsd } = await readSpending({ client: this.#dynamo, table: TABLE }, runScope(budgetRun(run.name)));
    return spentUsd;
  }

  /** Calls EvaluateReplay until each shard is done, as the state machine does. */
  async evaluateAll(run: CloudRun, shards: number): Promise<void> {
    for (let shard = 0; shard < shards; shard++) {
      while (!(await run.evaluate(shard)).done);
    }
  }

  async api<T = Record<string, unknown>>(path: string, body?: object): Promise<T> {
    const reply = await fetchOnNewConnection(`${this.mlflow.url}/api/${path}`, {
      ...(body ? { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}),
    });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    return (await reply.json()) as T;
  }

  async experimentId(name: string): Promise<string> {
    type Reply = { experiment: { experiment_id: string } };
    const query = new URLSearchParams({ experiment_name: name }).toString();
    return (await this.api<Reply>(`2.0/mlflow/experiments/get-by-name?${query}`)).experiment.experiment_id;
  }

  /** Finds the MLflow runs of a replay by their tag. */
  async runsOf(name: string, experiment = 'my-endpoint-replays'): Promise<RunInMlflow[]> {
    const found = await this.api<{ runs?: RunInMlflow[] }>('2.0/mlflow/runs/search', {
      experiment_ids: [await this.experimentId(experiment)],
    });
    return (found.runs ?? []).filter(({ data }) =>
      data.tags?.some(({ key, value }) => key === 'replay_run' && value === name),
    );
  }
}
