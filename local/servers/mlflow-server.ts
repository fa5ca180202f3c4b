/** A real MLflow tracking server on a loopback port. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { freePort } from '../machine/free-port.ts';
import { startGuarded } from '../machine/guarded-process.ts';
import { type Log, withBinOnPath } from '../python/python-environment.ts';
import { mlflowEnvironment } from '../python/python-presets.ts';
import { untilHealthy } from './until-healthy.ts';

interface MlflowServerOptions {
  /** An MLflow version. Default: the newest tested one. */
  version?: string;
  /** Folder of the database, the artifacts and the log. Default: a temporary one that `stop` deletes. */
  directory?: string;
  port?: number;
  /** Default: an `artifacts` folder that the server serves. Otherwise a location such as `s3://bucket/prefix`, which clients write to themselves. */
  artifactRoot?: string;
  /** Additional environment variables of the server. */
  env?: Record<string, string>;
  /** Additional arguments of `mlflow server`. */
  args?: string[];
  log?: Log;
  /** Stops the server, also while it starts. */
  signal?: AbortSignal;
}

export type MlflowServer = Awaited<ReturnType<typeof startMlflowServer>>;

/** A cold start on a busy two-core machine takes about 20 s, to import MLflow and create the database's tables. */
const START_LIMIT_MS = 240_000;

/** Stored in the Python environment of an MLflow version, because only this version knows its tables. */
const EMPTY_DATABASE = 'mlflow-empty.db';

/**
 * Starts `mlflow server` (SQLite, one worker, no job runner: one process instead of 15) and waits until it answers.
 *
 * @throws Error with the end of the server's log if it ends or does not answer in time
 *
 * @example
 *     const server = await startMlflowServer({ version: '3.10.1' });
 */
export async function startMlflowServer(options: MlflowServerOptions = {}) {
  const environment = await mlflowEnvironment(options.version, options.log, options.signal);
  const ownDirectory = options.directory === undefined;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'mlflow-server-'));
  mkdirSync(directory, { recursive: true });
  const port = await freePort(options.port);
  const url = `http://127.0.0.1:${port}`;
  const logFile = join(directory, 'mlflow-server.log');

  // The caller's MLflow variables are meant for clients, but the server would read them as options.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('MLFLOW_'));
  const artifacts = options.artifactRoot
    ? ['--no-serve-artifacts', '--default-artifact-root', options.artifactRoot]
    : ['--artifacts-destination', join(directory, 'artifacts')];
  const server = startGuarded(
    environment.python,
    [
      ...[packagePath('local', 'servers', 'mlflow_server.py'), join(directory, 'mlflow.db')],
      ...['--host', '127.0.0.1', '--port', String(port), '--workers', '1'],
      ...artifacts,
      ...(options.args ?? []),
    ],
    {
      logFile,
      cwd: directory,
      signal: options.signal,
      env: withBinOnPath(environment, {
        ...Object.fromEntries(inherited),
        MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false',
        MLFLOW_DISABLE_TELEMETRY: 'true',
        // Use the prices in MLflow's package. Otherwise it downloads newer prices.
        MLFLOW_MODEL_CATALOG_URI: '',
        DO_NOT_TRACK: 'true',
        // uv does not compile Python files, so the first server compiles them for all others.
        PYTHONDONTWRITEBYTECODE: '',
        // The empty database names the place of artifacts, which is the server itself unless a root is set.
        ...(options.artifactRoot ? {} : { EMPTY_DATABASE: join(environment.bin, '..', EMPTY_DATABASE) }),
        ...options.env,
      }),
    },
  );

  const stop = async () => {
    await server.stop();
    if (ownDirectory) rmSync(directory, { recursive: true, force: true });
  };
  try {
    const health = { url: `${url}/health`, says: 'OK', limitMs: START_LIMIT_MS };
    await untilHealthy(server, { name: 'The MLflow server', ...health });
  } catch (error) {
    await stop();
    throw error;
  }
  const version = await (await fetch(`${url}/version`)).text();
  return { url, version, pid: server.pid, directory, logFile, stop };
}
