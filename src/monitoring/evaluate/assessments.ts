/** Verdicts as the assessments that MLflow keeps. */
import type { Capture } from '../../formats/types.ts';
import { VERDICT_ERRORS } from '../../judge/errors.ts';
import type { CodeScorer, JudgeScorer, Scorer, Verdict } from '../../judge/types.ts';
import type { NewAssessment, StoredAssessment } from '../../mlflow/types.ts';
import { ownFault } from '../../shared/own-fault.ts';
import { eachWithin } from '../../shared/within-time.ts';
import { assessmentIdOf } from '../../trace/ids.ts';
import { RUN_METADATA } from './pending-verdicts.ts';

export interface VerdictContext {
  traceId: string;
  run: string;
  /** Older verdicts that new ones override, by scorer name. */
  overrides: ReadonlyMap<string, StoredAssessment>;
}

/** Metadata keys as MLflow's own judges name them. */
export const SCORER_NAME = 'mlflow.assessment.scorerName';
export const SCORER_VERSION = 'mlflow.assessment.scorerVersion';
export const JUDGE_COST = 'mlflow.assessment.judgeCost';
const JUDGE_INPUT_TOKENS = 'mlflow.assessment.judgeInputTokens';
const JUDGE_OUTPUT_TOKENS = 'mlflow.assessment.judgeOutputTokens';

function common(scorer: { name: string; version: string }, sourceId: string, context: VerdictContext) {
  const overridden = context.overrides.get(scorer.name);
  // A new verdict beside an older one of the same scorer and model needs an id of its own; the run tells them apart.
  const version = overridden === undefined ? scorer.version : `${scorer.version}\n${context.run}`;
  return {
    assessmentId: assessmentIdOf(context.traceId, scorer.name, version, sourceId),
    traceId: context.traceId,
    name: scorer.name,
    sourceId,
    createTimeMs: Date.now(),
    metadata: { [SCORER_NAME]: scorer.name, [SCORER_VERSION]: scorer.version, [RUN_METADATA]: context.run },
    ...(overridden === undefined ? {} : { overrides: overridden.assessmentId }),
  };
}

/** Codes of errors that are ours, beside those of the judge. */
const SCORER_FAILED = 'ScorerFailed';
const ASSESSMENT_REFUSED = 'AssessmentRefused';

/** What a capture owes where what it provokes keeps a scorer from it: an exception, or by its code something else. */
export function failedAssessment(
  scorer: Scorer,
  sourceId: string,
  context: VerdictContext,
  fault: string,
  code?: string,
): NewAssessment {
  const isCode = scorer.kind === 'code';
  return {
    ...common(scorer, isCode ? codeSource(scorer) : sourceId, context),
    sourceType: isCode ? 'CODE' : 'LLM_JUDGE',
    error: { code: code ?? (isCode ? SCORER_FAILED : VERDICT_ERRORS.failed), message: fault },
  };
}

/** In place of an assessment that MLflow does not take as it is. */
export function refusedAssessment({ value: _, rationale: __, ...rest }: NewAssessment, fault: string): NewAssessment {
  return { ...rest, error: { code: ASSESSMENT_REFUSED, message: fault } };
}

const codeSource = ({ name }: { name: string }): string => `code:/${name}`;

/**
 * What the scorers say of a capture within its time. One that throws has a defect of its own: an error assessment says so,
 * and the others go on; what is not reached in time gets one too.
 */
export const codeAssessments = (
  scorers: readonly CodeScorer[],
  capture: Capture,
  timeMs: number,
  context: VerdictContext,
): (NewAssessment | { notJudgeable: string })[] =>
  eachWithin(
    timeMs,
    scorers,
    (scorer) => codeAssessment(scorer, capture, context),
    (scorer, fault) => failedAssessment(scorer, '', context, fault),
  );

function codeAssessment(
  scorer: CodeScorer,
  capture: Capture,
  context: VerdictContext,
): NewAssessment | { notJudgeable: string } {
  const fields = { ...common(scorer, codeSource(scorer), context), sourceType: 'CODE' as const };
  try {
    const scored = scorer.score(capture);
    if ('notJudgeable' in scored) return scored;
    return {
      ...fields,
      value: scored.value,
      ...(scored.rationale === undefined ? {} : { rationale: scored.rationale }),
    };
  } catch (error) {
    const fault = ownFault(error);
    if (fault === undefined) throw error;
    return failedAssessment(scorer, '', context, fault);
  }
}

export function verdictAssessment(
  scorer: JudgeScorer,
  verdict: Verdict,
  sourceId: string,
  context: VerdictContext,
): NewAssessment {
  const { inputTokens, outputTokens, usd } = verdict.usage;
  const fields = common(scorer, sourceId, context);
  const metadata = {
    ...fields.metadata,
    [JUDGE_INPUT_TOKENS]: String(inputTokens),
    [JUDGE_OUTPUT_TOKENS]: String(outputTokens),
    // An unknown price is shown as unknown by its absence, never as 0.
    ...(usd === null ? {} : { [JUDGE_COST]: String(usd) }),
  };
  return {
    ...fields,
    metadata,
    sourceType: 'LLM_JUDGE',
    ...(verdict.outcome === 'verdict'
      ? { value: verdict.value, rationale: verdict.rationale }
      : { error: verdict.error }),
  };
}
