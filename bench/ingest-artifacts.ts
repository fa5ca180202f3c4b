/** Traces a second by the artifact path: a server without OTLP, as SageMaker's managed MLflow is. */
import type { Log } from '../local/python-environment.ts';
import { MANAGED_MLFLOW_VERSION } from '../local/python-presets.ts';
import { ingest } from './ingest.ts';
import type { BenchResult } from './support/result.ts';

export const run = (log: Log): Promise<BenchResult> =>
  ingest(log, { name: 'ingest-artifacts', records: 1000, rounds: 3, target: 3, mlflowVersion: MANAGED_MLFLOW_VERSION });
