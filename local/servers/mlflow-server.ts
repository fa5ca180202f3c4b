/** A real MLflow tracking server on a loopback port. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../machine/free-port.ts';
import { startGuarded } from '../machine/guarded-process.ts';
import { type Log, withBinOnPath } from '../python/python-environment.ts';
import { mlflowEnvironment } from '../python/python-presets.ts';

interface MlflowServerOptions {
  /** An MLflow version; default the newest that is tested. */
  version?: string;
  /** Folder of the database, the artifacts and the log. Default: a temporary one that `stop` deletes. */
  directory?: string;
  port?: number;
  /** `artifacts` folder served by the server (default), or e.g. `s3://bucket/prefix`, which clients write themselves. */
  artifactRoot?: string;
  /** Further environment variables of the server. */
  env?: Record<string, string>;
  /** Further arguments of `mlflow server`. */
  args?: string[];
  log?: Log;
  /** Ends it, also while it starts. */
  signal?: AbortSignal;
}

export interface MlflowServer {
  url: string;
  version: string;
  pid: number;
  directory: string;
  logFile: string;
  stop(): Promise<void>;
}

/** A cold start on a busy two-core machine takes about 20 s: importing MLflow and making the database's tables. */
const START_LIMIT_MS = 240_000;
const HEALTH_POLL_MS = 150;
const HEALTH_TIMEOUT_MS = 2_000;

/**
 * Starts `mlflow server` (SQLite, one worker, no job runner: 2 processes instead of 15) and waits until it answers.
 *
 * @throws Error with the end of the server's log when it ends or does not answer in time
 */
export async function startMlflowServer(options: MlflowServerOptions = {}): Promise<MlflowServer> {
  const environment = await mlflowEnvironment(options.version, options.log, options.signal);
  const ownDirectory = options.directory === undefined;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'mlflow-server-'));
  mkdirSync(directory, { recursive: true });
  const port = await freePort(options.port);
  const url = `http://127.0.0.1:${port}`;
  const logFile = join(directory, 'mlflow-server.log');

  const artifacts = options.artifactRoot
    ? ['--no-serve-artifacts', '--default-artifact-root', options.artifactRoot]
    : ['--artifacts-destination', join(directory, 'artifacts')];
  const server = startGuarded(
    join(environment.bin, 'mlflow'),
    [
      'server',
      ...['--host', '127.0.0.1', '--port', String(port), '--workers', '1'],
      ...['--backend-store-uri', `sqlite:///${join(directory, 'mlflow.db')}`],
      ...artifacts,
      ...(options.args ?? []),
    ],
    {
      logFile,
      cwd: directory,
      signal: options.signal,
      env: withBinOnPath(environment, {
        ...serverEnvironment(process.env),
        MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false',
        MLFLOW_DISABLE_TELEMETRY: 'true',
        // Prices are those of its package: it would ask the internet for newer ones.
        MLFLOW_MODEL_CATALOG_URI: '',
        DO_NOT_TRACK: 'true',
        // The first server compiles what all others load: uv leaves that undone.
        PYTHONDONTWRITEBYTECODE: '',
        ...options.env,
      }),
    },
  );

  const stop = async () => {
    await server.stop();
    if (ownDirectory) rmSync(directory, { recursive: true, force: true });
  };
  const deadline = Date.now() + START_LIMIT_MS;
  for (;;) {
    if (await isHealthy(url)) break;
    const ended = server.ended();
    if (ended !== undefined || Date.now() > deadline) {
      const tail = server.logTail();
      await stop();
      throw new Error(
        `The MLflow server did not start; got: ${ended ?? `no answer in ${START_LIMIT_MS / 1000} s`}; expected: 200 from ${url}/health; end of its log:\n${tail}`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, HEALTH_POLL_MS));
  }
  const version = await (await fetch(`${url}/version`)).text();
  return { url, version, pid: server.pid, directory, logFile, stop };
}

/** MLflow reads its options from variables too; those of the caller's shell are meant for clients, not for this server. */
function serverEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('MLFLOW_')));
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) });
    // Another program that answers any path, on a port that was given twice, is not taken for this server.
    return response.ok && (await response.text()).trim() === 'OK';
  } catch {
    // Not listening yet.
    return false;
  }
}
