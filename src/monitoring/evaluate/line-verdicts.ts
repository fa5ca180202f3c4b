/** The verdicts on a line, one for each scorer: those that are given, by this run or before it, those that failed, and those that were held. */

import { hash } from 'node:crypto';
import {
  CASCADE_JUDGE,
  JUDGE_COST,
  type NewAssessment,
  RUN_METADATA,
  SCORER_VERSION,
  type StoredAssessment,
} from '../../mlflow/types.ts';
import { stratumOf } from '../../quality/sample.ts';
import { ownVerdicts } from '../../quality/tally.ts';
import type { LineOutcome, LineVerdict } from '../outcomes/line-outcome.ts';
import type { WriteItem, WrittenTrace } from '../write/chunk-writer.ts';
import type { CaptureOutcome } from './assess-capture.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';

const VERSION_DIGITS = 8;

/** A line that was assessed and written. Its assessments are those that were to be written. */
interface Line extends WriteItem {
  work: { pending: PendingVerdicts };
  outcome: CaptureOutcome;
}

/** @returns of a scorer whose verdict in force the run could not replace, that verdict, with what the run has paid */
export function lineVerdicts(
  { work: { pending }, outcome, assessments: wanted }: Line,
  { stored, assessments, written, isOfOtherChunk }: WrittenTrace,
  run: string,
): NonNullable<LineOutcome['verdicts']> {
  const before = stored?.assessments ?? [];
  const found = before.filter(
    ({ sourceType, isExpectation, valid, value, errorCode }) =>
      sourceType !== 'HUMAN' && !isExpectation && valid && value !== undefined && errorCode === undefined,
  );
  // What another chunk of the run has given, it has written a row of.
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
  // The judge has failed, or nobody had the time to ask it.
  const settled = new Set([...without.map(({ scorer }) => scorer), ...wanted.map(({ name }) => name)]);
  for (const { name } of [...pending.judge, ...pending.code, ...pending.failed.map(({ scorer }) => scorer)]) {
    if (!settled.has(name) && !verdicts.has(name)) add({ scorer: name, state: 'failed' });
  }
  return [...verdicts.values()];
}

/** @param payer the run, if it may have paid for the assessment */
function verdictOf(assessment: NewAssessment | StoredAssessment, payer?: string): LineVerdict & { scorer: string } {
  const { name, value, metadata, sourceType, sourceId, assessmentId } = assessment;
  const errorCode = 'error' in assessment ? assessment.error?.code : undefined;
  const judge = metadata[CASCADE_JUDGE] ?? sourceId;
  const version = hash('sha256', JSON.stringify([judge, metadata[SCORER_VERSION]]));
  const stratum = stratumOf(metadata);
  return {
    scorer: name,
    state: value === undefined ? 'failed' : 'given',
    ...(value !== undefined && { value: String(value) }),
    ...(typeof value === 'number' && { number: value }),
    ...{ errorCode, isCode: sourceType === 'CODE', judge, version: version.slice(0, VERSION_DIGITS), stratum },
    usd: stratum !== undefined && metadata[RUN_METADATA] === payer ? Number(metadata[JUDGE_COST] ?? 0) : 0,
    assessmentId,
  };
}
