/** A deployed stack with proxies in front of S3 and MLflow, which inject faults. */
import { join } from 'node:path';
import { freePort } from '../../local/machine/free-port.ts';
import type { Log } from '../../local/python/python-environment.ts';
import { startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { type FaultProxy, startFaultProxy } from '../doubles/fault-proxy.ts';
import { DeployedPipeline } from './deployed-pipeline.ts';
import { type Count, type Equations, type FaultReader, startFaultReader } from './fault-reader.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from './local-environment.ts';

/** Shortens the waits between retries to a twentieth: the tests are about the retries, not the waits. */
const WAIT_SCALE = '0.05';

export interface FaultyOptions {
  endpoint: string;
  /** Additional settings of the stack. */
  settings?: Record<string, string>;
  log?: Log;
}

export class FaultyEnvironment {
  readonly environment!: LocalEnvironment;
  readonly pipeline!: DeployedPipeline;
  readonly endpoint!: string;
  readonly s3Proxy!: FaultProxy;
  readonly mlflowProxy!: FaultProxy;
  readonly reader!: FaultReader;
  #stopMlflow: () => Promise<void>;

  private constructor(
    parts: Pick<FaultyEnvironment, 'environment' | 'pipeline' | 'endpoint' | 's3Proxy' | 'mlflowProxy' | 'reader'>,
  ) {
    Object.assign(this, parts);
    this.#stopMlflow = async () => (await parts.environment.mlflow).stop();
  }

  static async start({ endpoint, settings, log }: FaultyOptions): Promise<FaultyEnvironment> {
    const awsPort = await freePort();
    const mlflowPort = await freePort();
    const [s3Proxy, mlflowProxy] = await Promise.all([
      startFaultProxy(`http://127.0.0.1:${awsPort}`),
      startFaultProxy(`http://127.0.0.1:${mlflowPort}`),
    ]);
    let environment: LocalEnvironment | undefined;
    try {
      environment = await startEnvironment({
        awsPort,
        mlflowPort,
        // S3 is the only AWS service that the functions reach through a proxy.
        awsEnv: { SFN_WAIT_SCALE: WAIT_SCALE, AWS_ENDPOINT_URL_S3: s3Proxy.url },
        ...(log ? { log } : {}),
      });
      const outputs = await environment.deployStack({
        STACK_PREFIX: 'faults',
        EVALUATION_SAMPLE_RATE: '1',
        SAGEMAKER_ENDPOINT_NAME: endpoint,
        MLFLOW_TRACKING_URI: mlflowProxy.url,
        // A function that is killed keeps its permit for a while. The next call must not have to wait for it.
        MAX_FUNCTIONS: '12',
        ...settings,
      });
      const { url } = await environment.mlflow;
      const reader = await startFaultReader(undefined, url, environment.ministack.env);
      const pipeline = new DeployedPipeline(environment, 'faults', outputs);
      return new FaultyEnvironment({ environment, pipeline, endpoint, s3Proxy, mlflowProxy, reader });
    } catch (error) {
      await environment?.stop();
      await Promise.all([s3Proxy.stop(), mlflowProxy.stop()]);
      throw error;
    }
  }

  /** The folder of MLflow’s database and artifacts. */
  get mlflowDirectory(): string {
    return join(this.environment.directory, 'mlflow');
  }

  get mlflowDatabase(): string {
    return join(this.mlflowDirectory, 'mlflow.db');
  }

  async stop(): Promise<void> {
    await this.reader.stop();
    await this.#stopMlflow();
    await this.environment.stop();
    await Promise.all([this.s3Proxy.stop(), this.mlflowProxy.stop()]);
  }

  heal(): void {
    this.s3Proxy.heal();
    this.mlflowProxy.heal();
    this.environment.judge.behave({});
  }

  /** Kills MLflow and starts it again with the same data at the same address. */
  async restartMlflow(): Promise<void> {
    await this.#stopMlflow();
    const port = Number(new URL(this.environment.mlflowUrl).port);
    const server = await startMlflowServer({ directory: this.mlflowDirectory, port });
    this.#stopMlflow = () => server.stop();
  }

  /**
   * Kills processes of a function, busy or idle, as a failing host does.
   *
   * @param pick selects the processes; by default all
   * @returns the number of killed processes
   */
  kill(which: 'processor' | 'evaluator', pick: (pids: number[]) => number[] = (pids) => pids): number {
    const pids = pick(this.pipeline.processesOf(which));
    for (const pid of pids) killQuietly(pid);
    return pids.length;
  }

  key(name: string, hour = 10): string {
    return `${this.endpoint}/AllTraffic/2026/11/20/${String(hour).padStart(2, '0')}/${name}.jsonl`;
  }

  /** Counts, with the Python reader, what MLflow has for these files. */
  count(keys: readonly string[]): Promise<Count> {
    return this.do<Count>('count', { bucket: CAPTURE_BUCKET, keys });
  }

  /** Computes both equations of a run with the Python reader. */
  equations(run: string): Promise<Equations> {
    return this.do<Equations>('equations', { workBucket: this.pipeline.outputs.workBucket, run });
  }

  do<T>(command: string, more: Record<string, unknown> = {}): Promise<T> {
    return this.reader.do<T>({ do: command, experiment: this.endpoint, ...more });
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // The process ended in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
