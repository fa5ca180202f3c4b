/** Runs MLflow's Python client as a long-lived process, because importing it takes seconds. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { PythonEnvironment } from '../../local/python/python-environment.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

export interface ReadAssessment {
  assessmentId: string;
  name: string;
  sourceType: string;
  sourceId: string;
  value: unknown;
  isExpectation: boolean;
  spanId: string | null;
  error: { code: string; message: string } | null;
  rationale: string | null;
  metadata: Record<string, string>;
  overrides: string | null;
  valid: boolean;
  createTimeMs: number;
}

export interface ReadSpan {
  spanId: string;
  parentId: string | null;
  name: string;
  type: string;
  status: string;
  statusMessage: string | null;
  inputs: unknown;
  outputs: unknown;
  attributes: Record<string, unknown>;
  startNs: string;
  endNs: string;
  events: { name: string; ns: string }[];
}

export interface ReadTrace {
  traceId: string;
  state: string;
  requestTimeMs: number;
  executionDurationMs: number | null;
  clientRequestId: string | null;
  requestPreview: string | null;
  responsePreview: string | null;
  tags: Record<string, string>;
  metadata: Record<string, string>;
  tokenUsage: Record<string, number> | null;
  assessments: ReadAssessment[];
  spans: ReadSpan[];
}

export interface MlflowReader {
  search(experimentId: string, filter?: string): Promise<ReadTrace[]>;
  /** Returns the sorted ids of the traces that match a filter. */
  find(experimentId: string, filter: string): Promise<string[]>;
  /** Runs any command of `mlflow_reader.py`. */
  do<T>(command: { do: string; [argument: string]: unknown }): Promise<T>;
  close(): Promise<void>;
}

/** Starts `mlflow_reader.py` for a tracking URI, in a Python environment with MLflow. */
export function startMlflowReader(
  environment: PythonEnvironment,
  trackingUri: string,
  env: Record<string, string> = {},
): MlflowReader {
  const child: ChildProcess = spawn(
    environment.python,
    [packagePath('test', 'helpers', 'mlflow_reader.py'), trackingUri],
    { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, MLFLOW_HTTP_REQUEST_MAX_RETRIES: '2', ...env } },
  );
  const { stdin, stdout, stderr } = child;
  if (!stdin || !stdout || !stderr) throw new Error('The MLflow reader has no pipes');
  let errors = '';
  stderr.on('data', (text) => {
    errors = (errors + text).slice(-4_000);
  });
  const waiting: { resolve: (line: string) => void; reject: (error: Error) => void }[] = [];
  createInterface({ input: stdout }).on('line', (line) => waiting.shift()?.resolve(line));
  const exited = new Promise<void>((resolve) => {
    child.once('exit', (code) => {
      for (const { reject } of waiting.splice(0)) reject(new Error(`The MLflow reader ended (${code}):\n${errors}`));
      resolve();
    });
  });

  const run = async <T>(command: { do: string; [argument: string]: unknown }): Promise<T> => {
    const line = await new Promise<string>((resolve, reject) => {
      waiting.push({ resolve, reject });
      stdin.write(`${JSON.stringify(command)}\n`);
    });
    const answer = JSON.parse(line) as { result: T; error?: string };
    if (answer.error !== undefined) throw new Error(`${command.do}: ${answer.error}`);
    return answer.result;
  };
  return {
    do: run,
    search: (experimentId, filter) => run<ReadTrace[]>({ do: 'search', experimentId, filter }),
    find: (experimentId, filter) => run<string[]>({ do: 'find', experimentId, filter }),
    close: async () => {
      stdin.end();
      await exited;
    },
  };
}
