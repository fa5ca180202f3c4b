/** Decides the gate of a replay on its merged results, as `compare` does on the command line. */
import { replayKeys } from '../../../contract/work-keys.ts';
import { PermanentError } from '../../../shared/errors.ts';
import { compareRuns } from '../../compare/compare-runs.ts';
import { type ComparedData, repliesData } from '../../compare/compared-data.ts';
import { copyResults, findResults, type OpenedRun } from '../../compare/open-run.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { type RunData, readRun } from '../../compare/run-data.ts';
import type { CapturedComparison } from '../../compare/with-captured.ts';
import { decideGate } from '../../gate/gate.ts';
import { parseThreshold, type Threshold } from '../../gate/thresholds.ts';
import type { GateResult, ThresholdResult } from '../../gate/types.ts';
import { writeComparison } from '../../report/write-comparison.ts';
import { FILES } from '../../results/result-set.ts';
import { COMPARED_BYTES_PER_MS } from '../limits.ts';
import type { PlannedGate } from '../work-bucket/stored-plan.ts';
import { bytesOf, type MergeContext } from './merge-files.ts';
import { wasStopped } from './verdict.ts';

/** Time for the comparison with the baseline, ms; 0 without one. */
export function gateMs({ plan: { gate }, collected }: MergeContext): number {
  if (!gate?.baseline) return 0;
  const own = bytesOf(collected, FILES.records) + bytesOf(collected, REPLIES_FILE);
  return (own + gate.baseline.bytes) / COMPARED_BYTES_PER_MS;
}

/**
 * Decides the gate. With a baseline, `comparison.json` and `comparison.html` are written to the directory. A gate that cannot
 * be decided, for example because the baseline was deleted, says why.
 *
 * @param captured the comparison with the captured replies; `undefined` without one, or if there was no time for it
 * @param leftMs time for the comparison
 * @throws RetryableError of the storage
 */
export async function decideReplayGate(
  gate: PlannedGate,
  context: MergeContext,
  captured: CapturedComparison | undefined,
  directory: string,
  leftMs: number,
): Promise<GateResult> {
  const thresholds = gate.thresholds.map(parseThreshold);
  const options = gate.zeroTolerance === undefined ? {} : { zeroTolerance: gate.zeroTolerance / 100 };
  if (wasStopped(context.collected, context.evaluations)) return undecided(thresholds, 'The replay was stopped');
  const onCaptured = capturedData(context, captured);
  if (!gate.baseline) {
    if (captured?.quality.compared) return decideGate(thresholds, onCaptured, options);
    return undecided(thresholds, 'No reply was compared with a captured one');
  }
  if (gateMs(context) > leftMs) {
    return undecided(thresholds, 'There was no time left to compare the runs; `inference-monitor compare` has it');
  }
  const { location } = gate.baseline;
  try {
    return await withRuns(context, location, async (before, after) => {
      const { comparison, data } = await compareRuns(before, after);
      const decided = decideGate(thresholds, (one) => (isJudged(one) ? onCaptured : data), options);
      const result = { ...decided, thresholds: decided.thresholds.map(onWhat(thresholds)) };
      await writeComparison(directory, { comparison, gate: result, runs: [before, after] }, true);
      return result;
    });
  } catch (error) {
    if (error instanceof PermanentError) return undecided(thresholds, `${error.name}: ${error.message}`);
    throw error;
  }
}

/** The judge of a cloud replay compares with the captured replies, also if there is a baseline. */
const isJudged = (threshold: Threshold): boolean => threshold.kind === 'share' && threshold.share === 'judged_worse';

const onWhat =
  (thresholds: readonly Threshold[]) =>
  (result: ThresholdResult, i: number): ThresholdResult => {
    const threshold = thresholds[i];
    if (!threshold || !isJudged(threshold)) return result;
    return { ...result, reason: `${result.reason} The judge compared with the captured replies.` };
  };

const NOTHING: ComparedData = {
  failures: [
    [0, 0],
    [0, 0],
  ],
  pairs: { requests: 0, known: 0, newlyFailing: 0, newlySucceeding: 0 },
  metrics: {},
};

/** All thresholds without an outcome, for this reason. */
function undecided(thresholds: readonly Threshold[], reason: string): GateResult {
  const result = decideGate(thresholds, NOTHING);
  return { ...result, thresholds: result.thresholds.map((one) => ({ ...one, reason: `${reason}.` })) };
}

/** The captured replies as the first run, and the replay as the second. */
function capturedData({ collected: { stats } }: MergeContext, captured: CapturedComparison | undefined): ComparedData {
  const { failures, succeeded } = stats;
  const after: [number, number] = [failures, failures + succeeded];
  if (!captured) return { ...NOTHING, failures: [[0, 0], after] };
  const { quality } = captured;
  const { compared, status } = quality;
  const pairs = {
    requests: compared,
    known: compared,
    newlyFailing: status['newly-failing'],
    newlySucceeding: status['newly-succeeding'],
  };
  return { failures: [[0, 0], after], pairs, metrics: {}, replies: repliesData(quality) };
}

/** Copies the results of both runs from S3, reads them, and deletes the copies in the end. */
async function withRuns<T>(
  { storage, bucket, plan: { run } }: MergeContext,
  baseline: string,
  use: (before: RunData, after: RunData) => Promise<T>,
): Promise<T> {
  const opened: OpenedRun[] = [];
  const read = async (location: string): Promise<RunData> => {
    const copy = await copyResults(await findResults(location, storage), storage);
    opened.push(copy);
    return readRun(copy.directory, location);
  };
  try {
    const before = await read(baseline);
    return await use(before, await read(`s3://${bucket}/${replayKeys.resultPrefix(run)}`));
  } finally {
    for (const { dispose } of opened) await dispose();
  }
}
