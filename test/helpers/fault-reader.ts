/** Runs the Python reader `fault_reader.py` as one process for many commands, because importing MLflow takes seconds. */
import { mlflowEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';
import { startPythonProcess } from './python-process.ts';

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

export type FaultReader = Awaited<ReturnType<typeof startFaultReader>>;

/** @param version the version of MLflow’s client, which must be the server’s */
export async function startFaultReader(version: string | undefined, mlflowUrl: string, awsEnv: Record<string, string>) {
  const { python } = await mlflowEnvironment(version);
  const env = { ...cleanEnvironment(), ...awsEnv, MLFLOW_DISABLE_TELEMETRY: 'true' };
  const { ask, stop } = startPythonProcess(python, ['fault_reader.py', mlflowUrl], env);
  return {
    do: async <T>(command: { do: string; [argument: string]: unknown }) => (await ask<{ result: T }>(command)).result,
    stop,
  };
}
