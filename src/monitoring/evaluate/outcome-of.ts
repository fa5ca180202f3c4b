/**
 * The outcome of a capture that was assessed and written: the work of this run, in this attempt and in earlier
 * attempts.
 */

import { hash } from 'node:crypto';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { boundsOf } from '../../judge/scorers/values.ts';
import {
  CASCADE_JUDGE,
  isComputed,
  JUDGE_COST,
  type NewAssessment,
  RUN_METADATA,
  SCORER_VERSION,
  type StoredAssessment,
  type StoredTrace,
} from '../../mlflow/types.ts';
import { scorerSample, stratumOf } from '../../quality/sample.ts';
import { type CaptureFacts, type CountedCapture, exchangeDigest, ownVerdicts } from '../../quality/tally.ts';
import type { Evaluation, LineOutcome, LineVerdict, ScorerOutcome } from '../outcomes/line-outcome.ts';
import { timeOfLine, variantOfLine } from '../outcomes/rows.ts';
import type { WriteItem, WrittenTrace } from '../write/chunk-writer.ts';
import { type CaptureOutcome, joined } from './assess-capture.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { ReadCapture } from './read-captures.ts';

/** A capture, and the work that it needs. */
export interface PlannedWork extends ReadCapture {
  pending: PendingVerdicts;
  /** Absent if it must not be decoded, because it kills the function. */
  facts?: CaptureFacts;
  caller?: LineOutcome['caller'];
  /** The question to the judge, in a repeated attempt. */
  question?: string | undefined;
  /** The trace in MLflow; absent if it is to be written. */
  stored?: StoredTrace | undefined;
}

export interface Finished {
  work: PlannedWork;
  outcome: CaptureOutcome;
}
/** An item whose assessments are those that are written. */
export type FinishedItem = WriteItem & Finished;

/** An item that was written, its result, and the revision of its facts. */
export type Settled = readonly [item: FinishedItem, result: WrittenTrace, revision: number];

/** Returns an item together with the assessments that were written after its trace. */
export function withLater(
  [item, before]: Settled,
  later: CaptureOutcome,
  after: WrittenTrace,
  revision: number,
): Settled {
  const outcome = joined([item.outcome, later]);
  const result = {
    ...before,
    trace: after.trace === 'missing' ? after.trace : before.trace,
    assessments: [...before.assessments, ...after.assessments],
    written: new Set([...before.written, ...after.written]),
  };
  return [{ ...item, outcome, assessments: outcome.assessments }, result, revision];
}

/**
 * @param revision of the stored facts about the trace
 * @param areJudged whether the chunk has scorers
 */
export function outcomeOf(
  item: FinishedItem,
  result: WrittenTrace,
  revision: number,
  { run }: Pick<ChunkRequest, 'run'>,
  areJudged: boolean,
): LineOutcome {
  const { traceId, range, pending, facts, caller, raw } = item.work;
  const line = { range, place: raw.place, traceId, facts, caller };
  const known = { ...line, revision, outcome: result.trace, beyond: pending.beyond };
  const scorers = scorersOf(item, result, run);
  if (result.trace === 'missing') return { ...known, scorers };
  const verdicts = lineVerdicts(item, result, run);
  const isTraffic = facts?.serving !== false && facts?.notTraffic === undefined;
  const isTold = !result.isOfOtherChunk && facts?.failedCall === undefined && isTraffic;
  return {
    ...{ ...known, scorers, verdicts },
    ...(areJudged && { evaluation: evaluationOf(item, verdicts) }),
    ...(isTold && { counted: countedOf(item, result, run) }),
  };
}

/** A verdict that names this run counts as its own, even if an earlier attempt has written it. */
function scorersOf(
  { work: { pending }, outcome, assessments: wanted }: FinishedItem,
  { trace, stored, assessments, written, isOfOtherChunk }: WrittenTrace,
  run: string,
): ScorerOutcome[] {
  const before = isOfOtherChunk ? [] : ownVerdicts(run, stored?.assessments ?? []);
  const own = new Map(before.map(({ name, value }) => [name, value]));
  const given = (scorer: string, value = own.get(scorer)): ScorerOutcome =>
    value === undefined ? { scorer, term: 'alreadyThere' } : { scorer, term: 'newVerdicts', value };
  const gone = (reason: string, all: readonly NewAssessment[]) =>
    all.map(({ name: scorer }): ScorerOutcome => ({ scorer, term: 'notJudgeable', reason }));
  const left = new Set(assessments.map(({ name }) => name));
  const deleted = wanted.filter(({ name }) => !left.has(name));
  const ofMlflow = ({ name, assessmentId, value, error }: NewAssessment): ScorerOutcome => {
    // An error assessment from an earlier attempt is still a failed verdict.
    if (error !== undefined) return { scorer: name, term: 'failed' };
    return given(name, written.has(assessmentId) ? value : own.get(name));
  };
  return [
    ...pending.settled.map((one) => (one.term === 'alreadyThere' ? given(one.scorer) : one)),
    ...outcome.without,
    ...gone('deletedByPerson', deleted),
    ...(trace === 'missing' ? gone('traceMissing', assessments) : assessments.map(ofMlflow)),
  ];
}

