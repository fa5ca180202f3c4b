/** A scripted MLflow server with a client, for each test of a file or of a `describe` block. */
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { type ScriptedMlflow, startScriptedMlflow } from '../doubles/scripted-mlflow.ts';

/** @returns an object whose properties are set before each test */
export function useScriptedMlflow(): { server: ScriptedMlflow; store: MlflowClient } {
  const mlflow = {} as { server: ScriptedMlflow; store: MlflowClient };
  beforeEach(async () => {
    mlflow.server = await startScriptedMlflow();
    mlflow.store = createMlflowClient({ trackingUri: mlflow.server.url });
  });
  afterEach(async () => {
    mlflow.store.close();
    await mlflow.server.stop();
  });
  return mlflow;
}
