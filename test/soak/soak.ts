/**
 * `npm run soak [-- --records N]`: sends N capture lines through a deployed stack while MLflow, S3, the judge and the
 * functions fail, and repairs failed runs as a person would. A Python program then compares every line with MLflow and the
 * quarantine. Prints the result as JSON. The exit code is 1 when anything is lost, doubled or not accounted for.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { numberFlag, readFlags } from '../../bench/support/flags.ts';
import { describeError } from '../../local/machine/describe-error.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { cleanEnvironment } from '../../local/servers/ministack.ts';
import { listedExecutions } from '../../src/core/aws/executions.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { addCounts, countBy } from '../../src/core/values/counts.ts';
import type { DeployedPipeline, Outcome } from '../helpers/deployed-pipeline.ts';
import { FaultyEnvironment } from '../helpers/faulty-environment.ts';
import { CAPTURE_BUCKET } from '../helpers/local-environment.ts';
import { type SoakFaults, startFaults } from './faults.ts';
import { HOURS, type SoakCounts, soakFiles } from './records.ts';

const DEFAULT_RECORDS = 200_000;
const ENDPOINT = 'soak-endpoint';
/**
 * MLflow on SQLite and two cores accepts about 150 traces per second, or 30 with verdicts. Of 200,000 records, 4,000 with
 * verdicts take 2 to 3 minutes and the others 22, plus half of that for retries.
 */
const EVALUATED_SHARE = 0.05;
const MOST_EVALUATED = 4_000;
/** The share of the evaluated records that the judge assesses. Code scorers assess all. */
const SAMPLE_RATE = '0.05';
/** A run may take as long as the whole soak. */
const RUN_LIMIT_MS = 60 * 60_000;
/** Concurrent runs, and chunks of each. With two requests per chunk, MLflow stays busy while others wait to retry. */
const RUNS_AT_ONCE = 2;
const CHUNKS_AT_ONCE = '6';
/** Requests that MLflow denies, during the first files and during the backfills, so that some runs fail. */
const DENIALS = 20;
/** The most rounds of retries under faults, and again without faults. */
const MOST_ROUNDS = 6;

/** Replaces FAILED for a run that was retried. */
const RETRIED = 'RETRIED';

const started = Date.now();
const log = (line: string): void =>
  console.error(`${((Date.now() - started) / 1000).toFixed(0).padStart(5)} s  ${line}`);

const HELP = `Usage: npm run soak -- [--records N]

Sends N capture lines (default: ${DEFAULT_RECORDS}) through a deployed stack while its parts fail, and compares every
line with what MLflow and the quarantine hold.`;

function recordsAsked(): number {
  const args = process.argv.slice(2);
  try {
    const flags = readFlags(args, { records: 'number', help: 'switch' });
    if (!flags.includes('--help')) return numberFlag(flags, 'records', DEFAULT_RECORDS);
    console.log(HELP);
    process.exit(0);
  } catch (error) {
    console.error(describeError(error));
    process.exit(2);
  }
}

const records = recordsAsked();
const evaluated = Math.min(MOST_EVALUATED, Math.ceil(records * EVALUATED_SHARE));
const faulty = await FaultyEnvironment.start({
  endpoint: ENDPOINT,
  settings: { EVALUATION_SAMPLE_RATE: SAMPLE_RATE, EVALUATION_BUDGET_USD: '0', MAX_FUNCTIONS: CHUNKS_AT_ONCE },
  log,
});
try {
  const report = await soak(faulty);
  console.log(JSON.stringify(report, null, 2));
  process.exitCode = report.problems.length === 0 ? 0 : 1;
} finally {
  await faulty.stop();
}

async function soak({ pipeline }: FaultyEnvironment) {
  const counts: SoakCounts = { lines: 0, bad: 0, records: 0 };
  const faults = startFaults(faulty);
  const begun = Date.now();

  const { keys, outcomes: delivered } = await deliver(pipeline, counts, faults);
  log(`${delivered.length} executions have ended, by the rule and started manually: ${statuses(delivered)}`);
  const loaded = await backfill(pipeline, counts, faults);
  log(`${loaded.length} backfills have ended: ${statuses(loaded)}`);
  const underFire = await retryFailed(pipeline, [...delivered, ...loaded]);
  const injected = faults.stop();
  const seconds = Math.round((Date.now() - begun) / 1000);
  log(`${counts.lines} lines in ${seconds} s; injected: ${JSON.stringify(injected)}`);

  const healed = await retryFailed(pipeline, underFire);
  const back = await oneByOne(healed.filter(hasRefused), ({ name }) =>
    pipeline.run({ retry: { run: name, what: 'quarantined' } }, RUN_LIMIT_MS),
  );
  log(`${back.length} retries of what MLflow refused have ended: ${statuses(back)}`);
  // A second run over the same files replaces error assessments by verdicts. After that, nothing is left to do.
  const events = keys.map((key) => pipeline.event(key));
  const rejudged = await oneByOne(events, (event) => pipeline.run(event, RUN_LIMIT_MS));
  const settled = await oneByOne([...events, backfillInput(pipeline, 0)], (input) => pipeline.run(input, RUN_LIMIT_MS));
  log(`the evaluated files and one hour once more: ${statuses([...rejudged, ...settled])}`);

  const found = await compare({
    bucket: CAPTURE_BUCKET,
    workBucket: pipeline.outputs.workBucket,
    experiment: ENDPOINT,
    database: faulty.mlflowDatabase,
    expected: counts,
    settledRuns: settled.map(({ name }) => name),
  });
  const failedRuns = healed.filter(({ status }) => status === RETRIED).length;
  const problems = [...healed, ...back, ...rejudged, ...settled]
    .filter(({ status }) => status !== 'SUCCEEDED' && status !== RETRIED)
    .map(({ name, cause }) => `a run that no retry completed: ${name}: ${cause?.slice(0, 400)}`);
  return {
    records,
    seconds,
    perSecond: Math.round(counts.lines / seconds),
    injected,
    failedRuns,
    ...found,
    problems: [...problems, ...found.problems],
  };
}

