/** The outcome of a capture that was assessed and written: what this run has done with it, in this attempt and in those before. */

import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { boundsOf } from '../../judge/scorers/values.ts';
import type { NewAssessment, StoredTrace } from '../../mlflow/types.ts';
import { scorerSample } from '../../quality/sample.ts';
import {
  type CaptureFacts,
  type CountedCapture,
  exchangeDigest,
  isFirstToEvaluate,
  judgedLater,
  ownVerdicts,
  verdictsOfRun,
} from '../../quality/tally.ts';
import { isRetry } from '../chunk/attempt.ts';
import type { LineOutcome, ScorerOutcome } from '../outcomes/line-outcome.ts';
import type { WriteItem, WrittenTrace } from '../write/chunk-writer.ts';
import type { CaptureOutcome } from './assess-capture.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { ReadCapture } from './read-captures.ts';

/** A capture, and what is to be done about it. */
export interface PlannedWork extends ReadCapture {
  pending: PendingVerdicts;
  facts: CaptureFacts;
  /** The question to the judge, in a repeated attempt. */
  question?: string | undefined;
  /** The trace in MLflow; absent if it is to be written. */
  stored?: StoredTrace | undefined;
  /** It must not be decoded, because it kills the function. */
  isFaulty?: true;
}

export interface Finished {
  work: PlannedWork;
  outcome: CaptureOutcome;
}
/** Its own assessments are those that are written. */
export type FinishedItem = WriteItem & Finished;

/** @param areJudged whether the chunk has scorers */
export function outcomeOf(
  item: FinishedItem,
  result: WrittenTrace,
  request: ChunkRequest,
  areJudged: boolean,
): LineOutcome {
  const { traceId, range, pending } = item.work;
  const isCounted = result.trace !== 'missing' && !result.isOfOtherChunk;
  return {
    ...{ range, traceId, outcome: result.trace, beyond: pending.beyond },
    scorers: scorersOf(item, result, request.run),
    // Another chunk with the same line counts the capture.
    ...(isCounted && { counted: countedOf(item, result, request, areJudged) }),
  };
}

/** A verdict that names this run counts as its own, also if an earlier attempt has written it. */
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

function countedOf(
  { work: { traceId, facts, pending }, outcome, assessments, trace: built }: FinishedItem,
  { trace, stored, ...result }: WrittenTrace,
  request: ChunkRequest,
  areJudged: boolean,
): CountedCapture {
  const { run } = request;
  const before = stored?.assessments ?? [];
  const isWritten = trace === 'written';
  const written = result.assessments.filter(({ assessmentId }) => result.written.has(assessmentId));
  const own = verdictsOfRun(run, before, written);
  const isFirst = isWritten || isFirstToEvaluate(run, before);
  return {
    traceId,
    facts,
    exchange: built && exchangeDigest(built),
    isWritten,
    ...own,
    failed: result.assessments.filter(({ error }) => error !== undefined),
    judgeable: isFirst
      ? pending.judgeable.map((scorer) => ({ scorer: scorer.name, sample: scorerSample(pending.stratum, scorer) }))
      : [],
    isUnmeasured: areJudged && isFirst && !isMeasured(pending, assessments),
    notJudged: isFirst ? notJudged(pending, { ...outcome, assessments }) : judgedLater(own, isRetry(request)),
  };
}

/** Returns why each scorer without a verdict has none. */
function notJudged(
  { settled, judge, code, failed }: PendingVerdicts,
  { assessments, without }: CaptureOutcome,
): Record<string, string> {
  const reasons = settled.flatMap(({ scorer, reason }) => (reason === undefined ? [] : [[scorer, reason]]));
  const open = [...judge, ...code, ...failed.map(({ scorer }) => scorer)].filter(
    ({ name }) => !assessments.some((one) => one.name === name && one.error === undefined),
  );
  const why = open.map(({ name }) => {
    const { term, reason } = without.find(({ scorer }) => scorer === name) ?? {};
    return [name, term === 'heldByBudget' ? 'held' : (reason ?? 'failed')];
  });
  return Object.fromEntries([...reasons, ...why]);
}

/** Whether a scorer with bounds applies to a capture, drawn or not: one of the judge's, or one that has assessed it. */
const isMeasured = ({ judgeable, code }: PendingVerdicts, assessments: readonly NewAssessment[]): boolean =>
  [...judgeable, ...code.filter(({ name }) => assessments.some((one) => one.name === name))].some(
    (scorer) => boundsOf(scorer).look < Infinity,
  );
