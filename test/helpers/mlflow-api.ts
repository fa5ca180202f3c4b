/** MLflow's REST API, to see what is stored without the product's client. */
import { fetchOnNewConnection } from './new-connection.ts';

export interface RunInMlflow {
  info: { run_id: string; run_name: string; status: string; end_time?: number; artifact_uri: string };
  data: {
    metrics?: { key: string; value: number }[];
    params?: { key: string; value: string }[];
    tags?: { key: string; value: string }[];
  };
}

export interface TraceInMlflow {
  trace_id: string;
  request_time: string;
  state: string;
  tags: Record<string, string>;
  assessments?: {
    assessment_name: string;
    source: { source_type: string };
    feedback?: { value?: unknown; error?: object };
    expectation?: { value: unknown };
    valid?: boolean;
  }[];
}

export class MlflowApi {
  readonly #url: string;

  /** @param url of the tracking server */
  constructor(url: string) {
    this.#url = url;
  }

  /** @param path after `/api/`. @param body is posted. Default: a GET */
  async api<T = Record<string, unknown>>(path: string, body?: object): Promise<T> {
    const reply = await fetchOnNewConnection(`${this.#url}/api/${path}`, {
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

  /** The traces of an experiment, by its name. @param filter as for `mlflow.search_traces` */
  async tracesIn(experiment: string, filter?: string): Promise<TraceInMlflow[]> {
    const locations = [
      { type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: await this.experimentId(experiment) } },
    ];
    const traces: TraceInMlflow[] = [];
    for (let page_token: string | undefined; ; ) {
      const page = await this.api<{ traces?: TraceInMlflow[]; next_page_token?: string }>('3.0/mlflow/traces/search', {
        ...{ locations, filter, page_token, max_results: 100 },
      });
      traces.push(...(page.traces ?? []));
      page_token = page.next_page_token;
      if (!page_token) return traces;
    }
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

  /** The names of a run's files, sorted. */
  async filesOf(run: RunInMlflow | undefined): Promise<string[]> {
    const path = `2.0/mlflow/artifacts/list?run_id=${run?.info.run_id}`;
    const { files = [] } = await this.api<{ files?: { path: string }[] }>(path);
    return files.map((file) => file.path).sort();
  }
}
