/**
 * Measures labels per second that a ground truth run writes to MLflow, against bare clients that post the same labels to the same
 * server and know nothing of people, traces and retries; and the requests per label.
 *
 * `--labels N` writes fewer, `--managed` measures the version of SageMaker's managed MLflow.
 */
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION, MANAGED_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { startMlflowServer } from '../local/servers/mlflow-server.ts';
import type { LabeledRow } from '../src/core/contract/ground-truth.ts';
import { forEachConcurrently } from '../src/core/process/concurrency.ts';
import { batches } from '../src/core/values/batches.ts';
import { publishLabels } from '../src/ground-truth/publish/publish-labels.ts';
import { createMlflowClient } from '../src/mlflow/client.ts';
import { assessmentJson } from '../src/mlflow/trace-json.ts';
import type { Experiment } from '../src/mlflow/types.ts';
import { startMisbehavingServer } from '../test/doubles/misbehaving-server.ts';
import { stepsOn } from '../test/helpers/ground-truth.ts';
import { LabeledHours, labeled } from '../test/helpers/labeled-rows.ts';
import { chatTrace, verdict } from '../test/helpers/mlflow-traces.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, machine, round } from './support/result.ts';

const OF_CEILING = 0.8;
const REQUESTS_PER_LABEL = 1.1;
/** As many as the product has in flight, and more. */
const AT_ONCE = [2, 4, 8];
const VERDICTS = 12;
/** The sides take turns, since others may use the machine too. */
const A_ROUND = 100;

interface Side {
  url: string;
  experiment: Experiment;
  rows: readonly LabeledRow[];
}

/** Returns the seconds of a run, from its hours to its hours. */
async function ours({ url, experiment, rows }: Side): Promise<number> {
  const hours = new LabeledHours();
  await hours.join(rows);
  const client = createMlflowClient({ trackingUri: url });
  const startedAt = performance.now();
  const { noted: published, notNoted } = await publishLabels(null, {
    ...stepsOn(hours.memory.storage, { MLFLOW_EXPERIMENT_NAME: experiment.name }),
    mlflow: async () => client,
  });
  const seconds = secondsSince(startedAt);
  client.close();
  if (published !== rows.length) throw new Error(`Labels are missing; got: ${published}, ${JSON.stringify(notNoted)}`);
  return seconds;
}

/** Returns those of clients that only post. */
async function bare({ url, rows }: Side, atOnce: number): Promise<number> {
  const startedAt = performance.now();
  await forEachConcurrently(atOnce, rows, async ({ traceId, label: value }) => {
    const own = { ...verdict(traceId, 'true_answer', { version: `${atOnce}`, value }), isExpectation: true } as const;
    const body = JSON.stringify({ assessment: assessmentJson(own) });
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(`${url}/api/3.0/mlflow/traces/${traceId}/assessments`, { method: 'POST', headers, body });
    if (!reply.ok) throw new Error(`MLflow answered ${reply.status} ${await reply.text()}`);
    await reply.arrayBuffer();
  });
  return secondsSince(startedAt);
}

const secondsSince = (startedAt: number): number => (performance.now() - startedAt) / 1000;

/** Makes judged traces, and labels of them. */
async function traced(url: string, labels: number): Promise<Side> {
  const client = createMlflowClient({ trackingUri: url });
  const experiment = await client.resolveExperiment('labels');
  const traces = Array.from({ length: labels }, (_, n) => chatTrace(experiment.id, `record ${n}`));
  const verdicts = ({ traceId }: { traceId: string }) =>
    Array.from({ length: VERDICTS }, (_, n) => verdict(traceId, `scorer_${n}`));
  await client.writeTraces(experiment, traces, new Map(traces.map((trace) => [trace.traceId, verdicts(trace)])));
  client.close();
  return { url, experiment, rows: traces.map(({ traceId }, n) => labeled(traceId, n % 2, { id: `id ${n}` })) };
}

async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const labels = numberFlag(flags, 'labels', 1000);
  const version = flags.includes('--managed') ? MANAGED_MLFLOW_VERSION : DEFAULT_MLFLOW_VERSION;
  const server = await startMlflowServer({ version });
  const counting = await startMisbehavingServer({ upstream: server.url });
  try {
    const side = await traced(server.url, labels + 2 * A_ROUND);
    const [counted = [], warm = [], ...rounds] = batches(side.rows, A_ROUND);
    await ours({ ...side, url: counting.url, rows: counted });
    const requests = counting.requests.length / counted.length;
    await ours({ ...side, rows: warm });
    let seconds = 0;
    const ofBare = AT_ONCE.map(() => 0);
    for (const [number, rows] of rounds.entries()) {
      seconds += await ours({ ...side, rows });
      for (const [at, atOnce] of AT_ONCE.entries())
        ofBare[at] = (ofBare[at] ?? 0) + (await bare({ ...side, rows }, atOnce));
      log(
        `${(number + 1) * A_ROUND} labels: ours ${seconds.toFixed(1)} s, bare ${ofBare.map((one) => one.toFixed(1))}`,
      );
    }
    const rate = (of: number): number => round(labels / of, 1);
    const [ratio, best] = [(ofBare[0] ?? 0) / seconds, Math.min(...ofBare) / seconds];
    return {
      name: 'labels',
      ratio: round(ratio),
      ours: { 'labels/s': rate(seconds), 'requests per label': round(requests, 3) },
      peer: Object.fromEntries(AT_ONCE.map((atOnce, at) => [`labels/s, ${atOnce} at once`, rate(ofBare[at] ?? 0)])),
      machine: machine(),
      versions: { node: process.version, 'MLflow server': version },
      checks: [
        atLeast('share of what as many bare clients reach', ratio, OF_CEILING),
        atMost('requests per label', requests, REQUESTS_PER_LABEL),
      ],
      notes: [
        `ours is ${round(best)} of the server’s ceiling, at the best concurrency of bare clients`,
        `each trace has ${VERDICTS} verdicts; reading the hours and keeping what was published is counted`,
      ],
    };
  } finally {
    await counting.stop();
    await server.stop();
  }
}

export default run;
