/**
 * Judges the captures of files as the deployed evaluation does, with the same questions, retries and limits, and sums
 * the verdicts up by scorer.
 */

import { requestPreview, responsePreview } from '../../src/captures/trace/preview.ts';
import type { Capture } from '../../src/captures/types.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { timeOf } from '../../src/core/process/within-time.ts';
import { wilson } from '../../src/core/statistics/share.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { chancesOf } from '../../src/judge/scorers/chances.ts';
import { askedOf } from '../../src/judge/scorers/scorer-set.ts';
import { canFail, isFailure } from '../../src/judge/scorers/values.ts';
import { addUsd } from '../../src/judge/spend.ts';
import type { Judge, JudgeScorer, Scorer } from '../../src/judge/types.ts';
import type { SpendingLimit } from '../../src/limits/spending-limit.ts';
import { JUDGE_COST, type NewAssessment } from '../../src/mlflow/types.ts';
import type { ReadSettings } from '../../src/monitoring/chunk/decode-lines.ts';
import { ownAnswers } from '../../src/monitoring/evaluate/answer-table.ts';
import {
  CaptureAssessor,
  type CaptureOutcome,
  joined,
  NOT_JUDGED,
} from '../../src/monitoring/evaluate/assess-capture.ts';
import { HeldCaptures } from '../../src/monitoring/evaluate/held-captures.ts';
import { NO_TRACE_YET, type PendingVerdicts, pendingVerdicts } from '../../src/monitoring/evaluate/pending-verdicts.ts';
import type { AssessDependencies } from '../../src/monitoring/evaluate/types.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';
import { OTHERS, offlineLines, type Place } from './capture-files.ts';

/** A capture that a scorer may apply to. */
export interface SelectedCapture {
  place: Place;
  traceId: string;
  pending: PendingVerdicts;
  read(): Capture;
}

/** Replaces a run's name. It is not recorded anywhere. */
const RUN = 'local';
/** The judge's own limiter decides how many calls are in flight. */
const CAPTURES_AT_ONCE = 16;

/** Returns the scorers without sampling, so that they are asked about every capture. */
export const unsampled = (scorers: readonly Scorer[]): Scorer[] =>
  scorers.map((scorer) => (scorer.kind === 'judge' ? { ...scorer, sampleRate: undefined } : scorer));

/** Selects the first captures that a scorer may apply to. Captures that are identical to another are left out. */
export function selectCaptures(
  files: readonly SourceFile[],
  settings: ReadSettings,
  scorers: readonly Scorer[],
  { limit, line: only }: { limit: number; line?: number | undefined },
) {
  /** Facts about the lines that were read. */
  const seen = { quarantined: 0, selected: 0, isEnd: false, unreadable: [] as { file: string; message: string }[] };
  const addUnreadable = (file: string, message: string) => void seen.unreadable.push({ file, message });
  async function* captures(): AsyncGenerator<SelectedCapture> {
    const held = new HeldCaptures();
    for await (const line of offlineLines(files, settings, { addUnreadable }, only)) {
      if (line.kind === 'quarantine') seen.quarantined += 1;
      if (line.kind === 'quarantine' || line.duplicate) continue;
      const { capture, traceId } = line;
      const { key: file, line: number } = line.raw.place;
      const view = { capture, timeMs: timeOf(capture), rule: () => undefined };
      const options = { reevaluate: false, chances: chancesOf({ sampleRate: 1 }) };
      const pending = pendingVerdicts(traceId, view, NO_TRACE_YET, scorers, options, RUN);
      if (pending.judge.length + pending.code.length + pending.failed.length === 0) continue;
      seen.selected += 1;
      yield { place: { file, line: number }, traceId, pending, read: held.hold(line) };
      if (seen.selected >= limit) return;
    }
    seen.isEnd = true;
  }
  return { seen, captures: captures() };
}

export type Seen = ReturnType<typeof selectCaptures>['seen'];

interface JudgingOptions extends Pick<AssessDependencies, 'functions'> {
  judge: Judge;
  limit?: SpendingLimit | undefined;
  scorers: readonly Scorer[];
  /** Ends the asking. */
  signal: AbortSignal;
  /** Called after each capture. */
  onCapture?(done: number): void;
}

/** Asks about the captures. A failure of the judge ends the asking, and every verdict until then is in the report. */
export async function judgeCaptures(
  captures: Iterable<SelectedCapture> | AsyncIterable<SelectedCapture>,
  { judge, functions, limit, scorers, signal, onCapture }: JudgingOptions,
) {
  const assessor = new CaptureAssessor(
    RUN,
    { judge, ...(functions && { functions }), ...(limit && { limit }) },
    ownAnswers(),
  );
  const known = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  const rows: VerdictRow[] = [];
  const missing: Missing[] = [];
  const notJudgeable = noCounts();
  let failure: unknown;
  let done = 0;
  await forEachConcurrently(CAPTURES_AT_ONCE, captures, async (selected) => {
    const capture = selected.read();
    const asks = failure === undefined && !signal.aborted;
    const asking = assessor.assess({ ...selected, capture }, asks ? signal : undefined);
    const judged = asking.catch((thrown: unknown): CaptureOutcome => ({ ...NOT_JUDGED, failure: thrown }));
    const raw = { place: { key: selected.place.file } };
    const answered = asks
      ? assessor.askFunctions({ ...selected, raw }, async (use) => use(capture), signal)
      : undefined;
    const outcome = joined(await Promise.all([judged, answered ?? NOT_JUDGED]));
    failure ??= outcome.failure;
    for (const { term, reason } of [...selected.pending.settled, ...outcome.without])
      if (term !== 'heldByBudget' && reason !== undefined) addCounts(notJudgeable, { [reason]: 1 });
    const view = { ...selected.place, request: requestPreview(capture), reply: responsePreview(capture) };
    rows.push(...outcome.assessments.map((one) => ({ ...view, ...verdictOf(one, known.get(one.name)) })));
    missing.push(...missingOf(selected.pending.judge, outcome));
    done += 1;
    onCapture?.(done);
  });
  const { calls, inputTokens, outputTokens, usd } = assessor.spend;
  const report = {
    captures: done,
    ...reportOf(scorers, rows, missing),
    /** Scorers that do not apply to a capture, by reason, over all captures. */
    notJudgeable: { ...notJudgeable },
    /** `usd`: `null` if the price is unknown. */
    spend: { calls, inputTokens, outputTokens, usd },
  };
  return { report, failure };
}

