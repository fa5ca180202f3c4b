/** `inference-monitor compare`: compares two replays of the same captures, and can gate a release. */
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { block } from '../../src/core/text/page.ts';
import { harmScorers } from '../../src/judge/active-scorers.ts';
import { compareRuns, type Judging, type RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import { joinedRuns, repliesData } from '../../src/replay/compare/compared-data.ts';
import { STATISTICS } from '../../src/replay/compare/differences.ts';
import { type JudgeSettings, judgeReplies, judgeWarning, stoppedBy } from '../../src/replay/compare/judge-replies.ts';
import { type OpenedRun, openRun } from '../../src/replay/compare/open-run.ts';
import { METRIC_TAGS, type RunData, readJson, readRun } from '../../src/replay/compare/run-data.ts';
import { type CapturedComparison, COMPARE_FILE } from '../../src/replay/compare/with-captured.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { junitXml } from '../../src/replay/gate/outputs/junit.ts';
import { markdownSummary } from '../../src/replay/gate/outputs/markdown.ts';
import { gateText } from '../../src/replay/gate/texts.ts';
import { parseThreshold, SHARES, type Threshold } from '../../src/replay/gate/thresholds.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { comparisonPage } from '../../src/replay/report/replay-parts.ts';
import { COMPARISON_FILES, writeComparison } from '../../src/replay/report/write-comparison.ts';
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import {
  argument,
  command,
  type FlagsOf,
  judgingOptions,
  numbers,
  option,
  options,
  parsed,
  refuseUseless,
} from '../cli/options.ts';
import { EXIT, jsonOption, notice, print } from '../cli/output.ts';
import { assertHasTexts, commandSettings } from '../cli/settings.ts';
import { openStorage } from '../cli/storage.ts';
import { isJudgedWorse, judgeCostOf, judgeText, type PlanOutput, printPlan } from './compare-plan.ts';
import { writableDirectory } from './replay-directory.ts';

const addThreshold = (text: string, all: Threshold[] = []): Threshold[] => [...all, parseThreshold(text)];

const OPTIONS = options(
  argument('[runs...]', 'results of two replays: directories, or s3://bucket/replays/<execution> for cloud replays'),
  option('--against <runs...>', 'compare <runs>, all of one model, with as many of another'),
  option('--threshold <bound>', 'the second run may be worse by this much; repeatable', parsed(addThreshold, [])),
  option('--gate <file>', 'read thresholds and settings from a YAML file (docs/replay.md)'),
  option(
    '--errors-together <n>',
    'take errors to come this many at a time, if not shown that more do (default: 1)',
    numbers.count,
  ),
  ...judgingOptions(''),
  option(
    '-o, --out <directory>',
    'directory for the comparison (default: that of the second run, or replays/<run> for one in S3)',
  ),
  option('--junit <file>', 'write the outcome of each threshold as JUnit XML'),
  option('--markdown <file>', 'write a summary of the gate, with the gravest replies'),
  option('--plan', 'print how many requests the thresholds need, from two replays of one model'),
  option('--no-report', 'do not write the HTML report'),
  jsonOption('print the comparison, or the plan, as JSON'),
);
type CompareFlags = FlagsOf<typeof OPTIONS>;

/** With `--plan` the sizes that the thresholds need. */
export type Output = (RunsComparison & { gate?: GateResult | undefined }) | PlanOutput;

export default command('compare', OPTIONS, compare, {
  metrics: METRIC_TAGS.join(', '),
  statistics: STATISTICS.join(', '),
  shares: SHARES.join(', '),
});

const GATE = ['threshold', 'gate'] as const;

async function compare(given: CompareFlags): Promise<void> {
  const { runs: locations, against } = given;
  refuseUseless(given, { plan: GATE, junit: GATE, markdown: GATE });
  const isOnce = (side: readonly string[] = []): boolean => new Set(side).size === side.length;
  const isComplete = against
    ? locations.length === against.length && isOnce(locations) && isOnce(against)
    : locations.length === 2;
  if (!isComplete || (given.plan && against)) {
    const expected = 'the results of two replays; or, without --plan, before-1 before-2 --against after-1 after-2';
    const facts = { got: [locations.length, ...(against ? [against.length] : [])].join(' and '), expected };
    throw new PermanentError(
      'OptionsContradict',
      'A comparison needs two replays, or as many different ones of each model',
      facts,
    );
  }
  const flags = await withGateFile(given);
  if (flags.judge) assertHasTexts(commandSettings(), 'compare --judge');
  // Check this before any step costs time or money.
  for (const path of [flags.junit, flags.markdown]) if (path !== undefined) await writableDirectory(dirname(path));
  const opened: OpenedRun[] = [];
  const compared = async (interruption: Interruption): Promise<void> => {
    const runs: RunData[] = [];
    for (const location of [...locations, ...(against ?? [])]) {
      const run = await openRun(location, openStorage);
      opened.push(run);
      runs.push(await readRun(run.directory, location));
    }
    const half = runs.length / 2;
    const pairs = runs.slice(0, half).map((run, i) => [run, runs[half + i]] as [RunData, RunData]);
    if (flags.plan) await printPlan(pairs[0] as [RunData, RunData], flags);
    else await compareOpened(pairs, flags, interruption);
  };
  try {
    await unlessInterrupted(compared, () => ['Stopped before the runs were compared.']);
  } finally {
    for (const { dispose } of opened) await dispose();
  }
}

async function compareOpened(
  pairs: readonly (readonly [before: RunData, after: RunData])[],
  flags: CompareFlags,
  interruption: Interruption,
): Promise<void> {
  const { signal } = interruption;
  const [before, after] = pairs[0] as (typeof pairs)[number];
  const judging = flags.judge ? await connectJudge(flags) : undefined;
  signal.throwIfAborted();
  const captured = judging
    ? []
    : await Promise.all(pairs.map(([, second]) => capturedVerdicts(second, flags.threshold, signal)));
  interruption.writes(
    `${judging ? 'Stopping the judge and writing' : 'Writing'} the comparison. Press Ctrl-C again to exit immediately.`,
  );
  const directory = flags.out ?? (after.location === after.directory ? after.directory : join('replays', after.run));
  // Checked before the judge costs money.
  await writableDirectory(directory);
  const found: Awaited<ReturnType<typeof compareRuns>>[] = [];
  for (const [i, [first, second]] of pairs.entries()) {
    const judgeAll: Judging | undefined =
      judging &&
      (async (tally, replies) => {
        notice(judgeText(await judgeCostOf(tally.quality.comparable.differing, second, flags.judgeModel)));
        return judgeReplies(tally, stoppedBy(signal, judging), replies);
      });
    const one = await compareRuns(first, second, judgeAll);
    const verdicts = captured[i];
    if (verdicts && one.data.replies) {
      one.data.replies.judged = verdicts.judged;
      one.comparison.notes.push(verdicts.note);
    }
    found.push(one);
  }
  const [{ comparison }, ...further] = found as [(typeof found)[number], ...typeof found];
  const data = joinedRuns(found.map((one) => one.data));
  comparison.judgeFailure ??= further.find((one) => one.comparison.judgeFailure)?.comparison.judgeFailure;
  if (further.length > 0) {
    comparison.notes.unshift(`The thresholds are of all ${found.length} pairs of runs, all else is of the first one.`);
  }
  const gate = flags.threshold.length > 0 ? decideGate(flags.threshold, data, flags.errorsTogether) : undefined;
  await writeComparison(directory, comparison, gate, [before, after], flags.report);
  const report = flags.report ? join(directory, COMPARISON_FILES.page) : undefined;
  const written = [join(directory, COMPARISON_FILES.json), ...(report === undefined ? [] : [`to read: ${report}`])];
  const end = block(...(gate ? gateText(gate) : []), `written: ${written.join('; ')}`);
  print<Output>({ ...comparison, gate }, flags.json, [...comparisonPage(comparison), end]);
  if (gate && flags.junit !== undefined)
    await writeFile(flags.junit, junitXml(gate, { before: before.run, after: after.run }));
  if (gate && flags.markdown !== undefined) await writeFile(flags.markdown, markdownSummary(comparison, gate, report));
  if (comparison.judgeFailure) notice(judgeWarning(comparison.judgeFailure));
  process.exitCode = gate?.exitCode ?? (comparison.judgeFailure ? EXIT.notDone : EXIT.done);
  if (signal.aborted) process.exitCode = EXIT.interrupted;
}

/** Connects to the judge, which is asked about harm too. */
async function connectJudge(flags: CompareFlags): Promise<JudgeSettings> {
  const judging = await (await import('./replay-services.ts')).connectPairwiseJudge(flags);
  return { ...judging, harm: harmScorers(commandSettings({ BEDROCK_MODEL_ID: flags.judgeModel })) };
}

/** The verdicts of a cloud replay's own judge, if a threshold needs verdicts. They are on the captured replies. */
async function capturedVerdicts(
  { monitoringRun: run, directory }: RunData,
  thresholds: readonly Threshold[],
  signal: AbortSignal,
) {
  if (run === undefined || !thresholds.some(isJudgedWorse)) return undefined;
  const { quality } = ((await readJson(join(directory, COMPARE_FILE))) ?? {}) as Partial<CapturedComparison>;
  if (quality === undefined) {
    notice(`judged_worse: the results have no ${COMPARE_FILE}, so the verdicts of ${run.name} cannot be used.`);
    return undefined;
  }
  notice(`judged_worse: the verdicts of ${run.name} on the captured replies count; waiting until it has ended …`);
  const { verdictsOf } = await import('../operate/judging-run.ts');
  const judged = await verdictsOf(run, signal);
  const note = `judged_worse compares with the captured replies, by the verdicts of ${run.name}.`;
  return { judged: repliesData({ ...quality, judged }).judged, note };
}

// -------------------------------------------------------------------------------------------------------------- gate

/**
 * Adds the contents of the gate file. The thresholds of both count. Other flags take precedence over the file.
 *
 * @throws PermanentError `FileUnreadable`, `InvalidGateFile`
 */
async function withGateFile(flags: CompareFlags): Promise<CompareFlags> {
  if (flags.gate === undefined) return flags;
  const { readGateFile } = await import('../../src/replay/gate/gate-file.ts');
  const { thresholds, errorsTogether, judge } = readGateFile(flags.gate);
  return {
    ...flags,
    threshold: [...thresholds, ...flags.threshold],
    errorsTogether: flags.errorsTogether ?? errorsTogether,
    judge: flags.judge ?? judge !== undefined,
    judgeModel: flags.judgeModel ?? judge?.model,
    budget: flags.budget ?? judge?.budgetUsd,
  };
}