/** Uploads files that the rule delivers, every second one twice at the same time. */
async function deliver(pipeline: DeployedPipeline, counts: SoakCounts, faults: SoakFaults) {
  const byHand: string[] = [];
  const keys: string[] = [];
  faults.denyNext(DENIALS);
  for (const file of soakFiles(0, evaluated, 'delivered')) {
    const key = faulty.key(file.name, 10 + HOURS);
    await pipeline.put(key, file.lines);
    if (keys.length % 2 === 1) byHand.push(await pipeline.start(pipeline.event(key)));
    addCounts(counts, file.counts);
    keys.push(key);
  }
  const listed = new Map<string, string[]>();
  const arns = await pipeline.until(`executions over ${keys.length} files`, async () => {
    const all = await executions(pipeline);
    for (const arn of all) if (!listed.has(arn)) listed.set(arn, await pipeline.keysOf(arn));
    const started = new Set([...listed.values()].flat());
    return keys.every((key) => started.has(key)) ? all : undefined;
  });
  return { keys, outcomes: await oneByOne(arns, (arn) => pipeline.ended(arn, RUN_LIMIT_MS)) };
}

/** Processes all other files by backfills, the first hour by two concurrent ones. Restarts MLflow midway. */
async function backfill(pipeline: DeployedPipeline, counts: SoakCounts, faults: SoakFaults): Promise<Outcome[]> {
  await pipeline.disableRule();
  for (const file of soakFiles(evaluated, records, 'loaded')) {
    await pipeline.put(faulty.key(file.name, 10 + file.hour), file.lines);
    addCounts(counts, file.counts);
  }
  log(`${counts.lines} lines are in the bucket`);
  const hours = [0, ...Array.from({ length: HOURS }, (_, hour) => hour)];
  let restarted: Promise<void> | undefined;
  const outcomes = await oneByOne(hours, async (hour) => {
    if (hour === HOURS / 2) restarted = faulty.restartMlflow();
    if (hour === 1) faults.denyNext(DENIALS);
    const outcome = await pipeline.run(backfillInput(pipeline, hour), RUN_LIMIT_MS);
    log(`hour ${hour}: ${outcome.status} ${JSON.stringify(outcome.summary?.lines)}`);
    return outcome;
  });
  await restarted;
  return outcomes;
}

function backfillInput(pipeline: DeployedPipeline, hour: number): object {
  const prefix = faulty.key('', 10 + hour).replace(/[^/]*$/, '');
  return { bucket: pipeline.outputs.captureBucket, prefix, evaluate: false };
}

/**
 * Retries failed runs, round by round, depending on the cause of each failure.
 *
 * @returns all outcomes, those of the retries last
 */
async function retryFailed(pipeline: DeployedPipeline, outcomes: Outcome[]): Promise<Outcome[]> {
  const all = [...outcomes];
  for (let round = 1; round <= MOST_ROUNDS; round += 1) {
    const failed = all.filter(({ status }) => status !== 'SUCCEEDED' && status !== RETRIED);
    if (failed.length === 0) break;
    for (const { name, error, cause } of failed) log(`${name} failed: ${error}: ${cause?.slice(0, 400)}`);
    const retries = await oneByOne(failed, ({ cause, input }) =>
      pipeline.run(JSON.parse(/\{"retry":.*\}\}/.exec(cause ?? '')?.[0] ?? JSON.stringify(input)), RUN_LIMIT_MS),
    );
    log(`round ${round} of retries: ${statuses(retries)}`);
    for (const outcome of failed) outcome.status = RETRIED;
    all.push(...retries);
  }
  return all;
}

function hasRefused({ summary }: Outcome): boolean {
  return Object.keys(summary?.quarantineReasons ?? {}).some((name) => name.startsWith('Mlflow'));
}

const statuses = (outcomes: readonly Outcome[]): string =>
  JSON.stringify(countBy(outcomes, ({ status, summary }) => `${status} (${summary?.status ?? 'no summary'})`));

async function executions({ environment, outputs }: DeployedPipeline): Promise<string[]> {
  const found = await Array.fromAsync(listedExecutions(environment.clients.sfn, outputs.stateMachineArn, {}));
  return found.flatMap(({ executionArn }) => executionArn ?? []);
}

/** Works on the items, a few at the same time. @returns the results in the order of the items */
async function oneByOne<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  await forEachConcurrently(RUNS_AT_ONCE, items.entries(), async ([at, item]) => {
    results[at] = await work(item);
  });
  return results;
}

interface Found {
  problems: string[];
  [fact: string]: unknown;
}

async function compare(question: object): Promise<Found> {
  const { python } = await defaultPythonEnvironment();
  const { stdout } = await promisify(execFile)(
    python,
    [packagePath('test', 'soak', 'soak_reader.py'), JSON.stringify(question)],
    { env: { ...cleanEnvironment(), ...faulty.environment.ministack.env }, maxBuffer: 64 * 1024 * 1024 },
  );
  return JSON.parse(stdout) as Found;
}
