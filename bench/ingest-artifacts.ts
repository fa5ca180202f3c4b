/**
 * Measures traces per second with artifacts: a server without OTLP whose artifacts are in S3, like SageMaker's managed
 * MLflow. With `--served` the server stores the artifacts itself.
 */
import type { Log } from '../local/python/python-environment.ts';
import { MANAGED_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { ingest } from './ingest.ts';
import { numberFlag } from './support/flags.ts';
import type { BenchResult } from './support/result.ts';

const run = (log: Log, flags: string[] = []): Promise<BenchResult> =>
  ingest(log, {
    name: 'ingest-artifacts',
    records: numberFlag(flags, 'records', 1000),
    rounds: numberFlag(flags, 'rounds', 3),
    target: 3,
    mlflowVersion: MANAGED_MLFLOW_VERSION,
    artifactsInS3: !flags.includes('--served'),
  });

export default run;
