/** MiniStack, the emulated AWS, on a loopback port. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { freePort } from '../machine/free-port.ts';
import { type GuardedProcess, startGuarded } from '../machine/guarded-process.ts';
import { makeOwnFolder, removeFolder } from '../machine/own-folder.ts';
import type { Log, PythonEnvironment } from '../python/python-environment.ts';
import { defaultPythonEnvironment } from '../python/python-presets.ts';
import { untilHealthy } from './until-healthy.ts';

const EMULATED_ACCOUNT = '000000000000';
const EMULATED_REGION = 'us-east-1';

interface MiniStackOptions {
  log?: Log;
  port?: number;
  /**
   * Further environment variables of the emulator. Its Lambdas inherit them: `AWS_ENDPOINT_URL_BEDROCK_RUNTIME` and
   * `AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME` point their SDK clients at stand-ins.
   */
  env?: Record<string, string>;
  /**
   * Serve over TLS and enforce the policies of each Lambda's role, as AWS does. Default `false`: every call is allowed.
   */
  enforcePolicies?: boolean;
  /** Stops the server, also while it starts. */
  signal?: AbortSignal;
}

export type MiniStack = Awaited<ReturnType<typeof startMiniStack>>;

/** An idle machine needs 0.5 s. A busy one that imports the Python files for the first time needs far more. */
const START_LIMIT_MS = 120_000;
const HEALTH_PATH = '/_ministack/health';

/** Twice the number of Lambda processes that the state machine runs concurrently. */
const LAMBDA_CONCURRENCY = 100;

/**
 * Variables of the caller's shell that the emulated side may see. All others are removed, above all `AWS_*` with the
 * user's credentials, and proxies, which would catch loopback requests. Only the tests set the last two (decision 0072).
 */
const PASSED_ON = ['HOME', 'LANG', 'LC_ALL', 'PATH', 'TZ', 'USER', 'SYSTEMROOT', 'REQUEST_LOG', 'REQUEST_RECORDER'];

/** Returns the part of this process's environment that the emulated side and its clients see. */
export function cleanEnvironment(): Record<string, string> {
  const kept = PASSED_ON.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  const env = Object.fromEntries(kept) as Record<string, string>;
  // The Lambdas run on the first `node` on the PATH, which must be the project's own.
  return { ...env, PATH: [projectNodeFolder(), env.PATH ?? ''].join(delimiter) };
}

function projectNodeFolder(): string {
  const folder = packagePath('node_modules', 'node', 'bin');
  return existsSync(join(folder, 'node')) ? folder : dirname(process.execPath);
}

/**
 * Starts MiniStack and waits until it answers.
 *
 * @throws Error with the end of its log if it ends or does not answer in time
 *
 * @example
 *     const aws = await startMiniStack();
 */
export async function startMiniStack(options: MiniStackOptions = {}) {
  const python = await defaultPythonEnvironment(options.log, options.signal);
  // The Lambdas' code is unpacked outside the project, whose `node_modules` would otherwise hide modules missing from a
  // bundle.
  const directory = makeOwnFolder('ministack', realpathSync(tmpdir()));
  let server: GuardedProcess | undefined;
  /** Stops the emulator with its Lambdas and deletes their files. Safe to call again. */
  const stop = async () => {
    await server?.stop();
    removeFolder(directory);
  };
  try {
    const tls = options.enforcePolicies ? await makeCertificate(python, directory) : undefined;
    const port = await freePort(options.port);
    const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
    const env = clientEnvironment(url, directory, tls?.certificate);
    server = startGuarded(python.python, [packagePath('local', 'servers', 'ministack_wrapper.py')], {
      logFile: join(directory, 'ministack.log'),
      cwd: directory,
      signal: options.signal,
      env: { ...cleanEnvironment(), ...env, ...serverEnvironment(port, directory, tls), ...options.env },
    });
    const ca = tls && readFileSync(tls.certificate, 'utf8');
    const health = { url: `${url}${HEALTH_PATH}`, limitMs: START_LIMIT_MS, ca };
    await untilHealthy(server, { name: 'MiniStack, the emulated AWS,', ...health });
    const { pid, logTail } = server;
    return {
      url,
      account: EMULATED_ACCOUNT,
      region: EMULATED_REGION,
      /** Variables for AWS clients (SDK, CDK CLI, AWS CLI, boto3): the endpoint, dummy keys, the region, the account. */
      env,
      /** Certificate that clients in a running process must trust, as PEM. Only with `enforcePolicies`. */
      ca,
      pid,
      logTail,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Paths of PEM files. */
export interface Tls {
  certificate: string;
  key: string;
}

/** Creates a certificate for this machine's loopback addresses. */
export async function makeCertificate(python: PythonEnvironment, directory: string): Promise<Tls> {
  const tls = { certificate: join(directory, 'loopback.crt'), key: join(directory, 'loopback.key') };
  const script = packagePath('local', 'servers', 'loopback_certificate.py');
  await promisify(execFile)(python.python, [script, tls.certificate, tls.key]);
  return tls;
}

function clientEnvironment(url: string, directory: string, certificate?: string): Record<string, string> {
  return {
    AWS_ENDPOINT_URL: url,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_REGION: EMULATED_REGION,
    AWS_DEFAULT_REGION: EMULATED_REGION,
    CDK_DEFAULT_ACCOUNT: EMULATED_ACCOUNT,
    CDK_DEFAULT_REGION: EMULATED_REGION,
    // Neither the user's profile nor a cloud machine's own role may replace these keys.
    AWS_CONFIG_FILE: join(directory, 'no-aws-config'),
    AWS_SHARED_CREDENTIALS_FILE: join(directory, 'no-aws-credentials'),
    AWS_EC2_METADATA_DISABLED: 'true',
    ...(certificate && {
      NODE_EXTRA_CA_CERTS: certificate,
      AWS_CA_BUNDLE: certificate,
      REQUESTS_CA_BUNDLE: certificate,
      SSL_CERT_FILE: certificate,
    }),
  };
}

function serverEnvironment(port: number, directory: string, tls: Tls | undefined): Record<string, string> {
  return {
    GATEWAY_PORT: String(port),
    BIND_HOST: '127.0.0.1',
    MINISTACK_HOST: '127.0.0.1',
    // Its MQTT listener would be open to the network.
    IOT_MTLS_ENABLED: '0',
    MINISTACK_REGION: EMULATED_REGION,
    MINISTACK_ACCOUNT_ID: EMULATED_ACCOUNT,
    LAMBDA_ACCOUNT_CONCURRENCY: String(LAMBDA_CONCURRENCY),
    LOG_LEVEL: 'WARNING',
    TMPDIR: directory,
    STATE_DIR: join(directory, 'state'),
    S3_DATA_DIR: join(directory, 's3'),
    // The CDK's `autoDeleteObjects` requires an SDK client that its bundle does not contain.
    NODE_PATH: packagePath('node_modules'),
    ...(tls && { USE_SSL: '1', AUTH: 'true', MINISTACK_SSL_CERT: tls.certificate, MINISTACK_SSL_KEY: tls.key }),
  };
}
