/**
 * The local environment: emulated AWS, a real MLflow server and the stand-in judge, with the CDK stack of each
 * endpoint deployed to it. `npm start` and the tests of the deployed path run on it.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { type DeployedStack, openStack } from '../../bin/cli/stack.ts';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import type { EndpointCaptures } from '../../bin/operate/capture-files.ts';
import { putCaptures } from '../../bin/operate/process-files.ts';
import { readStackOutputs } from '../../bin/operate/stack-outputs.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { freePort } from '../machine/free-port.ts';
import { makeOwnFolder, removeFolder } from '../machine/own-folder.ts';
import type { Log } from '../python/python-environment.ts';
import { defaultPythonEnvironment } from '../python/python-presets.ts';
import { emulatedClients } from '../servers/emulated-clients.ts';
import { startMiniStack } from '../servers/ministack.ts';
import { startMlflowServer } from '../servers/mlflow-server.ts';
import { bootstrap, deploy, makeBundles, synthesize } from '../stack/deploy.ts';
import { type StandInJudge, type StandInOptions, startStandInJudge } from '../stand-in-judge/server.ts';

export interface EnvironmentOptions<Judge extends StandInJudge> {
  log?: Log;
  /** Ports on 127.0.0.1. Default: a free one each. */
  awsPort?: number;
  mlflowPort?: number;
  judgePort?: number;
  /** Folder for MLflow's database and artifacts. Default: one that is deleted with the environment. */
  mlflowDirectory?: string;
  judge?: Omit<StandInOptions, 'port'>;
  /** Default: a plain stand-in. */
  startJudge?: (options: StandInOptions) => Promise<Judge>;
  /** Enforce the policies of the Lambdas' roles. */
  enforcePolicies?: boolean;
  /** Additional variables of the emulator and its Lambdas. */
  awsEnv?: Record<string, string>;
  /** Stops all processes that run or are starting. */
  signal?: AbortSignal;
}

export type LocalEnvironment<Judge extends StandInJudge = StandInJudge> = Awaited<
  ReturnType<typeof startEnvironment<Judge>>
>;

/** Settings, named as in `.env.example`. */
interface StackSettings extends Record<string, string> {
  STACK_PREFIX: string;
  SAGEMAKER_ENDPOINT_NAME: string;
}

export const CAPTURE_BUCKET = 'sagemaker-captures';

/**
 * Starts all parts concurrently and waits for the emulated AWS and the judge. MLflow, the functions' bundles and the CDK's
 * bootstrap continue in the background until they are needed.
 *
 * @throws Error that names the remedy: for a port in use, no usable Python, or a server that does not start
 */
