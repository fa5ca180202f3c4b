/** The sizes that are simulated, the accounts that bear them, and the settings to choose. */
import { FRESH_ACCOUNT } from '../../test/doubles/quota-shim/limits.ts';
import { JUDGE_SECONDS } from './measured.ts';
import { defaultNumber, EVENTS_AT_ONCE, JUDGED_CAPTURE, STARTERS_AT_ONCE } from './product.ts';
import type { Choices, Load, Quotas, Scenario } from './simulate.ts';

export const RATES = [1, 10, 100, 1000] as const;
export const FILE_SIZES = [1, 500] as const;

/** An account that asked for nothing yet (test/doubles/quota-shim/limits.ts has the sources). */
export const FRESH: Quotas = {
  lambda: FRESH_ACCOUNT.lambdaConcurrency,
  mlflowPerSecond: FRESH_ACCOUNT.mlflow.perSecond,
  judgeCallsPerMinute: FRESH_ACCOUNT.judgeRequestsPerMinute,
  judgeTokensPerMinute: FRESH_ACCOUNT.judgeTokensPerMinute,
  outputBurndown: FRESH_ACCOUNT.outputBurndown,
  startsPerSecond: FRESH_ACCOUNT.startExecution.perSecond,
  transitionsPerSecond: 800,
  openMapRuns: FRESH_ACCOUNT.openMapRuns,
  // A new on-demand table (DynamoDB's developer guide, "Understanding DynamoDB warm throughput in different scenarios").
  tableWritesPerSecond: 4000,
  partitionWritesPerSecond: FRESH_ACCOUNT.partitionWrites,
  s3WritesPerSecond: FRESH_ACCOUNT.s3Writes.perSecond,
};

/** What is kept free above the average load in the quotas and samples to choose, so that a backlog shrinks after a burst. */
export const HEADROOM = 1.3;

/** What judging a capture takes of a quota of tokens, on average. */
export const tokensOf = (quotas: Pick<Quotas, 'outputBurndown'>): number =>
  JUDGED_CAPTURE.inputTokens + JUDGED_CAPTURE.outputTokens * quotas.outputBurndown;

const roundUp = (value: number, digits = 2): number => {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) + 1 - digits);
  return Math.ceil(value / unit) * unit;
};

/** A function has this number of calls in flight (product.ts) for JUDGE_SECONDS each, and waits for MLflow as long again at worst. */
export const FUNCTION_SECONDS = (JUDGE_SECONDS / 32) * 2;

/** The account's quotas with those raised that judging this number of captures a second needs. */
export function grownFor(perSecond: number, perCapture: { mlflow: number; tableWrites: number }): Quotas {
  const calls = perSecond * 60 * HEADROOM * JUDGED_CAPTURE.calls;
  const functions = perSecond * FUNCTION_SECONDS * HEADROOM + 10;
  return {
    ...FRESH,
    lambda: Math.max(FRESH.lambda, roundUp(functions)),
    mlflowPerSecond: Math.max(FRESH.mlflowPerSecond, roundUp(perSecond * perCapture.mlflow * HEADROOM)),
    judgeCallsPerMinute: Math.max(FRESH.judgeCallsPerMinute, roundUp(calls)),
    judgeTokensPerMinute: Math.max(FRESH.judgeTokensPerMinute, roundUp(calls * tokensOf(FRESH))),
    tableWritesPerSecond: Math.max(FRESH.tableWritesPerSecond, roundUp(perSecond * perCapture.tableWrites * HEADROOM)),
  };
}

/** The sample rates to choose from, the largest first. */
export const SAMPLE_RATES = [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

/** Functions that other work of the stack, and of the account, needs. */
const SPARED_FUNCTIONS = 2;

export const choicesFor = (quotas: Quotas, more: Partial<Choices> = {}): Choices => {
  const maxFunctions = Math.max(1, quotas.lambda - SPARED_FUNCTIONS);
  return {
    windowSeconds: defaultNumber('BATCH_WINDOW_SECONDS'),
    maxConcurrency: Math.max(defaultNumber('MAX_CONCURRENCY'), maxFunctions),
    memoryMb: defaultNumber('LAMBDA_MEMORY_MB'),
    timeoutSeconds: defaultNumber('LAMBDA_TIMEOUT_SECONDS'),
    sampleRate: 1,
    maxFunctions,
    // As many as the quota of calls a minute has in flight.
    judgeConcurrency: Math.max(64, roundUp((quotas.judgeCallsPerMinute / 60) * JUDGE_SECONDS * HEADROOM)),
    judgeSeconds: JUDGE_SECONDS,
    filesPerStart: EVENTS_AT_ONCE,
    pollers: STARTERS_AT_ONCE,
    ...more,
  };
};

export const loadOf = (perSecond: number, capturesPerFile: number, seconds: number, drainSeconds: number): Load => ({
  drainSeconds,
  perSecond,
  capturesPerFile,
  seconds,
  bursts: true,
  backfillFiles: 0,
});

/** 300,000 files of one capture each, processed by one execution. */
export const backfill = (quotas: Quotas, sampleRate: number): Scenario => ({
  quotas,
  load: { perSecond: 0, capturesPerFile: 1, seconds: 0, bursts: false, backfillFiles: 300_000 },
  choices: choicesFor(quotas, { sampleRate }),
});
