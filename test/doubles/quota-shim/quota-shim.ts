/**
 * The quota shim: fronts for emulated AWS, MLflow and the judge that impose an account's limits, each alone or all at once,
 * and count what was throttled and served. The deployed functions reach every service through it.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { awsGate, mlflowGate } from './aws-gate.ts';
import { type Gate, startFront } from './front.ts';
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
  memoryMb?: number;
  ms?: number;
  logBytes?: number;
  /** The function that found no free place. */
  throttled?: string;
}

export type QuotaShim = Awaited<ReturnType<typeof startQuotaShim>>;

/**
 * Starts the fronts. The servers behind them may start later.
 *
 * @param directory a folder for the emulator's log
 * @param now the clock of the rates, epoch milliseconds
 */
export async function startQuotaShim(
  behind: Behind,
  limits: QuotaLimits,
  directory: string,
  now: () => number = Date.now,
) {
  const counts = new Counts();
  const log = join(directory, 'quota-events.jsonl');
  const limitsFile = join(directory, 'quota-limits.json');
  const gates = {} as Record<keyof Behind, Gate>;
  let judge: JudgeGate;
  const impose = (next: QuotaLimits): void => {
    judge = new JudgeGate(next, counts, now);
    Object.assign(gates, { aws: awsGate(next, counts, now), mlflow: mlflowGate(next, counts, now), judge });
    writeFileSync(limitsFile, JSON.stringify(next));
  };
  impose(limits);
  const front = (name: keyof Behind): ReturnType<typeof startFront> =>
    startFront(behind[name], { admit: (asked, upstream) => gates[name].admit(asked, upstream) });
  const fronts = { aws: await front('aws'), mlflow: await front('mlflow'), judge: await front('judge') };
  const recorder = process.env.REQUEST_RECORDER;
  return {
    urls: { aws: fronts.aws.url, mlflow: fronts.mlflow.url, judge: fronts.judge.url },
    counts,
    /** Variables for the emulator, whose functions inherit them. */
    env: {
      AWS_ENDPOINT_URL: fronts.aws.url,
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: fronts.judge.url,
      AWS_ENDPOINT_URL_BEDROCK: fronts.judge.url,
      REQUEST_RECORDER: packagePath('test', 'doubles', 'quota-shim', 'emulator.py'),
      QUOTA_LOG: log,
      QUOTA_LIMITS: limitsFile,
      ...(recorder ? { QUOTA_NEXT: recorder } : {}),
    },
    /** What happened inside the emulator so far. */
    emulatorEvents: () => readEvents(log),
    /** Imposes other limits from now on, in place of all that were imposed. */
    impose,
    /** Midnight of the judge's provider. */
    nextDay: () => {
      judge.today = 0;
    },
    stop: async () => {
      await Promise.all(Object.values(fronts).map((each) => each.stop()));
    },
  };
}

function readEvents(file: string): EmulatorEvent[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter(Boolean).map((line) => JSON.parse(line) as EmulatorEvent);
}
