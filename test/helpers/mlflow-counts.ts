/** Counts what MLflow has, trace by trace, without the product's code. */

interface Assessment {
  assessment_name: string;
  source: { source_type: string };
  feedback?: { value?: unknown; error?: object };
  valid?: boolean;
}

interface TraceInfo {
  trace_id: string;
  request_time: string;
  state: string;
  tags: Record<string, string>;
  assessments?: Assessment[];
}

export interface MlflowCounts {
  captures: number;
  errorReplies: number;
  /** By scorer. */
  verdicts: Record<string, number>;
  /** By scorer and value, as `safety yes`; without numbers. */
  values: Record<string, number>;
}

async function tracesOf(url: string, experiment: string): Promise<TraceInfo[]> {
  const named = `${url}/api/2.0/mlflow/experiments/get-by-name?experiment_name=${encodeURIComponent(experiment)}`;
  const found = (await (await fetch(named)).json()) as { experiment: { experiment_id: string } };
  const { experiment_id } = found.experiment;
  const traces: TraceInfo[] = [];
  for (let page_token: string | undefined; ; ) {
    const body = {
      locations: [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id } }],
      max_results: 100,
      ...(page_token ? { page_token } : {}),
    };
    const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    const reply = await (await fetch(`${url}/api/3.0/mlflow/traces/search`, request)).json();
    const page = reply as { traces?: TraceInfo[]; next_page_token?: string };
    traces.push(...(page.traces ?? []));
    page_token = page.next_page_token;
    if (!page_token) return traces;
  }
}

/** Counts the traces and the valid verdicts of an experiment, by the hour of the inference. */
export async function countsInMlflow(url: string, experiment: string): Promise<Record<string, MlflowCounts>> {
  const counts: Record<string, MlflowCounts> = {};
  for (const { request_time, state, assessments = [] } of await tracesOf(url, experiment)) {
    const hour = new Date(request_time).toISOString().slice(0, 13);
    counts[hour] ??= { captures: 0, errorReplies: 0, verdicts: {}, values: {} };
    const { verdicts, values } = counts[hour];
    counts[hour].captures += 1;
    if (state === 'ERROR') counts[hour].errorReplies += 1;
    for (const { assessment_name: name, source, feedback, valid } of assessments) {
      const value = feedback?.value;
      if (valid === false || source.source_type === 'HUMAN' || value === undefined || value === null) continue;
      verdicts[name] = (verdicts[name] ?? 0) + 1;
      if (typeof value !== 'number') values[`${name} ${value}`] = (values[`${name} ${value}`] ?? 0) + 1;
    }
  }
  return counts;
}
