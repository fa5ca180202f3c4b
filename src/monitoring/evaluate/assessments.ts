/** Turns verdicts into the assessments that MLflow stores. */

import { assessmentIdOf } from '../../captures/trace/ids.ts';
import type { Capture } from '../../captures/types.ts';
import { VERDICT_ERRORS } from '../../judge/errors.ts';
import { scoreOf } from '../../judge/scorers/code-scorers.ts';
import { functionSource, isModelScorer } from '../../judge/scorers/scorer-set.ts';
import type { CodeScorer, JudgeScorer, Scorer, Verdict } from '../../judge/types.ts';
import {
  CASCADE_JUDGE,
  COMPUTED,
  JUDGE_COST,
  JUDGE_INPUT_TOKENS,
  JUDGE_OUTPUT_TOKENS,
  type NewAssessment,
  RUN_METADATA,
  SAMPLE_METADATA,
  SCORER_NAME,
  SCORER_VERSION,
  STRATUM_METADATA,
} from '../../mlflow/types.ts';
import { scorerSample } from '../../quality/sample.ts';
import type { ScorerOutcome } from '../outcomes/line-outcome.ts';
import { eachWithin } from './each-within.ts';

export interface VerdictContext {
  traceId: string;
  run: string;
  /** The stratum that the capture is counted in, and the sample that it is judged with. */
  stratum: string;
  sample: string;
  /** The chances are those of a number of captures; see `Chances`. */
  isByNumber?: boolean | undefined;
  /** The scorers whose valid verdict is overridden by new verdicts, by name. */
  replaces: ReadonlySet<string>;
}

/** Returns the fields of every assessment by a scorer. */
function common(scorer: Scorer, judge: string, context: VerdictContext) {
  const replaces = context.replaces.has(scorer.name);
  // A new verdict next to an older verdict by the same scorer and model needs a different id, so add the run.
  const version = replaces ? `${scorer.version}\n${context.run}` : scorer.version;
  const sourceId = scorer.kind === 'code' ? `${COMPUTED}${scorer.name}` : functionSource(scorer) || judge;
  return {
    assessmentId: assessmentIdOf(context.traceId, scorer.name, version, sourceId),
    traceId: context.traceId,
    name: scorer.name,
    sourceId,
    sourceType: isModelScorer(scorer) ? ('LLM_JUDGE' as const) : ('CODE' as const),
    createTimeMs: Date.now(),
    metadata: {
      [SCORER_NAME]: scorer.name,
      [SCORER_VERSION]: scorer.version,
      [RUN_METADATA]: context.run,
      ...sampleMetadata(scorer, context),
    },
    ...(replaces ? { replaces } : {}),
  };
}

function sampleMetadata(
  scorer: Scorer,
  { stratum, sample, isByNumber = false }: VerdictContext,
): Record<string, string> {
  if (scorer.kind === 'code') return { [SAMPLE_METADATA]: stratum };
  const own = { [SAMPLE_METADATA]: scorerSample(sample, scorer, isByNumber) };
  return stratum === sample ? own : { ...own, [STRATUM_METADATA]: scorerSample(stratum, scorer, isByNumber) };
}

/** The error code of a scorer in code or of a function, in addition to the judge's codes. */
const SCORER_FAILED = 'ScorerFailed';

/**
 * Returns an error assessment for a scorer that could not assess the capture.
 *
 * @param code default: the code of an exception that this capture provokes in the scorer or in the judge
 */
export function failedAssessment(
  scorer: Scorer,
  judge: string,
  context: VerdictContext,
  fault: string,
  code: string = isModelScorer(scorer) ? VERDICT_ERRORS.failed : SCORER_FAILED,
): NewAssessment {
  return { ...common(scorer, judge, context), error: { code, message: fault } };
}

/**
 * Removes texts from an assessment and a verdict for `CONTENT=none`, because rationales and messages can quote a
 * capture.
 */
export const withoutWords = ({ rationale: _, error, ...rest }: NewAssessment): NewAssessment => ({
  ...rest,
  ...(error === undefined ? {} : { error: { code: error.code, message: '' } }),
});
export const verdictWithoutWords = (verdict: Verdict): Verdict =>
  verdict.outcome === 'verdict'
    ? { ...verdict, rationale: '' }
    : { ...verdict, error: { ...verdict.error, message: '' } };

/**
 * Returns the assessments of code scorers, within the time that the capture has. A scorer that throws gets an error
 * assessment, and the others continue. So does a scorer that the time runs out for.
 */
export const codeAssessments = (
  scorers: readonly CodeScorer[],
  capture: Capture,
  timeMs: number,
  context: VerdictContext,
): (NewAssessment | ScorerOutcome)[] =>
  eachWithin<CodeScorer, NewAssessment | ScorerOutcome>(
    timeMs,
    scorers,
    (scorer) => {
      const scored = scoreOf(scorer, capture);
      if ('notJudgeable' in scored) return { scorer: scorer.name, term: 'notJudgeable', reason: scored.notJudgeable };
      return { ...common(scorer, '', context), value: scored.value, rationale: scored.rationale };
    },
    (scorer, fault) => failedAssessment(scorer, '', context, fault),
  );

/** Returns the assessment of a verdict by the judge, with its cost. */
export function verdictAssessment(
  scorer: JudgeScorer,
  verdict: Verdict,
  judge: string,
  context: VerdictContext,
): NewAssessment {
  const { inputTokens, outputTokens, usd } = verdict.usage;
  const fields = common(scorer, verdict.source ?? judge, context);
  const metadata = {
    ...fields.metadata,
    ...(verdict.source === undefined ? {} : { [CASCADE_JUDGE]: judge }),
    [JUDGE_INPUT_TOKENS]: String(inputTokens),
    [JUDGE_OUTPUT_TOKENS]: String(outputTokens),
    // An unknown price has no entry; it is never shown as 0.
    ...(usd === null ? {} : { [JUDGE_COST]: String(usd) }),
  };
  const outcome =
    verdict.outcome === 'verdict'
      ? { value: verdict.value, ...(verdict.rationale === '' ? {} : { rationale: verdict.rationale }) }
      : { error: verdict.error };
  return { ...fields, metadata, ...outcome };
}
