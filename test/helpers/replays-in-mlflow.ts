/** Reads the MLflow run of a replay, with figures and files, and its traces over REST. */
import { experimentId } from './experiment-id.ts';
import { fetchOnNewConnection } from './new-connection.ts';

interface Pair<T> {
  key: string;
  value: T;
}

export interface ReplayRun {
  id: string;
  name: string;
  status: string;
  /** Epoch ms; `null` while the run is open. */
  endMs: number | null;
  metrics: Record<string, number>;
  params: Record<string, string>;
  tags: Record<string, string>;
  /** Names of the run's files. */
  files: string[];
}

export interface TraceInfo {
  trace_id: string;
  state: string;
  tags: Record<string, string>;
  request_preview?: string;
  response_preview?: string;
}

const asObject = <T>(pairs: Pair<T>[] = []): Record<string, T> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, value]));

export class ReplaysInMlflow {
  readonly #url: string;

  /** @param url of the tracking server */
  constructor(url: string) {
    this.#url = url;
  }

  /** The runs of an experiment, by its name. */
  async runs(experiment: string): Promise<ReplayRun[]> {
    const found = (await this.#post('2.0/mlflow/runs/search', {
      experiment_ids: [await experimentId(this.#url, experiment)],
      order_by: ['attributes.start_time ASC'],
    })) as {
      runs?: {
        info: { run_id: string; run_name: string; status: string; end_time?: number };
        data: { metrics?: Pair<number>[]; params?: Pair<string>[]; tags?: Pair<string>[] };
      }[];
    };
    return Promise.all(
      (found.runs ?? []).map(async ({ info, data }) => ({
        id: info.run_id,
        name: info.run_name,
        status: info.status,
        endMs: info.end_time ?? null,
        metrics: asObject(data.metrics),
        params: asObject(data.params),
        tags: asObject(data.tags),
        files: await this.#files(info.run_id),
      })),
    );
  }

  /** The traces of an experiment, by its name. @param filter as for `mlflow.search_traces` */
  async traces(experiment: string, filter?: string): Promise<TraceInfo[]> {
    const experiment_id = await experimentId(this.#url, experiment);
    const found = (await this.#post('3.0/mlflow/traces/search', {
      locations: [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id } }],
      max_results: 500,
      filter,
    })) as { traces?: TraceInfo[] };
    return found.traces ?? [];
  }

  /** All values of a run's metric. */
  async history(run: string, metric: string): Promise<object[]> {
    const path = `2.0/mlflow/metrics/get-history?run_id=${run}&metric_key=${metric}`;
    const reply = await fetchOnNewConnection(`${this.#url}/api/${path}`);
    if (!reply.ok) throw new Error(`${path}: HTTP ${reply.status} ${await reply.text()}`);
    return ((await reply.json()) as { metrics?: object[] }).metrics ?? [];
  }

  async #files(run: string): Promise<string[]> {
    const reply = await fetchOnNewConnection(`${this.#url}/api/2.0/mlflow/artifacts/list?run_id=${run}`);
    if (!reply.ok) throw new Error(`artifacts/list: HTTP ${reply.status} ${await reply.text()}`);
    return (((await reply.json()) as { files?: { path: string }[] }).files ?? []).map(({ path }) => path);
  }

  async #post(path: string, body: object): Promise<object> {
    const reply = await fetchOnNewConnection(`${this.#url}/api/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!reply.ok) throw new Error(`${path}: HTTP ${reply.status} ${await reply.text()}`);
    return (await reply.json()) as object;
  }
}
