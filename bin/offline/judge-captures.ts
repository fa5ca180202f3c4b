/** Judges the captures of files as the deployed evaluation does, with the same questions, retries and limits. */

import { requestPreview, responsePreview } from '../../src/captures/trace/preview.ts';
import type { Capture } from '../../src/captures/types.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { timeOf } from '../../src/core/process/within-time.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import type { Judge, Scorer } from '../../src/judge/types.ts';
import type { SpendingLimit } from '../../src/limits/spending-limit.ts';
import { CaptureAssessor, type CaptureOutcome } from '../../src/monitoring/evaluate/assess-capture.ts';
import { HeldCaptures } from '../../src/monitoring/evaluate/held-captures.ts';

import { NO_TRACE_YET, type PendingVerdicts, pendingVerdicts } from '../../src/monitoring/evaluate/pending-verdicts.ts';
import type { OfflineLine } from './capture-files.ts';
import { JudgeBook } from './judge-book.ts';
import type { JudgeReport, Place } from './reports.ts';

/** A capture that a scorer may apply to. */
export interface SelectedCapture {
  place: Place;
  traceId: string;
  pending: PendingVerdicts;
  read(): Capture;
}

/** In place of a run's name: it is not recorded anywhere. */
const RUN = 'local';
/** The judge's own limiter decides how many calls are in flight. */
const CAPTURES_AT_ONCE = 16;

/** Every capture is asked about, whatever share of them the stack judges. */
export const unsampled = (scorers: readonly Scorer[]): Scorer[] =>
  scorers.map((scorer) => (scorer.kind === 'judge' ? { ...scorer, sampleRate: undefined } : scorer));

/**
 * Yields the first captures that a scorer may apply to. Captures that are identical to another are left out.
 *
 * @param most the number of captures
 * @param leftOut is given the reasons why no scorer applies to a capture
 */
export async function* selectCaptures(
  lines: AsyncIterable<OfflineLine>,
  scorers: readonly Scorer[],
  most: number,
  leftOut: (reasons: Readonly<Record<string, number>>) => void = () => {},
): AsyncGenerator<SelectedCapture> {
  const held = new HeldCaptures();
  let selected = 0;
  for await (const line of lines) {
    if (line.kind !== 'capture' || line.duplicate) continue;
    const { capture, traceId } = line;
    const { key: file, line: number } = line.raw.place;
    const look = { capture, timeMs: timeOf(capture), isAlways: () => false };
    const options = { reevaluate: false, sampleRate: 1 };
    const pending = pendingVerdicts(traceId, look, NO_TRACE_YET, scorers, options, RUN);
    if (pending.judge.length + pending.code.length + pending.failed.length === 0) {
      leftOut(pending.reasons);
      continue;
    }
    selected += 1;
    yield { place: { file, line: number }, traceId, pending, read: held.hold(line) };
    if (selected >= most) return;
  }
}

export interface JudgingOptions {
  judge: Judge;
  limit?: SpendingLimit | undefined;
  scorers: readonly Scorer[];
  /** Ends the asking. */
  signal: AbortSignal;
  /** Called after each capture. */
  onCapture?(done: number): void;
}

interface Judged {
  report: Omit<JudgeReport, 'thresholds' | 'judge' | 'failure' | 'unreadable'>;
  /** What ended the asking. */
  failure?: unknown;
}

/** Asks about the captures. A failure of the judge ends the asking, and and every verdict until then is in the report. */
export async function judgeCaptures(
  captures: AsyncIterable<SelectedCapture>,
  { judge, limit, scorers, signal, onCapture }: JudgingOptions,
): Promise<Judged> {
  const assessor = new CaptureAssessor(RUN, { judge, ...(limit && { limit }) });
  const book = new JudgeBook(scorers);
  const notJudgeable = noCounts();
  let failure: unknown;
  let done = 0;
  await forEachConcurrently(CAPTURES_AT_ONCE, captures, async (selected) => {
    const capture = selected.read();
    addCounts(notJudgeable, selected.pending.reasons);
    const asks = failure === undefined && !signal.aborted;
    const outcome = await assessed({ ...selected, capture }, assessor, asks ? signal : undefined);
    failure ??= outcome.failure;
    for (const reason of outcome.notJudgeable) addCounts(notJudgeable, { [reason]: 1 });
    const view = { request: requestPreview(capture), reply: responsePreview(capture) };
    book.add({ ...selected.place, ...view }, selected.pending.judge, outcome);
    done += 1;
    onCapture?.(done);
  });
  const { calls, inputTokens, outputTokens, usd } = assessor.spend;
  const facts = { captures: done, ...book.report(), notJudgeable: { ...notJudgeable } };
  return { report: { ...facts, spend: { calls, inputTokens, outputTokens, usd } }, failure };
}

async function assessed(
  work: Parameters<CaptureAssessor['assess']>[0],
  assessor: CaptureAssessor,
  signal: AbortSignal | undefined,
): Promise<CaptureOutcome> {
  try {
    return await assessor.assess(work, signal);
  } catch (failure) {
    return { assessments: [], notJudgeable: [], held: 0, failure };
  }
}
