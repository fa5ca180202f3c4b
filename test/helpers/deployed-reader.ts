/** Runs the Python reader of S3 and MLflow (`deployed_reader_s3.py`) as one process for many comparisons. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

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

export interface DeployedReader {
  /** @param keys the objects to compare; by default, all `.jsonl` objects of the bucket */
  compare(bucket: string, experiment: string, keys?: string[]): Promise<Comparison>;
  stop(): void;
}

export async function startDeployedReader(awsEnv: Record<string, string>, mlflowUrl: string): Promise<DeployedReader> {
  const { python } = await defaultPythonEnvironment();
  const child: ChildProcess = spawn(python, [packagePath('test', 'helpers', 'deployed_reader_s3.py')], {
    env: { ...cleanEnvironment(), ...awsEnv, MLFLOW_TRACKING_URI: mlflowUrl, MLFLOW_DISABLE_TELEMETRY: 'true' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr?.on('data', (data: Buffer) => {
    complaints = (complaints + data.toString()).slice(-4_000);
  });
  const answers = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return {
    async compare(bucket, experiment, keys) {
      child.stdin?.write(`${JSON.stringify({ bucket, experiment, keys })}\n`);
      const { value, done } = await answers.next();
      if (done) throw new Error(`The Python reader ended; its stderr ends with:\n${complaints}`);
      const answer = JSON.parse(value) as Comparison & { error?: string };
      if (answer.error !== undefined) throw new Error(`The Python reader failed: ${answer.error}\n${complaints}`);
      return answer;
    },
    stop: () => {
      child.stdin?.end();
      child.kill();
    },
  };
}
