/**
 * Simulates days of captures, from 1 to 1,000 a second, against an account's quotas: what saturates first, the times from
 * file to verdict, backlogs, dollars. `--measure` measures what it is driven by, `--check` holds it beside the emulator, and
 * `--write` writes docs/scale.md.
 */
import { writeFileSync } from 'node:fs';
import type { Log } from '../local/python/python-environment.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { checkBesideEmulator } from './scale/check.ts';
import { predict } from './scale/explain.ts';
import { measure } from './scale/measure.ts';
import { type Measured, readMeasured } from './scale/measured.ts';
import { JUDGED_CAPTURE } from './scale/product.ts';
import {
  backfill,
  choicesFor,
  FILE_SIZES,
  FRESH,
  FUNCTION_SECONDS,
  grownFor,
  HEADROOM,
  loadOf,
  RATES,
  SAMPLE_RATES,
} from './scale/scenarios.ts';
import { type Quotas, type Scenario, simulate } from './scale/simulate.ts';
import { duration, isBorne, loads, type Row, scalePage, type Tables } from './scale/table.ts';
import { numberFlag } from './support/flags.ts';
import { PRICES_OF } from './support/list-prices.ts';
import { atLeast, atMost, type BenchResult, type Check, machine, round } from './support/result.ts';

const WITHIN_OWN_TIME = 1.15;
const UNJUDGED_HOURS = 1.5;
const OF_TIGHTEST = 0.9;
const UNJUDGED_MLFLOW = 100;
/** After a day, for the last burst's backlog. */
const DRAIN_SECONDS = 6 * 3600;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const measured = flags.includes('--measure') ? await measure(log) : readMeasured();
  const seconds = numberFlag(flags, 'hours', 24) * 3600;
  const tables = simulateAll(measured, seconds, log);
  if (flags.includes('--write')) writeFileSync(packagePath('docs', 'scale.md'), scalePage(tables, measured));
  const beside = flags.includes('--check') ? await checkBesideEmulator(measured, log) : [];
  return resultOf(tables, beside, measured);
}

function simulateAll(measured: Measured, seconds: number, log: Log): Tables {
  const one = (scenario: Scenario, name: string): Row => {
    const started = performance.now();
    const outcome = simulate(scenario, measured);
    const took = round((performance.now() - started) / 1000, 1);
    log(`${name}: p50 ${duration(outcome.times.quantile(0.5))}, ${outcome.failed} failed, simulated in ${took} s`);
    return { scenario, outcome };
  };
  const ofCapture = { runs: 0, files: 0, chunks: 1 / 250, captures: 1 };
  const perCapture = {
    mlflow: predict(measured.calls.mlflow, ofCapture),
    // Of files of one capture, which need the most.
    tableWrites: predict(measured.calls.dynamodbWriteUnit, {
      ...ofCapture,
      files: 1,
      claimed: 1,
      seconds: FUNCTION_SECONDS,
    }),
  };
  const sizes = RATES.flatMap((rate) => FILE_SIZES.map((size) => ({ rate, size })));
  const day = (name: string, quotas: Quotas, rate: number, size: number, sampleRate: number): Row =>
    one(
      { quotas, load: loadOf(rate, size, seconds, DRAIN_SECONDS), choices: choicesFor(quotas, { sampleRate }) },
      `${name}, sample rate ${sampleRate}, ${rate} a second, ${size} a file`,
    );
  const fresh = sizes.map(({ rate, size }) => day('new account', FRESH, rate, size, 1));
  const sampled = sizes.map(({ rate, size }, n) => {
    let row = fresh[n] as Row;
    for (const sampleRate of SAMPLE_RATES.slice(1)) {
      if ((loads(row)[0]?.load ?? 0) * HEADROOM <= 1) break;
      row = day('new account', FRESH, rate, size, sampleRate);
    }
    return row;
  });
  const grown = sizes.map(({ rate, size }) => day('raised quotas', grownFor(rate, perCapture), rate, size, 1));
  const cold = grown
    .filter(({ scenario: { quotas } }) => quotas.tableWritesPerSecond > FRESH.tableWritesPerSecond)
    .map(({ scenario: { quotas, load } }) => {
      const { tableWritesPerSecond } = FRESH;
      return day('a new table', { ...quotas, tableWritesPerSecond }, load.perSecond, load.capturesPerFile, 1);
    });
  const hundred = grownFor(100, perCapture);
  const unjudged = { ...hundred, mlflowPerSecond: UNJUDGED_MLFLOW };
  return {
    fresh,
    sampled,
    grown,
    cold,
    backfills: [
      backfillOf('judged, a new account', backfill(FRESH, 1), one),
      backfillOf('judged, quotas for 100 captures a second', backfill(hundred, 1), one),
      backfillOf(`not judged, ${UNJUDGED_MLFLOW} MLflow requests a second`, backfill(unjudged, 0), one),
    ],
  };
}

