/** A scripted MLflow server with clients, for each test of a file or of a `describe` block. */
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from '../../src/mlflow/client.ts';
import { type ScriptedMlflow, startScriptedMlflow } from '../doubles/scripted-mlflow.ts';

export interface UsedMlflow {
  server: ScriptedMlflow;
  client: MlflowClient;
  /** Starts the server of a test, with `client`. Both stop after the test. */
  start: (version?: string) => Promise<void>;
  /** @returns another client of the server */
  connect: (options?: Partial<MlflowClientOptions>) => MlflowClient;
}

/**
 * @param defaults the options of each client
 * @returns an object whose server and client are those of the test that started them
 */
export function useScriptedMlflow(defaults: Partial<MlflowClientOptions> = {}): UsedMlflow {
  const clients: MlflowClient[] = [];
  const mlflow = {} as UsedMlflow;
  mlflow.connect = (options) => {
    const client = createMlflowClient({ trackingUri: mlflow.server.url, ...defaults, ...options });
    clients.push(client);
    return client;
  };
  mlflow.start = async (version) => {
    mlflow.server = await startScriptedMlflow(version === undefined ? {} : { version });
    mlflow.client = mlflow.connect();
  };
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await mlflow.server.stop();
  });
  return mlflow;
}
