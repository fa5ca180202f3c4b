/** A deployed stack whose functions reach AWS, MLflow and the judge through the quota shim. */
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { freePort } from '../../local/machine/free-port.ts';
import { makeOwnFolder, removeFolder } from '../../local/machine/own-folder.ts';
import type { Log } from '../../local/python/python-environment.ts';
import { APP_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import type { BehaviorInput } from '../doubles/faulty-judge/behavior.ts';
import type { QuotaLimits } from '../doubles/quota-shim/limits.ts';
import { startQuotaShim } from '../doubles/quota-shim/quota-shim.ts';
import { DeployedPipeline } from './deployed-pipeline.ts';
import { type LocalEnvironment, startEnvironment } from './local-environment.ts';

interface QuotaEnvironmentOptions {
  endpoint: string;
  limits: QuotaLimits;
  /** Additional settings of the stack. */
  settings?: Record<string, string>;
  judge?: BehaviorInput;
  /** MLflow as SageMaker's App has it: without OTLP, and with span files that the functions put into S3. Default: the newest. */
  likeApp?: boolean;
  /** Scales the waits of Step Functions. Default: 1. */
  waitScale?: number;
  log?: Log;
}

/** The version of SageMaker's newest App. */
export const APP_VERSION = APP_MLFLOW_VERSIONS.at(-1) ?? '';
const ARTIFACTS = 'quota-artifacts';

export type QuotaEnvironment = Awaited<ReturnType<typeof startQuotaEnvironment>>;

export async function startQuotaEnvironment(options: QuotaEnvironmentOptions) {
  const { endpoint, limits, settings, judge, likeApp, waitScale, log } = options;
  const directory = makeOwnFolder('quotas');
  const [awsPort, mlflowPort, judgePort] = [await freePort(), await freePort(), await freePort()];
  const appPort = likeApp ? await freePort() : undefined;
  const at = (port: number): string => `http://127.0.0.1:${port}`;
  const behind = { aws: at(awsPort), mlflow: at(appPort ?? mlflowPort), judge: at(judgePort) };
  const shim = await startQuotaShim(behind, limits, directory);
  let environment: LocalEnvironment | undefined;
  let app: MlflowServer | undefined;
  const stop = async (): Promise<void> => {
    await app?.stop();
    await environment?.stop();
    await shim.stop();
    removeFolder(directory);
  };
  try {
    environment = await startEnvironment({
      awsPort,
      mlflowPort,
      judgePort,
      judge: { behavior: judge, keepCalls: 0 },
      awsEnv: { ...shim.env, ...(waitScale === undefined ? {} : { SFN_WAIT_SCALE: String(waitScale) }) },
      ...(log ? { log } : {}),
    });
    if (appPort !== undefined) {
      await environment.clients.s3.send(new CreateBucketCommand({ Bucket: ARTIFACTS }));
      const env = { ...environment.ministack.env, MLFLOW_S3_ENDPOINT_URL: environment.ministack.url };
      const artifactRoot = `s3://${ARTIFACTS}/mlflow`;
      app = await startMlflowServer({ version: APP_VERSION, port: appPort, artifactRoot, env, log });
    }
    const outputs = await environment.deployStack({
      STACK_PREFIX: 'quotas',
      SAGEMAKER_ENDPOINT_NAME: endpoint,
      MLFLOW_TRACKING_URI: shim.urls.mlflow,
      ...(appPort === undefined ? {} : { MLFLOW_ARTIFACT_BUCKET: ARTIFACTS }),
      ...settings,
    });
    await environment.mlflow;
    const pipeline = new DeployedPipeline(environment, 'quotas', outputs);
    // Deploying is not what is measured.
    shim.counts.forget();
    const key = (name: string, hour = 10): string =>
      `${endpoint}/AllTraffic/2026/11/20/${String(hour).padStart(2, '0')}/${name}.jsonl`;
    return { environment, pipeline, shim, endpoint, key, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
