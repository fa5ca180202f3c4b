/** The Python reader of S3 and MLflow (`deployed_reader_s3.py`) as a process that answers question by question. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { projectPath } from '../../local/project-root.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';

export interface ReadAssessment {
  name: string;
  value: unknown;
  error: string | null;
  source: string;
  rationale: string | null;
  valid: boolean;
  metadata: Record<string, string>;
}

/** What the reader found, each count by its own reading of S3 and MLflow. */
export interface Comparison {
  /** Non-blank lines in the bucket. */
  lines: number;
  /** Lines that are no capture records. */
  notRecords: number;
  /** Distinct capture records. */
  records: number;
  /** Records whose trace is in MLflow. */
  traced: number;
  /** Ids of traces that should be in MLflow and are not. */
  missing: string[];
  /** Ids of traces in the experiment that belong to no record. */
  extra: string[];
  /** What is wrong, by trace id. */
  wrong: Record<string, string[]>;
  states: Record<string, number>;
  totalTokens: number;
  assessments: Record<string, ReadAssessment[]>;
}

export interface DeployedReader {
  /** @param keys objects to compare; all `.jsonl` objects of the bucket where left out */
  compare(bucket: string, experiment: string, keys?: string[]): Promise<Comparison>;
  stop(): void;
}

export async function startDeployedReader(awsEnv: Record<string, string>, mlflowUrl: string): Promise<DeployedReader> {
  const { python } = await defaultPythonEnvironment();
  const child: ChildProcess = spawn(python, [projectPath('test', 'helpers', 'deployed_reader_s3.py')], {
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
      if (done) throw new Error(`The Python reader ended; its last words:\n${complaints}`);
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
