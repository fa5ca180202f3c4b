/** Starts a local SageMaker-managed MLflow: emulated S3, a real MLflow server of the same version, and the double. */
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { MANAGED_MLFLOW_VERSION, mlflowEnvironment } from '../../local/python/python-presets.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { createMlflowClient, type MlflowClient, type MlflowClientOptions } from '../../src/mlflow/client.ts';
import { type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import {
  type DoubleOptions,
  type SageMakerMlflowDouble,
  startSageMakerMlflowDouble,
} from '../doubles/sagemaker-mlflow.ts';
import { emulated } from './emulated.ts';
import { type MlflowReader, startMlflowReader } from './mlflow-reader.ts';

export const MANAGED_CREDENTIALS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  sessionToken: 'example-session-token',
};

export const MANAGED_ARN = 'arn:aws:sagemaker:us-east-1:123456789012:mlflow-app/app-ABC123DEF456';

type DoubleChanges = Partial<Pick<DoubleOptions, 'hidesVersion' | 'upstream' | 'version' | 'perSecond'>>;

export type ManagedMlflow = Awaited<ReturnType<typeof startManagedMlflow>>;

/** @param shared an emulated AWS that other servers use, too; `stop` leaves it running */
export async function startManagedMlflow(version: string = MANAGED_MLFLOW_VERSION, shared?: MiniStack) {
  const miniStack = shared ?? (await startMiniStack());
  const bucket = `mlflow-artifacts-${version}`;
  const s3 = new S3Client(emulated(miniStack.url));
  await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const pythonEnv = { ...miniStack.env, MLFLOW_S3_ENDPOINT_URL: miniStack.url };
  const server = await startMlflowServer({ version, artifactRoot: `s3://${bucket}/mlflow app`, env: pythonEnv });
  const doubles: SageMakerMlflowDouble[] = [];
  return {
    miniStack,
    server,
    bucket,
    s3,
    /** Environment variables for Python clients that read artifacts from the emulated S3. */
    pythonEnv,
    startDouble: async (options: DoubleChanges = {}) => {
      const given = { upstream: server.url, arn: MANAGED_ARN, credentials: MANAGED_CREDENTIALS, ...options };
      const double = await startSageMakerMlflowDouble(given);
      doubles.push(double);
      return double;
    },
    stop: async () => {
      await Promise.all(doubles.map((double) => double.stop()));
      s3.destroy();
      await server.stop();
      if (!shared) await miniStack.stop();
    },
  };
}

/** Clients of a managed server, one of them behind a proxy, and the reader of its results. */
export class ManagedSuite {
  readonly managed: ManagedMlflow;
  readonly double: SageMakerMlflowDouble;
  readonly reader: MlflowReader;
  readonly client: MlflowClient;
  readonly faulty: { client: MlflowClient; proxy: MisbehavingServer };
  readonly #clients: MlflowClient[] = [];

  private constructor(
    parts: Pick<ManagedSuite, 'managed' | 'double' | 'reader'>,
    proxy: MisbehavingServer,
    behindProxy: SageMakerMlflowDouble,
  ) {
    ({ managed: this.managed, double: this.double, reader: this.reader } = parts);
    this.client = this.connect(this.double);
    this.faulty = { client: this.connect(behindProxy), proxy };
  }

  static async start(): Promise<ManagedSuite> {
    const managed = await startManagedMlflow();
    const double = await managed.startDouble();
    const reader = startMlflowReader(
      await mlflowEnvironment(managed.server.version),
      managed.server.url,
      managed.pythonEnv,
    );
    // The proxy is between the double and the MLflow server. Before the double, it would change the signed host.
    const proxy = await startMisbehavingServer({ upstream: managed.server.url });
    const behindProxy = await managed.startDouble({ upstream: proxy.url });
    return new ManagedSuite({ managed, double, reader }, proxy, behindProxy);
  }

  get version(): string {
    return this.managed.server.version;
  }

  connect(double: SageMakerMlflowDouble, options: Partial<MlflowClientOptions> = {}): MlflowClient {
    const client = createMlflowClient({
      ...{ trackingUri: double.arn, customEndpoint: double.url, s3: this.managed.s3 },
      credentials: async () => MANAGED_CREDENTIALS,
      retry: { baseMs: 20, capMs: 200 },
      ...options,
    });
    this.#clients.push(client);
    return client;
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.reader.close();
    await this.faulty.proxy.stop();
    await this.managed.stop();
  }
}