// -------------------------------------------------------------------------------------------------------- verdicts

interface RowPlace extends Place {
  /** The beginning of the request and of the reply. */
  request: string;
  reply: string;
}
type VerdictRow = RowPlace & ReturnType<typeof verdictOf>;

/** Maximum number of values that are counted by name. Language scorers may have any value. */
const MAX_VALUES = 20;

/** A verdict that is missing, and why. */
interface Missing {
  scorer: string;
  reason: string;
}

/** @param asked the LLM scorers that apply to the capture */
function missingOf(asked: readonly JudgeScorer[], { assessments, without }: CaptureOutcome): Missing[] {
  const answered = new Set(assessments.map(({ name }) => name));
  const open = asked.filter(({ name }) => !answered.has(name));
  const isHeld = without.some(({ term }) => term === 'heldByBudget');
  return [
    ...assessments.flatMap(({ name, error }) => (error === undefined ? [] : { scorer: name, reason: error.code })),
    ...open.map(({ name }) => ({ scorer: name, reason: isHeld ? 'held' : 'notAsked' })),
  ];
}

function reportOf(scorers: readonly Scorer[], rows: readonly VerdictRow[], missing: readonly Missing[]) {
  const order = scorers.map(({ name }) => name);
  // Answers arrive in any order.
  const verdicts = rows.toSorted(
    (a, b) => compare(a.file, b.file) || a.line - b.line || order.indexOf(a.scorer) - order.indexOf(b.scorer),
  );
  const reasons = noCounts();
  for (const { reason } of missing) addCounts(reasons, { [reason]: 1 });
  const sums = scorers.flatMap((scorer) => {
    const own = verdicts.filter((verdict) => verdict.scorer === scorer.name);
    // No capture had the property that the scorer assesses.
    if (own.length === 0 && askedOf([scorer]).length === 0) return [];
    return sumOf(scorer, own, missing.filter((one) => one.scorer === scorer.name).length);
  });
  return {
    verdicts,
    scorers: sums,
    /** Verdicts that are missing, by reason: an error of the judge, `held` by the budget, `notAsked` after a failure. */
    missing: { ...reasons },
  };
}

function verdictOf({ name, value, rationale, error, metadata, sourceType }: NewAssessment, scorer?: Scorer) {
  // A scorer that failed before it was asked about has no cost.
  const usd = metadata[JUDGE_COST] ?? (sourceType === 'CODE' || error !== undefined ? 0 : undefined);
  const isJudged = value !== undefined && scorer !== undefined && canFail(scorer);
  return {
    scorer: name,
    value,
    /** Absent if no value of the scorer is a failure, and for an error. */
    passes: isJudged ? !isFailure(scorer, value) : undefined,
    rationale,
    error,
    /** `null` if the price is unknown. */
    usd: usd === undefined ? null : Number(usd),
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function sumOf({ name, kind }: Scorer, rows: readonly VerdictRow[], missing: number) {
  const given = rows.flatMap(({ value }) => value ?? []);
  const decided = rows.filter(({ passes }) => passes !== undefined);
  const numbers = given.filter((value) => typeof value === 'number');
  const values = noCounts();
  for (const value of given) {
    if (typeof value === 'number') continue;
    const named = String(value);
    addCounts(values, { [named in values || Object.keys(values).length < MAX_VALUES ? named : OTHERS]: 1 });
  }
  return {
    name,
    kind,
    verdicts: given.length,
    /** The share that passes with its 95% interval; `null` without verdicts, or if no value is a failure. */
    passes: wilson(decided.filter(({ passes }) => passes).length, decided.length),
    /** Verdicts by value, for the first values. Numbers have their mean and extremes instead. */
    values: { ...values },
    ...(numbers.length > 0 && { numbers: rangeOf(numbers) }),
    /** Number of captures that the scorer applies to but has no verdict on. */
    missing,
    /** `null` if the price is unknown. */
    usd: rows.reduce<number | null>((sum, { usd }) => addUsd(sum, usd), 0),
  };
}

function rangeOf(numbers: readonly number[]): { mean: number; min: number; max: number } {
  const sum = numbers.reduce((total, value) => total + value, 0);
  return { mean: sum / numbers.length, min: Math.min(...numbers), max: Math.max(...numbers) };
}
