/**
 * The quota shim: fronts for emulated AWS, MLflow and the judge that impose an account's limits, each alone or all at once,
 * and count what was asked for, throttled and served. The deployed functions reach every service through it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectPath } from '../../../local/project-root.ts';
import { AwsGate, MlflowGate } from './aws-gate.ts';
import { type Front, startFront } from './front.ts';
import { JudgeGate } from './judge-gate.ts';
import type { QuotaLimits } from './limits.ts';
import { Counts } from './meter.ts';

/** URLs of the servers behind the shim. */
export interface Behind {
  aws: string;
  mlflow: string;
  judge: string;
}

/** A line that `emulator.py` wrote. */
export interface EmulatorEvent {
  /** Milliseconds since 1970. */
  at: number;
  function?: string;
  memoryMb?: number;
  ms?: number;
  error?: boolean;
  logBytes?: number;
  /** The function that found no free place. */
  throttled?: string;
  mapRun?: 'waited' | 'open' | 'ended';
  open?: number;
}

export interface QuotaShim {
  urls: Behind;
  counts: Counts;
  /** Variables for the emulator, whose functions inherit them. */
  env: Record<string, string>;
  /** What happened inside the emulator so far. */
  emulatorEvents(): EmulatorEvent[];
  /** Midnight of the judge's provider. */
  nextDay(): void;
  stop(): Promise<void>;
}

/**
 * Starts the fronts. The servers behind them may start later.
 *
 * @param directory a folder for the emulator's log
 */
export async function startQuotaShim(behind: Behind, limits: QuotaLimits, directory: string): Promise<QuotaShim> {
  const counts = new Counts();
  const judge = new JudgeGate(limits, counts);
  const fronts: Record<keyof Behind, Front> = {
    aws: await startFront(behind.aws, new AwsGate(limits, counts)),
    mlflow: await startFront(behind.mlflow, new MlflowGate(limits, counts)),
    judge: await startFront(behind.judge, judge),
  };
  const log = join(directory, 'quota-events.jsonl');
  const recorder = process.env.REQUEST_RECORDER;
  return {
    urls: { aws: fronts.aws.url, mlflow: fronts.mlflow.url, judge: fronts.judge.url },
    counts,
    env: {
      AWS_ENDPOINT_URL: fronts.aws.url,
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: fronts.judge.url,
      AWS_ENDPOINT_URL_BEDROCK: fronts.judge.url,
      REQUEST_RECORDER: projectPath('test', 'doubles', 'quota-shim', 'emulator.py'),
      QUOTA_LOG: log,
      ...(recorder ? { QUOTA_NEXT: recorder } : {}),
      ...(limits.openMapRuns ? { QUOTA_OPEN_MAP_RUNS: String(limits.openMapRuns) } : {}),
      ...(limits.lambdaConcurrency ? { LAMBDA_ACCOUNT_CONCURRENCY: String(limits.lambdaConcurrency) } : {}),
    },
    emulatorEvents: () => readEvents(log),
    nextDay: () => {
      judge.today = 0;
    },
    stop: async () => {
      await Promise.all(Object.values(fronts).map((front) => front.stop()));
    },
  };
}

function readEvents(file: string): EmulatorEvent[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter(Boolean).map((line) => JSON.parse(line) as EmulatorEvent);
}
