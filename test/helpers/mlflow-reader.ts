/** Runs MLflow's Python client as a long-lived process, because importing it takes seconds. */
import type { PythonEnvironment } from '../../local/python/python-environment.ts';
import { startPythonProcess } from './python-process.ts';

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
  links: [string, string][];
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

export type MlflowReader = ReturnType<typeof startMlflowReader>;

/** Starts `mlflow_reader.py` for a tracking URI, in a Python environment with MLflow. */
export function startMlflowReader(
  { python }: PythonEnvironment,
  trackingUri: string,
  env: Record<string, string> = {},
) {
  const all = { ...process.env, MLFLOW_HTTP_REQUEST_MAX_RETRIES: '2', ...env };
  const { ask, stop } = startPythonProcess(python, ['mlflow_reader.py', trackingUri], all);
  /** Runs any command of `mlflow_reader.py`. */
  const run = async <T>(command: { do: string; [argument: string]: unknown }) =>
    (await ask<{ result: T }>(command)).result;
  return {
    do: run,
    search: (experimentId: string, filter?: string) => run<ReadTrace[]>({ do: 'search', experimentId, filter }),
    /** Returns the sorted ids of the traces that match a filter. */
    find: (experimentId: string, filter: string) => run<string[]>({ do: 'find', experimentId, filter }),
    close: stop,
  };
}
