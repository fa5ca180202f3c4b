/** Holds the simulation beside the emulator at a small scale: counts within 15%, times within a factor of 2. */
import type { Log } from '../../local/python/python-environment.ts';
import { usedShare } from '../../test/doubles/quota-shim/meter.ts';
import { QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import { countWindow } from '../cost/count-window.ts';
import { chatFile } from '../support/records.ts';
import { atLeast, atMost, type Check, round } from '../support/result.ts';
import { predict } from './explain.ts';
import { countOf, SCALE_ENDPOINT, shapeFor } from './measure.ts';
import { CALLS, type Measured } from './measured.ts';
import { defaultNumber } from './product.ts';
import { FRESH } from './scenarios.ts';
import { type Scenario, simulate } from './simulate.ts';

/** Less than a small machine bears, so that this quota binds and not the machine. */
const MLFLOW_PER_SECOND = 10;
const JUDGE_MS = 2000;
const COUNTS_WITHIN = 0.15;
const TIMES_WITHIN = 2;
const USED = 0.8;

/** Other shapes than those that were measured. */
const SHAPES = [
  { files: 16, captures: 5 },
  { files: 3, captures: 260 },
] as const;
/** A short run mostly starts and ends. */
const LEAST_CAPTURES = 500;

export async function checkBesideEmulator(measured: Measured, log: Log): Promise<Check[]> {
  const stack = await QuotaEnvironment.start({
    endpoint: SCALE_ENDPOINT,
    limits: { mlflow: { perSecond: MLFLOW_PER_SECOND } },
    judge: { delayMs: JUDGE_MS },
    likeApp: true,
    settings: { EVALUATION_BUDGET_USD: '1000', MLFLOW_REQUESTS_PER_SECOND: String(MLFLOW_PER_SECOND) },
    log,
  });
  try {
    await countWindow(stack, { name: 'warm-up', bodies: [chatFile(1, 900_000)], captures: 1 });
    const checks: Check[] = [];
    for (const [n, { files, captures }] of SHAPES.entries()) {
      const bodies = Array.from({ length: files }, (_, file) => chatFile(captures, n * 10_000 + file * captures));
      const window = await countWindow(stack, { name: `check-${n}`, bodies, captures: files * captures });
      const used = usedShare(stack.shim.counts.of('mlflow'), MLFLOW_PER_SECOND);
      const what = `${files} files of ${captures}`;
      for (const kind of CALLS) {
        const real = countOf(kind, window);
        const said = predict(measured.calls[kind], shapeFor(kind, window));
        if (real === 0) continue;
        checks.push(
          atMost(`${what}: ${kind}, simulated ${round(said, 1)}, is off by`, Math.abs(said / real - 1), COUNTS_WITHIN),
        );
      }
      const said = simulate(scenarioOf(files, captures), measured).endSeconds;
      log(`${what}: ${round(window.wallSeconds, 1)} s, simulated ${round(said, 1)} s`);
      const factor = Math.max(said / window.wallSeconds, window.wallSeconds / said);
      checks.push(
        atMost(`${what}: seconds, simulated ${round(said, 1)}, are off by a factor of`, factor, TIMES_WITHIN),
      );
      if (files * captures >= LEAST_CAPTURES) {
        checks.push(atLeast(`${what}: share of MLflow’s rate used`, used, USED));
      }
    }
    return checks;
  } finally {
    await stack.stop();
  }
}

/** The files of a window, which the emulator hands over at once. */
const scenarioOf = (files: number, captures: number): Scenario => ({
  quotas: {
    ...FRESH,
    lambda: 100,
    mlflowPerSecond: MLFLOW_PER_SECOND,
    judgeCallsPerMinute: 1e9,
    judgeTokensPerMinute: 1e12,
  },
  load: { perSecond: 0, capturesPerFile: captures, seconds: 0, bursts: false, backfillFiles: files },
  choices: {
    windowSeconds: 0,
    maxConcurrency: defaultNumber('MAX_CONCURRENCY'),
    memoryMb: 1024,
    timeoutSeconds: 900,
    sampleRate: 1,
    maxFunctions: defaultNumber('MAX_FUNCTIONS'),
    judgeConcurrency: defaultNumber('JUDGE_CONCURRENCY'),
    judgeSeconds: JUDGE_MS / 1000,
    filesPerStart: 1000,
    pollers: 1,
  },
});
