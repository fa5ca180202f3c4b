/**
 * Counts calls to AWS per capture in the emulator, and prices them: infrastructure alone, without the judge and span files. `--write`
 * keeps the counts, for `npm run bench -- scale`; `--otlp` also sends spans and verdicts to a receiver of OpenTelemetry.
 */
import { writeFileSync } from 'node:fs';
import type { Log } from '../local/python/python-environment.ts';
import { startMisbehavingServer } from '../test/doubles/misbehaving-server.ts';
import { APP_VERSION, type QuotaEnvironment, startQuotaEnvironment } from '../test/helpers/quota-environment.ts';
import type { Units } from './cost/count-calls.ts';
import { countWindow } from './cost/count-window.ts';
import { COUNTS_FILE, type Counted, type Counts } from './cost/counts.ts';
import { initGbSeconds } from './cost/init-phase.ts';
import { numberFlag, textFlags } from './support/flags.ts';
import { LIST_PRICES, PRICES_OF, type Priced } from './support/list-prices.ts';
import { chatFile } from './support/records.ts';
import { atMost, type BenchResult, machine, round } from './support/result.ts';

const ENDPOINT = 'bench-cost';
/** A real judge's answer for all scorers (src/monitoring/chunk/chunk-bounds.ts), for which the function waits. */
const JUDGE_MS = 10_000;
const WARM_UP_FILES = 10;
/** Of a month: by each of Lambda's five pollers, which wait for 20 s each time. */
const EMPTY_RECEIVES = (5 * 30 * 86_400) / 20;

/** Captures a file, its files in a window of 60 s at a million captures a day, and dollars for a million captures. */
const CASES = [
  { captures: 1, files: 694, target: 60 },
  { captures: 20, files: 35, target: 12 },
  { captures: 500, files: 2, target: 10 },
] as const;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const only = textFlags(flags, 'only').map(Number);
  const cases = CASES.filter(({ captures }) => only.length === 0 || only.includes(captures));
  const mostFiles = numberFlag(flags, 'files', Number.MAX_SAFE_INTEGER);
  const receiver = flags.includes('--otlp') ? await startMisbehavingServer({ keepsNone: true }) : undefined;
  const stack = await startQuotaEnvironment({
    endpoint: ENDPOINT,
    limits: {},
    judge: { delayMs: numberFlag(flags, 'judge-ms', JUDGE_MS) },
    // A budget costs requests, so it stays on, but must not hold anything.
    likeApp: true,
    // All captures are judged, each file by its chance.
    settings: {
      ...{ EVALUATION_BUDGET_USD: '100000', JUDGED_CAPTURES_PER_DAY: '1000000000' },
      ...(receiver && { OTLP_ENDPOINT: receiver.url }),
    },
    log,
  });
  try {
    // The functions' first starts are not what a day of files costs.
    const warmUp = Array.from({ length: Math.min(WARM_UP_FILES, mostFiles) }, (_, n) => chatFile(1, 900_000 + n));
    await countWindow(stack, { name: 'warm-up', bodies: warmUp, captures: warmUp.length });
    const counted: Counted[] = [];
    for (const { captures, files } of cases) {
      counted.push(await countCase(stack, captures, Math.min(files, mostFiles), log));
    }
    if (flags.includes('--write')) {
      const counts: Counts = { at: new Date().toISOString(), machine: machine(), mlflow: APP_VERSION, counted };
      writeFileSync(COUNTS_FILE, `${JSON.stringify(counts, rounded, 2)}\n`);
    }
    return resultOf(counted, await initGbSeconds(stack), flags);
  } finally {
    await Promise.all([stack.stop(), receiver?.stop()]);
  }
}

const rounded = (_: string, value: unknown): unknown =>
  typeof value === 'number' ? Number(value.toPrecision(6)) : value;

async function countCase(stack: QuotaEnvironment, captures: number, files: number, log: Log): Promise<Counted> {
  const bodies = Array.from({ length: files }, (_, n) => chatFile(captures, (captures * 1000 + n) * captures));
  const window = await countWindow(stack, { name: `cost-${captures}`, bodies, captures: captures * files });
  const usd = perMillion(window.units, captures * files);
  log(`${captures} a file: ${files} files, ${window.runs} executions, $${usd.toFixed(2)} a million`);
  log(JSON.stringify(Object.fromEntries(stack.shim.counts.operations)));
  log(
    `${window.units.stateTransition} transitions, ${requestsOf(stack, 'LIST')} LIST, ${requestsOf(stack, 'PUT')} PUT`,
  );
  return { captures, files, runs: window.runs, mlflow: window.mlflow, units: window.units };
}

/** Requests to the work bucket. */
const requestsOf = ({ shim, pipeline }: QuotaEnvironment, method: string): number =>
  shim.counts.operations.get(`s3 ${method} ${pipeline.outputs.workBucket}`) ?? 0;

const dollars = (units: Units): number =>
  Object.entries(units).reduce((sum, [name, count]) => sum + count * LIST_PRICES[name as Priced], 0);
const perMillion = (units: Units, captures: number): number => (dollars(units) / captures) * 1e6;

function resultOf(counted: readonly Counted[], initGb: number, flags: readonly string[]): BenchResult {
  const figures: Record<string, number> = Object.fromEntries(
    counted.map(({ captures, files, units }) => [
      `${captures} a file, $ a million`,
      round(perMillion(units, captures * files)),
    ]),
  );
  figures['INIT of a run that starts cold, $ a million runs'] = round(initGb * LIST_PRICES.lambdaGbSecond * 1e6);
  figures['receives of an empty queue, $ a month'] = round(EMPTY_RECEIVES * LIST_PRICES.sqsRequest);
  const parts = counted.map(({ captures, files, runs, mlflow, units }) => {
    const each = Object.entries(units).map(([name, count]) => {
      const usd = ((count * LIST_PRICES[name as Priced]) / (captures * files)) * 1e6;
      return `${name} ${round(count, 3)} ($${round(usd)})`;
    });
    return `${captures} a file, ${files} files in ${runs} executions: ${each.join(', ')}, MLflow requests ${mlflow}`;
  });
  return {
    ratio: 1,
    ours: figures,
    peer: {},
    versions: { 'list prices': `us-east-1, ${PRICES_OF}` },
    checks: counted.map(({ captures, files, units }) => {
      const target = CASES.find((each) => each.captures === captures)?.target ?? 0;
      return atMost(
        `dollars for a million captures at ${captures} a file`,
        perMillion(units, captures * files),
        target,
      );
    }),
    notes: [
      ...parts,
      `units and, in parentheses, dollars for a million captures; the judge answers in ${numberFlag(flags, 'judge-ms', JUDGE_MS)} ms`,
      'without the judge, without MLflow’s own storage ($5 a million for span files in S3), and without what the stack costs at rest',
      'the emulator’s functions share this machine, so their seconds are above those on AWS; what Step Functions asks of S3 for a Map is added as AWS documents it',
    ],
  };
}
