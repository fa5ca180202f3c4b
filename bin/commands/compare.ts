/** `inference-monitor compare`: compares two replays of the same captures, and can gate a release. */
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { compareRuns, metricRows, type RunFacts, type RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import { repliesData } from '../../src/replay/compare/compared-data.ts';
import { type Difference, STATISTICS } from '../../src/replay/compare/differences.ts';
import { judgeReplies, judgeWarning, stoppedBy } from '../../src/replay/compare/judge-replies.ts';
import { type OpenedRun, openRun } from '../../src/replay/compare/open-run.ts';
import { COMPARED_METRICS, METRIC_TAGS, type RunData, readJson, readRun } from '../../src/replay/compare/run-data.ts';
import { type CapturedComparison, COMPARE_FILE } from '../../src/replay/compare/with-captured.ts';
import { decideGate, ZERO_TOLERANCE } from '../../src/replay/gate/gate.ts';
import { parseThreshold, SHARES, type Threshold } from '../../src/replay/gate/thresholds.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { gateText, signed } from '../../src/replay/gate/words.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../src/replay/options.ts';
import { COMPARISON_FILES, writeComparison } from '../../src/replay/report/write-comparison.ts';
import { EXIT, jsonOption, writeJson } from '../cli/output.ts';
import { openStorage } from '../cli/storage.ts';
import { checkOutputs, type GateFlags, type OutputFlags, withGateFile, writeOutputs } from './gate-flags.ts';
import { amount } from './numbers.ts';
import { qualityText } from './quality-text.ts';
import { writableDirectory } from './replay-directory.ts';
import { type CommandStopping, stopCommandOnSignals } from './stopping.ts';

interface CompareFlags extends GateFlags, OutputFlags {
  output?: string;
  json?: boolean;
  report: boolean;
  plan?: boolean;
  captures?: string;
}

const HELP = `
Thresholds limit how much worse the second run may be (repeatable):
  metric:statistic:limit     request_latency:p95:10%   at most 10% slower
                             time_to_first_token:p50:50   at most 50 ms slower
  share:percent              error_rate:1   regressed:2   newly_failing:0   new_refusals:0   judged_worse:5

  metrics: ${METRIC_TAGS.join(', ')}
  statistics: ${STATISTICS.join(', ')}; shares: ${SHARES.join(', ')}
A threshold passes if the second run is shown to be worse by no more than this: the upper end of the one-sided 95%
interval is within the limit. It fails if the lower end is beyond it. Else it cannot tell, and says how many more
requests would. With the limit 0 a single case fails, and none passes from 300 requests on (--zero-tolerance).

Exit codes: 0 all thresholds passed, 1 one failed, 3 the gate cannot tell; 2 the runs could not be compared or, without
thresholds, the judge failed; 130 after Ctrl-C.

Examples:
  inference-monitor compare replays/before replays/after --threshold request_latency:p95:10% --threshold error_rate:1
  inference-monitor compare replays/before replays/after --judge --threshold judged_worse:5
  inference-monitor compare replays/before replays/after --gate gate.yaml --junit gate.xml --markdown gate.md
  inference-monitor compare --plan replays/before --threshold request_latency:p95:10% --captures captures/`;

export function compareCommand(): Command {
  return new Command('compare')
    .argument('[before]', 'results of a replay: a directory, or s3://bucket/replays/<execution> for a cloud replay')
    .argument('[after]', 'results of another replay')
    .option(
      '--threshold <bound>',
      'pass only if the second run is worse by no more than this; repeatable',
      (text: string, all: Threshold[]) => [...all, parseThreshold(text)],
      [],
    )
    .option('--gate <file>', 'read thresholds and settings from a YAML file (docs/replay.md)')
    .option(
      '--zero-tolerance <percent>',
      `a threshold of 0 passes once a larger share of cases is excluded (default: ${100 * ZERO_TOLERANCE})`,
      tolerance,
    )
    .option('--judge', 'ask the judge which replies are better, in both orders')
    .option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID)')
    .option(
      '--judge-budget-usd <amount>',
      `maximum cost of the judge; 0: no limit (default: ${DEFAULT_JUDGE_BUDGET_USD})`,
      amount,
    )
    .option(
      '-o, --output <directory>',
      'directory for comparison.json and comparison.html (default: that of the second run, or replays/<run> for one in S3)',
    )
    .option('--junit <file>', 'write the outcome of each threshold as JUnit XML')
    .option('--markdown <file>', 'write a summary of the gate, with the gravest replies')
    .option(
      '--plan',
      'print how many requests the thresholds need, from no, one or two earlier replays of the same model',
    )
    .option('--captures <source>', 'with --plan: the captures at hand, or their number (default: those of <before>)')
    .option('--no-report', 'do not write the HTML report')
    .addOption(jsonOption('print the comparison, or the plan, as JSON'))
    .addHelpText('after', HELP)
    .action(compare);
}