/** The tightest quota's own time is what its units would take without anything else. */
function backfillOf(
  name: string,
  scenario: Scenario,
  one: (scenario: Scenario, name: string) => Row,
): Tables['backfills'][number] {
  const row = one(scenario, `backfill, ${name}`);
  const { quotas, choices } = scenario;
  const judged = row.outcome.captures * choices.sampleRate;
  const tokens = JUDGED_CAPTURE.inputTokens + JUDGED_CAPTURE.outputTokens * quotas.outputBurndown;
  const own = [
    { tightest: 'judge tokens', ownSeconds: ((judged * tokens) / quotas.judgeTokensPerMinute) * 60 },
    { tightest: 'judge calls', ownSeconds: (judged / quotas.judgeCallsPerMinute) * 60 },
    { tightest: 'MLflow requests', ownSeconds: row.outcome.calls.mlflow / quotas.mlflowPerSecond },
  ].toSorted((a, b) => b.ownSeconds - a.ownSeconds);
  return { name, row, ...(own[0] as (typeof own)[number]) };
}

function resultOf(
  { fresh, sampled, grown, cold, backfills }: Tables,
  beside: readonly Check[],
  measured: Measured,
): BenchResult {
  const all = [...fresh, ...sampled, ...grown, ...cold, ...backfills.map(({ row }) => row)];
  const unjudged = backfills.at(-1);
  const figures = Object.fromEntries(
    grown.map(({ scenario: { load }, outcome }) => [
      `${load.perSecond}/s at ${load.capturesPerFile} a file`,
      `p50 ${duration(outcome.times.quantile(0.5))}, p99 ${duration(outcome.times.quantile(0.99))}`,
    ]),
  );
  return {
    name: 'scale',
    ratio: 1,
    ours: figures,
    peer: {},
    machine: machine(),
    versions: { node: process.version, measured: measured.at, 'list prices': `us-east-1, ${PRICES_OF}` },
    checks: [
      atMost(
        'failed chunks',
        all.reduce((sum, { outcome }) => sum + outcome.failed, 0),
        0,
      ),
      ...backfills.map(({ name, row, ownSeconds, tightest }) =>
        atMost(
          `backfill, ${name}: × the own time of ${tightest}`,
          row.outcome.endSeconds / ownSeconds,
          WITHIN_OWN_TIME,
        ),
      ),
      atMost('backfill, not judged: hours', (unjudged?.row.outcome.endSeconds ?? Number.NaN) / 3600, UNJUDGED_HOURS),
      atMost('loads that the raised quotas do not bear', grown.filter((row) => !isBorne(row)).length, 0),
      // Where more is asked for than there is, the quota must be used.
      ...fresh.filter((row) => !isBorne(row)).map((row) => usedOf(row)),
      ...beside,
    ],
    notes: backfills.map(
      ({ name, row, ownSeconds, tightest }) =>
        `backfill, ${name}: ${duration(row.outcome.endSeconds)}; ${tightest} alone need ${duration(ownSeconds)}`,
    ),
  };
}

function usedOf(row: Row): Check {
  const { load } = row.scenario;
  const name = loads(row)[0]?.name ?? '';
  const share = row.outcome.quotas.find((quota) => quota.name === name)?.share ?? 0;
  return atLeast(
    `share of ${name} used, new account, ${load.perSecond}/s at ${load.capturesPerFile} a file`,
    share,
    OF_TIGHTEST,
  );
}
