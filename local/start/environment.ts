/**
 * The embedded environment: emulated AWS, a real MLflow server and the stand-in judge, and the CDK stack deployed to it.
 * `npm start` and the tests of the deployed path both run on it.
 */
import { join } from 'node:path';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { freePort } from '../machine/free-port.ts';
import { makeOwnFolder, removeFolder } from '../machine/own-folder.ts';
import type { Log } from '../python/python-environment.ts';
import { defaultPythonEnvironment } from '../python/python-presets.ts';
import { type MiniStack, startMiniStack } from '../servers/ministack.ts';
import { type MlflowServer, startMlflowServer } from '../servers/mlflow-server.ts';
import { type AwsClients, destroyClients, emulatedClients } from '../stack/aws-clients.ts';
import { bootstrap, bundleFunctions, deploy, synthesize } from '../stack/deploy.ts';
import { readStackOutputs, type StackOutputs } from '../stack/stack-outputs.ts';
import { type StandInJudge, type StandInOptions, startStandInJudge } from '../stand-in-judge/server.ts';

interface EnvironmentOptions {
  log?: Log;
  /** Ports on 127.0.0.1; a free one where left out. */
  awsPort?: number;
  mlflowPort?: number;
  judgePort?: number;
  /** Folder for MLflow's database and artifacts; one that goes with the environment where left out. */
  mlflowDirectory?: string;
  judge?: Omit<StandInOptions, 'port'>;
  /** Hold the Lambdas to their roles' policies. */
  enforcePolicies?: boolean;
  /** Further variables of the emulator and its Lambdas. */
  awsEnv?: Record<string, string>;
  /** Ends everything that runs or is starting. */
  signal?: AbortSignal;
}

export interface LocalEnvironment {
  ministack: MiniStack;
  clients: AwsClients;
  judge: StandInJudge;
  mlflowUrl: string;
  /** Resolves when MLflow answers, which takes longer than all else. */
  mlflow: Promise<MlflowServer>;
  /** Folder for what this environment writes; goes with it. */
  directory: string;
  /**
   * Deploys the stack with these settings on top of the environment's own; makes the capture bucket if it is missing.
   *
   * @param fill puts what is to lie in that bucket before the stack watches it
   */
  deployStack(settings: StackSettings, fill?: () => Promise<void>): Promise<StackOutputs>;
  stop(): Promise<void>;
}

/** Settings by the names of `.env.example`. */
interface StackSettings extends Record<string, string> {
  STACK_PREFIX: string;
  SAGEMAKER_ENDPOINT_NAME: string;
}

export const CAPTURE_BUCKET = 'sagemaker-captures';

/**
 * Starts all parts at once and waits for the emulated AWS and the judge; MLflow, the bundling of the functions and the CDK's
 * bootstrap go on in the background and are waited for where they are needed.
 *
 * @throws Error that says what to do: a port in use, no usable Python, a server that does not start
 */
export async function startEnvironment(options: EnvironmentOptions = {}): Promise<LocalEnvironment> {
  const log = options.log ?? (() => {});
  // Before the time that a first Python environment takes, and once more after it.
  await freePorts(options);
  const directory = makeOwnFolder('environment');
  const started: { stop(): Promise<void> }[] = [];
  const stopping = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stopping.signal]) : stopping.signal;
  const stop = async () => {
    stopping.abort(new Error('The environment was stopped'));
    await Promise.allSettled(started.map((part) => part.stop()));
    removeFolder(directory);
  };
  const running = <T extends { stop(): Promise<void> }>(part: T): T => {
    started.push(part);
    return part;
  };
  /** Starts work that is awaited later, and always before its folder is deleted; its failure is reported there. */
  const background = <T>(work: Promise<T>, end: (result: T) => Promise<void> = async () => {}): Promise<T> => {
    work.catch(() => {});
    // Work that was aborted has cleaned up after itself.
    running({ stop: async () => end(await work) });
    return work;
  };
  try {
    const { FUNCTION_BUNDLES: made } = process.env;
    const bundles = background(made ? Promise.resolve(made) : bundleFunctions({ directory, log, signal }));
    await defaultPythonEnvironment(log, signal);
    const [awsPort, mlflowPort, judgePort] = await freePorts(options);
    const judge = await startStandInJudge({ ...options.judge, port: judgePort });
    running({ stop: () => judge.close() });
    const mlflow = background(
      startMlflowServer({
        port: mlflowPort,
        directory: options.mlflowDirectory ?? join(directory, 'mlflow'),
        log,
        signal,
      }),
      (server) => server.stop(),
    );
    void mlflow.then(
      ({ url, version }) => log(`MLflow ${version}: ${url}`),
      () => {},
    );
    const ministack = running(
      await startMiniStack({
        port: awsPort,
        log,
        enforcePolicies: options.enforcePolicies,
        signal,
        env: {
          AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
          AWS_ENDPOINT_URL_BEDROCK: judge.url,
          // The judge may be an endpoint.
          AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: judge.url,
          ...options.awsEnv,
        },
      }),
    );
    log(`emulated AWS: ${ministack.url}`);
    log(`${options.judge?.forward ? 'judge, passing on to Bedrock' : 'stand-in judge'}: ${judge.url}`);
    const clients = emulatedClients(ministack);
    running({ stop: async () => destroyClients(clients) });
    judge.batch.useStorage(clients.s3);
    const bootstrapped = background(bootstrap(clients.cloudFormation, signal));
    const mlflowUrl = `http://127.0.0.1:${mlflowPort}`;
    return {
      ministack,
      clients,
      judge,
      mlflow,
      mlflowUrl,
      directory,
      stop,
      async deployStack(settings, fill) {
        const target = { ministack, directory, log, signal, settings: completeSettings(settings, mlflowUrl) };
        const [assembly] = await Promise.all([
          background(bundles.then((functions) => synthesize({ ...target, functions }))),
          makeBucket(clients, target.settings.DATA_CAPTURE_S3_BUCKET ?? '').then(fill),
          bootstrapped,
        ]);
        await background(deploy(target, assembly));
        return readStackOutputs(clients.cloudFormation, settings.STACK_PREFIX);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function completeSettings(settings: StackSettings, mlflowUrl: string): Record<string, string> {
  return {
    MLFLOW_TRACKING_URI: mlflowUrl,
    DATA_CAPTURE_S3_BUCKET: CAPTURE_BUCKET,
    ...settings,
  };
}

async function freePorts(options: EnvironmentOptions): Promise<[number, number, number]> {
  const aws = await freePort(options.awsPort, '--port');
  const mlflow = await freePort(options.mlflowPort, '--mlflow-port');
  const judge = await freePort(options.judgePort, '--judge-port');
  return [aws, mlflow, judge];
}

async function makeBucket(clients: AwsClients, bucket: string): Promise<void> {
  try {
    await clients.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  } catch (error) {
    // A second stack may watch the same bucket.
    if ((error as Error).name !== 'BucketAlreadyOwnedByYou') throw error;
  }
}