function tolerance(text: string): number {
  const percent = amount(text);
  if (percent === 0 || percent > 100) throw new InvalidArgumentError('expected a percentage above 0, up to 100');
  return percent;
}

function checkPlan(locations: readonly string[], { plan, captures }: CompareFlags): void {
  if (plan) return;
  if (captures !== undefined) {
    const facts = { got: '--captures', expected: '--captures with --plan' };
    throw new PermanentError('InvalidGateOptions', '--captures has no effect without --plan', facts);
  }
  if (locations.length < 2) {
    const facts = { got: locations.length, expected: 'the results of two replays, or --plan' };
    throw new PermanentError('InvalidGateOptions', 'A comparison needs two replays', facts);
  }
}

async function compare(
  beforeLocation: string | undefined,
  afterLocation: string | undefined,
  given: CompareFlags,
): Promise<void> {
  const locations = [beforeLocation, afterLocation].filter((one) => one !== undefined);
  checkPlan(locations, given);
  const flags = await withGateFile(given);
  await checkOutputs(flags, flags.threshold);
  const opened: OpenedRun[] = [];
  const read = async (location: string): Promise<RunData> => {
    const run = await openRun(location, openStorage);
    opened.push(run);
    return readRun(run.directory, location);
  };
  const stopping = stopCommandOnSignals();
  try {
    const runs: RunData[] = [];
    for (const location of locations) runs.push(await read(location));
    if (flags.plan) await plan(runs, flags, stopping.signal);
    else await compareOpened(runs as [RunData, RunData], flags, stopping);
  } catch (error) {
    if (stopping.started || !stopping.signal.aborted) throw error;
    console.error('Stopped before the runs were compared.');
    process.exitCode = EXIT.interrupted;
  } finally {
    stopping.dispose();
    for (const { dispose } of opened) await dispose();
  }
}

async function plan(runs: readonly RunData[], flags: CompareFlags, signal: AbortSignal): Promise<void> {
  const { printPlan } = await import('./compare-plan.ts');
  const { threshold: thresholds, zeroTolerance = 100 * ZERO_TOLERANCE } = flags;
  await printPlan(runs, { ...flags, thresholds, zeroTolerance: zeroTolerance / 100, signal });
}

async function compareOpened(
  [before, after]: readonly [RunData, RunData],
  flags: CompareFlags,
  stopping: CommandStopping,
): Promise<void> {
  const { signal } = stopping;
  const judging = flags.judge ? await (await import('./pairwise-judge.ts')).connectPairwiseJudge(flags) : undefined;
  signal.throwIfAborted();
  const captured = judging ? undefined : await capturedVerdicts(after, flags.threshold, signal);
  stopping.started = true;
  stopping.say(
    `${judging ? 'Stopping the judge and writing' : 'Writing'} the comparison. Press Ctrl-C again to exit immediately.`,
  );
  const directory = flags.output ?? (after.location === after.directory ? after.directory : join('replays', after.run));
  // Checked before the judge costs money.
  await writableDirectory(directory);
  const { comparison, data } = await compareRuns(
    before,
    after,
    judging && ((tally, pairs) => judgeReplies(tally, stoppedBy(signal, judging), pairs)),
  );
  if (captured && data.replies) {
    data.replies.judged = captured.judged;
    comparison.notes.push(captured.note);
  }
  const tolerated = flags.zeroTolerance === undefined ? {} : { zeroTolerance: flags.zeroTolerance / 100 };
  const gate = flags.threshold.length > 0 ? decideGate(flags.threshold, data, tolerated) : undefined;
  await writeComparison(directory, { comparison, gate, runs: [before, after] }, flags.report);
  const output = join(directory, COMPARISON_FILES.json);
  if (flags.json) writeJson('compare', { ...comparison, gate });
  else console.log(comparisonText(comparison, gate, output));
  const report = flags.report ? join(directory, COMPARISON_FILES.page) : undefined;
  if (gate) await writeOutputs(flags, gate, comparison, report);
  if (comparison.judgeFailure) console.error(judgeWarning(comparison.judgeFailure));
  process.exitCode = gate?.exitCode ?? (comparison.judgeFailure ? EXIT.notDone : EXIT.done);
  if (signal.aborted) process.exitCode = EXIT.interrupted;
}

