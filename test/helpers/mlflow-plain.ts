/** Starts a plain MLflow server of a version, with clients for its tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mlflowEnvironment } from '../../local/python/python-presets.ts';
import { startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { startMlflowReader } from './mlflow-reader.ts';

const RETRY = { baseMs: 20, capMs: 200 };

/** The limit for a first start, which creates a Python environment and downloads packages. */
export const START_LIMIT_MS = 300_000;

export async function startPlainMlflow(version?: string) {
  // A separate folder, so that a test can restart the server with its stored data.
  const directory = mkdtempSync(join(tmpdir(), 'mlflow-test-'));
  const server = await startMlflowServer({ directory, ...(version === undefined ? {} : { version }) });
  const proxy = await startMisbehavingServer({ upstream: server.url });
  const client = createMlflowClient({ trackingUri: server.url, retry: RETRY });
  const faulty = { client: createMlflowClient({ trackingUri: proxy.url, retry: RETRY }), proxy };
  const reader = startMlflowReader(await mlflowEnvironment(version), server.url);
  return {
    server,
    client,
    faulty,
    reader,
    version: server.version,
    stop: async () => {
      client.close();
      faulty.client.close();
      await reader.close();
      await proxy.stop();
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
