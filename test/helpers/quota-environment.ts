/** A deployed stack whose functions reach AWS, MLflow and the judge through the quota shim. */
import { freePort } from '../../local/machine/free-port.ts';
import { makeOwnFolder, removeFolder } from '../../local/machine/own-folder.ts';
import type { Log } from '../../local/python/python-environment.ts';
import type { BehaviorInput } from '../../local/stand-in-judge/behavior.ts';
import { type LocalEnvironment, startEnvironment } from '../../local/start/environment.ts';
import type { QuotaLimits } from '../doubles/quota-shim/limits.ts';
import { type QuotaShim, startQuotaShim } from '../doubles/quota-shim/quota-shim.ts';
import { DeployedPipeline } from './deployed-pipeline.ts';

interface QuotaEnvironmentOptions {
  endpoint: string;
  limits: QuotaLimits;
  /** Additional settings of the stack. */
  settings?: Record<string, string>;
  judge?: BehaviorInput;
  /** Scales the waits of Step Functions. Default: 1. */
  waitScale?: number;
  log?: Log;
}

export class QuotaEnvironment {
  readonly environment: LocalEnvironment;
  readonly pipeline: DeployedPipeline;
  readonly shim: QuotaShim;
  readonly endpoint: string;
  readonly #directory: string;

  private constructor(parts: Pick<QuotaEnvironment, 'environment' | 'pipeline' | 'shim' | 'endpoint'>, folder: string) {
    this.environment = parts.environment;
    this.pipeline = parts.pipeline;
    this.shim = parts.shim;
    this.endpoint = parts.endpoint;
    this.#directory = folder;
  }

  static async start({ endpoint, limits, settings, judge, waitScale, log }: QuotaEnvironmentOptions) {
    const directory = makeOwnFolder('quotas');
    const [awsPort, mlflowPort, judgePort] = [await freePort(), await freePort(), await freePort()];
    const at = (port: number): string => `http://127.0.0.1:${port}`;
    const behind = { aws: at(awsPort), mlflow: at(mlflowPort), judge: at(judgePort) };
    const shim = await startQuotaShim(behind, limits, directory);
    let environment: LocalEnvironment | undefined;
    try {
      environment = await startEnvironment({
        awsPort,
        mlflowPort,
        judgePort,
        judge: { behavior: judge, keepCalls: 0 },
        awsEnv: { ...shim.env, ...(waitScale === undefined ? {} : { SFN_WAIT_SCALE: String(waitScale) }) },
        ...(log ? { log } : {}),
      });
      const outputs = await environment.deployStack({
        STACK_PREFIX: 'quotas',
        SAGEMAKER_ENDPOINT_NAME: endpoint,
        MLFLOW_TRACKING_URI: shim.urls.mlflow,
        ...settings,
      });
      await environment.mlflow;
      const pipeline = new DeployedPipeline(environment, 'quotas', outputs);
      // Deploying is not what is measured.
      shim.counts.forget();
      return new QuotaEnvironment({ environment, pipeline, shim, endpoint }, directory);
    } catch (error) {
      await environment?.stop();
      await shim.stop();
      removeFolder(directory);
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.environment.stop();
    await this.shim.stop();
    removeFolder(this.#directory);
  }

  key(name: string, hour = 10): string {
    return `${this.endpoint}/AllTraffic/2026/11/20/${String(hour).padStart(2, '0')}/${name}.jsonl`;
  }
}
