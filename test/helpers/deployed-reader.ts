/** Runs the Python reader of S3 and MLflow (`deployed_reader_s3.py`) as one process for many comparisons. */
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';
import { startPythonProcess } from './python-process.ts';

export interface ReadAssessment {
  name: string;
  value: unknown;
  error: string | null;
  source: string;
  rationale: string | null;
  valid: boolean;
  metadata: Record<string, string>;
}

/** The result of a comparison, from the reader’s own reading of S3 and MLflow. */
export interface Comparison {
  /** Non-blank lines in the bucket. */
  lines: number;
  /** Lines that are not capture records. */
  notRecords: number;
  /** Distinct capture records. */
  records: number;
  /** Records whose trace is in MLflow. */
  traced: number;
  /** The ids of missing traces. */
  missing: string[];
  /** The ids of traces in the experiment that belong to no record. */
  extra: string[];
  /** The problems, by trace id. */
  wrong: Record<string, string[]>;
  states: Record<string, number>;
  totalTokens: number;
  assessments: Record<string, ReadAssessment[]>;
}

export type DeployedReader = Awaited<ReturnType<typeof startDeployedReader>>;

export async function startDeployedReader(awsEnv: Record<string, string>, mlflowUrl: string) {
  const { python } = await defaultPythonEnvironment();
  const own = { MLFLOW_TRACKING_URI: mlflowUrl, MLFLOW_DISABLE_TELEMETRY: 'true' };
  const env = { ...cleanEnvironment(), ...awsEnv, ...own };
  const { ask, stop } = startPythonProcess(python, ['deployed_reader_s3.py'], env);
  return {
    /** @param keys the objects to compare; by default, all `.jsonl` objects of the bucket */
    compare: (bucket: string, experiment: string, keys?: string[]) => ask<Comparison>({ bucket, experiment, keys }),
    stop,
  };
}
