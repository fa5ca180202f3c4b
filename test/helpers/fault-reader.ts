/** Runs the Python reader `fault_reader.py` as one process for many commands, because importing MLflow takes seconds. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { mlflowEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** The content of MLflow for some capture files. */
export interface Count {
  /** Non-blank lines. */
  lines: number;
  /** Distinct capture records. */
  records: number;
  notRecords: number;
  /** Records with a trace. */
  traced: number;
  missing: string[];
  /** Traces that exist twice, or with unexpected tokens or spans. */
  wrong: string[];
  /** Scorers with more than one verdict in force on a trace. */
  doubledVerdicts: string[];
  verdicts: number;
  /** Error assessments in force. */
  failedVerdicts: number;
  humanAssessments: number;
  tokens: number;
  expectedTokens: number;
  /** US dollars on the assessments. */
  judgeCost: number;
}

/** Both equations of a run, computed from its raw manifest, receipts and quarantine. */
export interface Equations {
  planned: number;
  accounted: number;
  traced: number;
  quarantinedInReceipts: number;
  quarantinedInObjects: number;
  quarantineReasons: string[];
  quarantinedLines: string[];
  verdictsExpected: number;
  verdictsAccounted: number;
  /** US dollars over all attempts. */
  usd: number;
}

export interface FoundAssessment {
  id: string;
  name: string;
  person: boolean;
  value: unknown;
  valid: boolean;
}

export interface FaultReader {
  do<T>(command: { do: string; [argument: string]: unknown }): Promise<T>;
  stop(): Promise<void>;
}

/** @param version the version of MLflow’s client, which must be the server’s */
export async function startFaultReader(
  version: string | undefined,
  mlflowUrl: string,
  awsEnv: Record<string, string>,
): Promise<FaultReader> {
  const { python } = await mlflowEnvironment(version);
  const child: ChildProcess = spawn(python, [packagePath('test', 'helpers', 'fault_reader.py'), mlflowUrl], {
    env: { ...cleanEnvironment(), ...awsEnv, MLFLOW_DISABLE_TELEMETRY: 'true' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr?.on('data', (data: Buffer) => {
    complaints = (complaints + data.toString()).slice(-4_000);
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const answers = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return {
    do: async <T>(command: { do: string }) => {
      child.stdin?.write(`${JSON.stringify(command)}\n`);
      const { value, done } = await answers.next();
      if (done) throw new Error(`The Python reader ended; its stderr ends with:\n${complaints}`);
      const answer = JSON.parse(value) as { result: T; error?: string };
      if (answer.error !== undefined) throw new Error(`${command.do}: ${answer.error}`);
      return answer.result;
    },
    stop: async () => {
      child.stdin?.end();
      await exited;
    },
  };
}
