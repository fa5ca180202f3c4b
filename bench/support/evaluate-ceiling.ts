/**
 * What MLflow itself can take: verdicts of as many traces as our side writes, posted by a bare client that does nothing
 * else, to an idle server. No pipeline that writes to this server can be faster.
 */
const ASSESSMENTS = 16;

async function post(url: string, path: string, body: unknown): Promise<Record<string, unknown>> {
  const reply = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!reply.ok) throw new Error(`MLflow refused; got: HTTP ${reply.status} ${await reply.text()}; where: ${path}`);
  return (await reply.json()) as Record<string, unknown>;
}

interface TraceInfo {
  trace_id: string;
  trace_location: unknown;
  request_time: string;
  state: string;
}

/** @returns traces a second, at the concurrency that is best for the server. */
export async function assessmentCeiling(url: string, experiment: string): Promise<number> {
  const found = await fetch(`${url}/api/2.0/mlflow/experiments/get-by-name?experiment_name=${experiment}`);
  const { experiment: facts } = (await found.json()) as { experiment: { experiment_id: string } };
  const location = { type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: facts.experiment_id } };
  const page = await post(url, '/api/3.0/mlflow/traces/search', { locations: [location], max_results: 300 });
  const traces = page.traces as TraceInfo[];
  let best = 0;
  const share = Math.floor(traces.length / 3);
  for (const [index, atOnce] of [1, 2, 4].entries()) {
    const mine = traces.slice(index * share, (index + 1) * share);
    const next = mine.values();
    const startedAt = performance.now();
    const worker = async (): Promise<void> => {
      for (const trace of next) await post(url, '/api/3.0/mlflow/traces', { trace: { trace_info: verdictsOf(trace) } });
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    best = Math.max(best, (mine.length * 1000) / (performance.now() - startedAt));
  }
  return best;
}

function verdictsOf({ trace_id, trace_location, request_time, state }: TraceInfo) {
  const assessments = Array.from({ length: ASSESSMENTS }, (_, n) => ({
    assessment_id: `a-${trace_id.slice(3, 31)}${String(n).padStart(4, '0')}`,
    assessment_name: `scorer_${n}`,
    trace_id,
    source: { source_type: 'LLM_JUDGE', source_id: 'bedrock:/model' },
    create_time: new Date().toISOString(),
    last_update_time: new Date().toISOString(),
    feedback: { value: 'yes' },
    rationale: 'A sentence of the length that a rationale has, more or less, in everyday use.',
    metadata: { 'mlflow.assessment.scorerName': `scorer_${n}`, 'mlflow.assessment.judgeCost': '0.001' },
    valid: true,
  }));
  return { trace_id, trace_location, request_time, state, assessments };
}