export async function startEnvironment<Judge extends StandInJudge = StandInJudge>(
  options: EnvironmentOptions<Judge> = {},
) {
  const log = options.log ?? (() => {});
  // Ports are checked before the time that a first Python environment takes, and again after it.
  await freePorts(options);
  const directory = makeOwnFolder('environment');
  const services = new Services(options.signal);
  const { signal } = services;
  const stop = () => services.stop().finally(() => removeFolder(directory));
  try {
    const { FUNCTION_BUNDLES: made } = process.env;
    const bundles = services.background(made ? Promise.resolve(made) : makeBundles({ directory, log, signal }));
    await defaultPythonEnvironment(log, signal);
    const [awsPort, mlflowPort, judgePort] = await freePorts(options);
    const { startJudge = startStandInJudge as (given: StandInOptions) => Promise<Judge> } = options;
    const judge = await startJudge({ ...options.judge, port: judgePort });
    services.add({ stop: () => judge.close() });
    const mlflowDirectory = options.mlflowDirectory ?? join(directory, 'mlflow');
    const mlflow = services.background(
      startMlflowServer({ port: mlflowPort, directory: mlflowDirectory, log, signal }),
      (server) => server.stop(),
    );
    mlflow.then(
      ({ url, version }) => log(`MLflow ${version}: ${url}`),
      () => {},
    );
    const { enforcePolicies } = options;
    const env = { ...judgeEndpoints(judge.url), ...options.awsEnv };
    const ministack = await startMiniStack({ port: awsPort, log, enforcePolicies, signal, env });
    services.add(ministack);
    log(`emulated AWS: ${ministack.url}`);
    log(`${options.judge?.forward ? 'judge, forwarding to Bedrock' : 'stand-in judge'}: ${judge.url}`);
    const clients = emulatedClients(ministack);
    const bootstrapped = services.background(bootstrap(clients.cloudFormation, signal));
    const mlflowUrl = `http://127.0.0.1:${mlflowPort}`;
    /**
     * Deploys the stack with these settings and the environment's defaults. Creates the capture bucket if it is missing.
     *
     * @param fill puts objects into that bucket before the stack watches it
     */
    const deployStack = async (own: StackSettings, fill?: () => Promise<void>): Promise<StackOutputs> => {
      const settings = { MLFLOW_TRACKING_URI: mlflowUrl, DATA_CAPTURE_S3_BUCKET: CAPTURE_BUCKET, ...own };
      const target = { aws: ministack, directory, log, signal, settings };
      const [assembly] = await Promise.all([
        services.background(bundles.then((functions) => synthesize({ ...target, functions }))),
        makeBucket(clients, settings.DATA_CAPTURE_S3_BUCKET).then(fill),
        bootstrapped,
      ]);
      await services.background(deploy(target, assembly));
      return readStackOutputs(clients.lambda, own.STACK_PREFIX);
    };
    return {
      ...{ ministack, clients, judge, mlflowUrl, deployStack, stop },
      /** Resolves when MLflow answers, which takes longest. */
      mlflow,
      /** Folder for this environment's files, deleted with it. */
      directory,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The services of an environment, which stop together. */
class Services {
  readonly signal: AbortSignal;
  readonly #stopping = new AbortController();
  readonly #services: { stop(): Promise<void> }[] = [];

  constructor(signal?: AbortSignal) {
    this.signal = signal ? AbortSignal.any([signal, this.#stopping.signal]) : this.#stopping.signal;
  }

  add(service: { stop(): Promise<void> }): void {
    this.#services.push(service);
  }

  /** Starts work that is awaited later, and always before its folder is deleted. Its failure is reported there. */
  background<T>(work: Promise<T>, end: (result: T) => Promise<void> = async () => {}): Promise<T> {
    work.catch(() => {});
    // Aborted work has cleaned up after itself.
    this.add({ stop: async () => end(await work) });
    return work;
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('The environment was stopped'));
    await Promise.allSettled(this.#services.map((service) => service.stop()));
  }
}

/** Directs the functions' calls to a judge to the stand-in. The judge may be a SageMaker endpoint. */
const judgeEndpoints = (url: string): Record<string, string> => ({
  AWS_ENDPOINT_URL_BEDROCK_RUNTIME: url,
  AWS_ENDPOINT_URL_BEDROCK: url,
  AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: url,
});

async function freePorts(
  options: Pick<EnvironmentOptions<StandInJudge>, 'awsPort' | 'mlflowPort' | 'judgePort'>,
): Promise<[number, number, number]> {
  const aws = await freePort(options.awsPort, '--port');
  const mlflow = await freePort(options.mlflowPort, '--mlflow-port');
  const judge = await freePort(options.judgePort, '--judge-port');
  return [aws, mlflow, judge];
}

async function makeBucket(clients: AwsClients, bucket: string): Promise<void> {
  await clients.s3.send(new CreateBucketCommand({ Bucket: bucket })).catch((error: Error) => {
    // A second stack may watch the same bucket.
    if (error.name !== 'BucketAlreadyOwnedByYou') throw error;
  });
}

// -------------------------------------------------------------------------------------- the stack of each endpoint

/** STACK_PREFIX of the first endpoint. Prefixes of further endpoints are numbered. */
const PREFIX = 'local';

/** Concurrent chunks of a run. Each Lambda is a process of about 100 MB that keeps a core busy. */
const CHUNK_CONCURRENCY = Math.max(4, availableParallelism());

/** Each stack takes about 5 s to deploy. */
const MAX_ENDPOINTS = 8;

/** The endpoint that the stacks may replay to, as in the README. A stand-in serves it. */
const REPLAY_ENDPOINT = 'my-endpoint-v2';

/**
 * Deploys one stack per endpoint, as on AWS, where a stack watches one endpoint. The captures are put before the stack
 * receives events.
 *
 * @param settings additional settings of each stack
 * @throws Error with the endpoints if there are too many
 */
export async function deployEndpoints(
  environment: LocalEnvironment,
  endpoints: readonly EndpointCaptures[],
  settings: Record<string, string>,
  onProgress: (text: string) => void,
  signal?: AbortSignal,
): Promise<DeployedStack[]> {
  if (endpoints.length > MAX_ENDPOINTS) {
    const got = `${endpoints.length} (${endpoints.map((one) => one.endpoint).join(', ')})`;
    throw new Error(
      `Captures of too many endpoints; got: ${got}; expected: ${MAX_ENDPOINTS} at most, since each gets a stack. Pass the folder of one endpoint, or one name for all with --endpoint`,
    );
  }
  const deployed: DeployedStack[] = [];
  for (const [index, { endpoint, files }] of endpoints.entries()) {
    const prefix = index === 0 ? PREFIX : `${PREFIX}-${index + 1}`;
    onProgress(`Deploying the stack of ${endpoint} to the emulated AWS …`);
    const own = {
      ...settings,
      STACK_PREFIX: prefix,
      SAGEMAKER_ENDPOINT_NAME: endpoint,
      DATA_CAPTURE_S3_PREFIX: `${endpoint}/`,
      GROUND_TRUTH_S3_PREFIX: `s3://${CAPTURE_BUCKET}/labels/${endpoint}/`,
      MLFLOW_EXPERIMENT_NAME: endpoint,
      MAX_FUNCTIONS: String(CHUNK_CONCURRENCY),
      BATCH_WINDOW_SECONDS: '0',
      REPLAY_ENDPOINT_NAMES: REPLAY_ENDPOINT,
    };
    const fill = () => putCaptures(new Storage(environment.clients.s3), CAPTURE_BUCKET, files, signal);
    await environment.deployStack(own, fill);
    deployed.push(await openStack({ stack: prefix }, environment.clients));
  }
  return deployed;
}