/** The verdicts of a cloud replay's own judge, if a threshold needs verdicts. They are on the captured replies. */
async function capturedVerdicts(
  { monitoringRun: run, directory }: RunData,
  thresholds: readonly Threshold[],
  signal: AbortSignal,
) {
  const isNeeded = thresholds.some((threshold) => threshold.kind === 'share' && threshold.share === 'judged_worse');
  if (run === undefined || !isNeeded) return undefined;
  const { quality } = ((await readJson(join(directory, COMPARE_FILE))) ?? {}) as Partial<CapturedComparison>;
  if (quality === undefined) {
    console.error(`judged_worse: the results have no ${COMPARE_FILE}, so the verdicts of ${run.name} cannot be used.`);
    return undefined;
  }
  console.error(
    `judged_worse: the verdicts of ${run.name} on the captured replies count; waiting until it has ended …`,
  );
  const { verdictsOf } = await import('../operate/judging-run.ts');
  const judged = await verdictsOf(run, signal);
  const note = `judged_worse compares with the captured replies, by the verdicts of ${run.name}.`;
  return { judged: repliesData({ ...quality, judged }).judged, note };
}

const tableLine = (name: string, cells: readonly string[], interval: string): string =>
  `${name.padEnd(44)}${cells.map((cell) => cell.padStart(12)).join('')}  ${interval}`;

function differenceLine(name: string, found: Difference): string {
  const { before, after, difference, relative, low, high, significant, tooFew } = found;
  const cells = [before.toFixed(2), after.toFixed(2), signed(difference)];
  const interval = tooFew ? 'too few requests' : `${signed(low)} … ${signed(high)}${significant ? ' *' : ''}`;
  return tableLine(name, [...cells, relative === null ? '' : signed(relative * 100)], interval);
}

/** A difference of two shares in percentage points. */
const inPercent = (found: Difference): Difference => {
  const names = ['before', 'after', 'difference', 'low', 'high'] as const;
  return { ...found, ...Object.fromEntries(names.map((name) => [name, found[name] * 100])), relative: null };
};

const factsLine = ({ run, requests, failed, cancelledOnPurpose: cancelled }: RunFacts): string =>
  `${run}, ${requests} requests, ${failed} failed${cancelled > 0 ? `, ${cancelled} canceled on purpose` : ''}`;

function comparisonText(comparison: RunsComparison, gate: GateResult | undefined, output: string): string {
  const { before, after, paired, errorRate, quality } = comparison;
  const lines = [
    `before: ${factsLine(before)}`,
    `after: ${factsLine(after)}`,
    `in both: ${paired.requests}; newly failing ${paired.newlyFailing}, newly succeeding ${paired.newlySucceeding}`,
    ...(paired.onlyBefore + paired.onlyAfter > 0
      ? [`in one only: ${paired.onlyBefore} before, ${paired.onlyAfter} after`]
      : []),
    ...comparison.notes,
    '',
    tableLine('', ['before', 'after', 'difference', '%'], '95% interval'),
  ];
  for (const { metric, statistic, difference } of metricRows(comparison)) {
    lines.push(differenceLine(`${COMPARED_METRICS[metric].name} ${statistic}`, difference));
  }
  lines.push(differenceLine('failed (%)', inPercent(errorRate)), '* the interval excludes 0');
  if (quality) lines.push('', ...qualityText(quality, comparison.judgeUsd));
  lines.push('', ...(gate ? gateText(gate) : []), `written: ${output}`);
  return lines.join('\n');
}
