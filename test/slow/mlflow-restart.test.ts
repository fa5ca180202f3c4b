/** A write to MLflow while its server is restarted. */
import { startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { chatTrace } from '../helpers/mlflow-traces.ts';

let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
beforeAll(async () => {
  mlflow = await startPlainMlflow();
});
afterAll(() => mlflow?.stop());

test('a restart of the server during a write loses no trace and duplicates none', async () => {
  const { port } = new URL(mlflow.server.url);
  const experiment = await mlflow.client.resolveExperiment('restart');
  const traces = Array.from({ length: 400 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
  // Starting a server can take minutes on a busy machine.
  const patient = createMlflowClient({ trackingUri: mlflow.server.url, retry: { attempts: 600, capMs: 1_000 } });
  const writing = patient.writeTraces(experiment, traces);
  // By then the server has accepted a few requests. The one in flight is cut off.
  const ids = new Set(traces.map(({ traceId }) => traceId));
  while ((await mlflow.client.getTraces(experiment.id, [...ids])).size === 0) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await mlflow.server.stop();
  const directory = mlflow.server.directory;
  const again = await startMlflowServer({ directory, port: Number(port) });
  try {
    const { written, refused } = await writing;
    expect({ written: written.length, refused }).toEqual({ written: 400, refused: [] });
    expect((await patient.getTraces(experiment.id, [...ids])).size).toBe(400);
    const read = await mlflow.reader.search(experiment.id, "tag.sagemaker_endpoint_name = 'bicycle-endpoint'");
    expect(new Set(read.map(({ traceId }) => traceId))).toEqual(ids);
    expect(read.map(({ tokenUsage }) => tokenUsage?.total_tokens)).toEqual(Array(400).fill(38));
  } finally {
    patient.close();
    await again.stop();
  }
});
