/** `replay --until-decided`: reads the baseline, plans the looks, and says what they decided. */
import { join, resolve } from 'node:path';
import { type JudgeSettings, stoppedBy } from '../../src/replay/compare/judge-replies.ts';
import { type OpenedRun, openRun } from '../../src/replay/compare/open-run.ts';
import { readRun } from '../../src/replay/compare/run-data.ts';
import { Baseline } from '../../src/replay/gate/baseline.ts';
import { ZERO_TOLERANCE } from '../../src/replay/gate/gate.ts';
import { type DecidedReplay, LiveGate } from '../../src/replay/gate/live-gate.ts';
import { plannedPairs } from '../../src/replay/gate/planned-pairs.ts';
import { countsVerdicts, parseThreshold, type Threshold } from '../../src/replay/gate/thresholds.ts';
import { gateText } from '../../src/replay/gate/words.ts';
import type { ReplayOptions } from '../../src/replay/options.ts';
import { COMPARISON_FILES } from '../../src/replay/report/write-comparison.ts';
import type { SortedIndex } from '../../src/replay/source/sorted-index.ts';
import { PermanentError } from '../../src/shared/errors.ts';
import type { Storage } from '../../src/shared/storage.ts';
import { checkOutputs, type GateFlags, type OutputFlags, withGateFile, writeOutputs } from './gate-flags.ts';

export interface UntilDecidedFlags extends OutputFlags, Omit<GateFlags, 'threshold'> {
  untilDecided?: boolean;
  baseline?: string;
  /** As they are written. */
  threshold?: string[];
}

/** Thresholds and a baseline, before the captures are read. */
export interface OpenedGate {
  baseline: Baseline;
  thresholds: readonly Threshold[];
  /** As a share. */
  zeroTolerance: number;
  /** Settings of the judge, with those of the gate file. */
  judge: Pick<GateFlags, 'judge' | 'judgeModel' | 'judgeBudgetUsd'>;
  dispose(): Promise<void>;
}

function refuse(message: string, got: string, expected: string): never {
  throw new PermanentError('InvalidReplayOptions', message, { got, expected });
}

/**
 * Reads the thresholds and the baseline.
 *
 * @throws PermanentError `InvalidReplayOptions`, `BaselineWithoutReplies`, and those of `parseThreshold`, `withGateFile`,
 * `checkOutputs`, `openRun` and `readRun`
 */
export async function openGate(
  { baseline, options, ...given }: UntilDecidedFlags & { options: ReplayOptions },
  openStorage: () => Promise<Storage>,
): Promise<OpenedGate> {
  const flags = await withGateFile({ ...given, threshold: (given.threshold ?? []).map(parseThreshold) });
  const { threshold: thresholds, zeroTolerance = 100 * ZERO_TOLERANCE, judge, judgeModel, judgeBudgetUsd } = flags;
  await checkOutputs(flags, thresholds);
  if (baseline === undefined) {
    return refuse('--until-decided needs an earlier replay to compare with', 'no --baseline', '--baseline <results>');
  }
  if (thresholds.length === 0) {
    return refuse('--until-decided needs thresholds to decide', 'none', '--threshold or --gate');
  }
  const judged = thresholds.find((one) => one.kind === 'share' && one.share === 'judged_worse');
  if (judged && !judge) refuse('The threshold needs the judge', judged.text, '--judge');
  const opened: OpenedRun = await openRun(baseline, openStorage);
  try {
    const run = await readRun(opened.directory, baseline);
    return {
      baseline: new Baseline(run, options.repeat, thresholds),
      thresholds,
      zeroTolerance: zeroTolerance / 100,
      judge: { judge, judgeModel, judgeBudgetUsd },
      dispose: opened.dispose,
    };
  } catch (error) {
    await opened.dispose();
    throw error;
  }
}

/** Whether the judge compares with the baseline's replies, instead of the captured ones. */
export const judgesLive = (opened: OpenedGate | undefined): boolean => opened?.thresholds.some(countsVerdicts) === true;

/**
 * Starts the gate, and prints what it will do.
 *
 * @param directory of the replay's results
 * @throws PermanentError `OtherCaptures`, `InvalidReplayOptions`
 */
export async function startGate(
  { baseline, thresholds, zeroTolerance }: OpenedGate,
  directory: string,
  index: SortedIndex,
  options: ReplayOptions,
  judge: JudgeSettings | undefined,
  signal: AbortSignal,
): Promise<LiveGate> {
  if (resolve(directory) === resolve(baseline.run.directory)) {
    refuse('The results would replace the baseline', directory, 'another directory (--output)');
  }
  const { pairs } = baseline.common(index, options);
  const planned = plannedPairs(thresholds, baseline.run, { zeroTolerance, atMost: pairs });
  const others = baseline.otherOptions(options);
  const { location } = baseline.run;
  console.error(
    [
      `${location} has ${pairs} of the requests. A single look would need about ${planned} of them.`,
      ...(others.length > 0 ? [`It had other options, which may be why results differ: ${others.join('; ')}.`] : []),
    ].join('\n'),
  );
  const judging = judge && thresholds.some(countsVerdicts) ? stoppedBy(signal, judge) : undefined;
  return LiveGate.open({ baseline: baseline.run, thresholds, zeroTolerance, planned, expected: pairs, judging });
}

/** Writes what CI servers show. */
export async function writeGateOutputs(
  flags: OutputFlags & { report: boolean },
  directory: string,
  { gate, comparison }: DecidedReplay,
): Promise<void> {
  const page = flags.report ? join(directory, COMPARISON_FILES.page) : undefined;
  await writeOutputs(flags, gate, comparison, page);
}

/** The lines about the gate, below the figures of the replay. */
export function decidedText({ gate, untilDecided, comparison }: DecidedReplay): string[] {
  const { looks, planned, requests, saved, sent, endedBy } = untilDecided;
  const percent = Math.round(Math.abs(saved) * 100);
  const than = `${percent}% ${saved >= 0 ? 'fewer' : 'more'} than the ${planned} that a single look would need`;
  const end = endedBy === 'all thresholds decided' ? 'Decided' : `Not all decided by the ${endedBy}`;
  return [
    ...gateText(gate),
    `${end}, at look ${looks.length}, on the first ${requests} requests. Sent: ${sent}, ${than}.`,
    `The comparison with ${comparison.before.directory} is in comparison.json.`,
  ];
}