/** Returns the run's decisions about the scorers, including those of earlier attempts. */
function evaluationOf(
  { work: { pending }, outcome, assessments }: FinishedItem,
  verdicts: readonly LineVerdict[],
): Evaluation {
  const { judgeable, stratum, sample, rule, settled, chances } = pending;
  const known = new Set(verdicts.map(({ scorer }) => scorer));
  const without = [...settled, ...outcome.without].flatMap(({ scorer, reason }) =>
    reason === undefined || known.has(scorer) ? [] : [{ scorer, reason }],
  );
  return {
    evaluated: true,
    sample,
    rule,
    judgeable: judgeable.map(({ name }) => name),
    strata: judgeable.map((scorer) => scorerSample(stratum, scorer, chances.isByNumber)),
    unmeasured: !isMeasured(pending, assessments),
    notJudged: without.map(({ scorer }) => scorer),
    reasons: without.map(({ reason }) => reason),
  };
}

/**
 * Whether a scorer with bounds applies to a capture: a judge's scorer, sampled or not, or a code scorer that has
 * assessed it.
 */
const isMeasured = ({ judgeable, code }: PendingVerdicts, assessments: readonly NewAssessment[]): boolean =>
  [...judgeable, ...code.filter(({ name }) => assessments.some((one) => one.name === name))].some(
    (scorer) => boundsOf(scorer).look < Infinity,
  );

/** Returns the facts about a capture for the detectors. */
function countedOf(
  { work, trace: built }: FinishedItem,
  { trace, stored, assessments, written }: WrittenTrace,
  run: string,
): CountedCapture {
  const { traceId, facts, raw } = work;
  const line = { place: raw.place, facts };
  const before = stored?.assessments ?? [];
  const news = assessments.filter(({ assessmentId, value }) => written.has(assessmentId) && value !== undefined);
  const earlier = ownVerdicts(run, before).filter(({ assessmentId }) => !written.has(assessmentId));
  const overridden = new Set(earlier.map(({ overrides }) => overrides));
  return {
    traceId,
    facts: {
      inferenceMs: timeOfLine(line),
      variant: variantOfLine(line),
      isError: facts?.errorKind !== undefined,
    },
    exchange: built && exchangeDigest(built),
    chances: work.pending.chances,
    isWritten: trace === 'traced',
    verdicts: [...news, ...earlier],
    replaced: [
      ...before.filter(({ assessmentId }) => overridden.has(assessmentId)),
      ...news.filter(({ replaces }) => replaces),
    ].map(({ name }) => name),
  };
}

// -------------------------------------------------------------------------------------------------- verdicts of a line
// The verdicts on a line, one for each scorer: verdicts that this or an earlier run gave, failed verdicts, and held
// verdicts.

const VERSION_DIGITS = 8;

/**
 * @returns verdicts with the run's payments. If the run could not replace a scorer's valid verdict, returns that
 *   verdict
 */
function lineVerdicts(
  { work: { pending }, outcome, assessments: wanted }: FinishedItem,
  { stored, assessments, written, isOfOtherChunk }: WrittenTrace,
  run: string,
): NonNullable<LineOutcome['verdicts']> {
  const before = stored?.assessments ?? [];
  const found = before.filter(
    ({ sourceType, isExpectation, valid, value, errorCode }) =>
      sourceType !== 'HUMAN' && !isExpectation && valid && value !== undefined && errorCode === undefined,
  );
  // If another chunk of the run gave these verdicts, it has written their rows.
  const earlier = isOfOtherChunk ? [] : ownVerdicts(run, before);
  const news = assessments.filter(({ assessmentId, value }) => written.has(assessmentId) && value !== undefined);
  const given = [
    ...found.map((one) => ({ ...verdictOf(one), found: true, isPast: one.isEdited ?? false })),
    ...earlier.map((one) => ({ ...verdictOf(one, run), isPast: !one.valid || (one.isEdited ?? false) })),
    ...news.map((one) => verdictOf(one, run)),
  ];
  const verdicts = new Map<string, LineVerdict & { isPast?: boolean }>(given.map((one) => [one.scorer, one]));
  const add = (verdict: LineVerdict & { scorer: string }): void => {
    const { errorCode, usd } = verdict;
    const known = verdicts.get(verdict.scorer);
    verdicts.set(verdict.scorer, known ? { ...known, errorCode, usd } : verdict);
  };
  for (const one of assessments) if (one.error !== undefined) add(verdictOf(one, run));
  const { without } = outcome;
  for (const { scorer, term, reason: errorCode } of without) {
    if (term === 'heldByBudget' && !verdicts.has(scorer)) add({ scorer, state: 'held', errorCode });
  }
  // The judge has failed, or there was no time to ask it.
  const settled = new Set([...without.map(({ scorer }) => scorer), ...wanted.map(({ name }) => name)]);
  for (const { name } of [...pending.judge, ...pending.code, ...pending.failed.map(({ scorer }) => scorer)]) {
    if (!settled.has(name) && !verdicts.has(name)) add({ scorer: name, state: 'failed' });
  }
  return [...verdicts.values()];
}

/** @param payer the run, if it may have paid for the assessment */
function verdictOf(assessment: NewAssessment | StoredAssessment, payer?: string): LineVerdict & { scorer: string } {
  const { name, value, metadata, sourceId, assessmentId } = assessment;
  const errorCode = 'error' in assessment ? assessment.error?.code : undefined;
  const judge = metadata[CASCADE_JUDGE] ?? sourceId;
  const version = hash('sha256', JSON.stringify([judge, metadata[SCORER_VERSION]]));
  const stratum = stratumOf(metadata);
  return {
    scorer: name,
    state: value === undefined ? 'failed' : 'given',
    ...(value !== undefined && { value: String(value) }),
    ...(typeof value === 'number' && { number: value }),
    ...{ errorCode, isCode: isComputed(assessment), judge, version: version.slice(0, VERSION_DIGITS), stratum },
    usd: stratum !== undefined && metadata[RUN_METADATA] === payer ? Number(metadata[JUDGE_COST] ?? 0) : 0,
    assessmentId,
  };
}
