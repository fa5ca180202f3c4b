/** What the judge takes and gives. */
import type { Capture } from '../formats/types.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import type { SpendingLimit } from './budget/spending-limit.ts';
import type { ModelAnswer } from './model-answer.ts';

/** The values a scorer may answer. */
export type ScorerValues =
  | { kind: 'yes-no' }
  | { kind: 'categories'; values: readonly string[] }
  | { kind: 'number'; min: number; max: number }
  | { kind: 'boolean' };

export type ScorerNeed = 'request' | 'reply' | 'system-prompt' | 'tools';

/** A scorer asked of the LLM judge. */
export interface JudgeScorer {
  kind: 'judge';
  name: string;
  /** A changed question is another version. */
  version: string;
  /** What is asked, in words the judge reads. */
  question: string;
  values: ScorerValues;
  needs: readonly ScorerNeed[];
  /** Share of the traces it judges, 0 to 1, within the run's sample; default 1. What a rule always has judged, it judges too. */
  sampleRate?: number;
  /** Decided cases shown to the judge; they are part of the question, so they change the version. */
  examples?: readonly ScorerExample[];
}

/** A case that a person has decided. */
export interface ScorerExample {
  /** What the user said; absent where the scorer looks at the reply alone. */
  request?: string;
  reply: string;
  value: AssessmentValue;
  rationale: string;
}

/** A scorer computed from the capture, without a model. */
export interface CodeScorer {
  kind: 'code';
  name: string;
  version: string;
  /** What it measures and what it does not. */
  description: string;
  /** `undefined`: it does not apply to this capture, for the reason given. */
  score(capture: Capture): { value: AssessmentValue; rationale?: string } | { notJudgeable: string };
}

export type Scorer = JudgeScorer | CodeScorer;

/** One scorer's outcome on one capture. */
export type Verdict =
  | { scorer: string; outcome: 'verdict'; value: AssessmentValue; rationale: string; usage: VerdictUsage }
  | { scorer: string; outcome: 'error'; error: { code: string; message: string }; usage: VerdictUsage };

/** The scorer's share of the tokens and the money of the calls that answered it. */
export interface VerdictUsage {
  inputTokens: number;
  outputTokens: number;
  /** `null`: the model's price is not known. */
  usd: number | null;
}

export interface JudgeResult {
  verdicts: Verdict[];
  /** All that was spent on this capture, failed attempts included. */
  spend: { calls: number; inputTokens: number; outputTokens: number; usd: number | null };
}

/** What the questions about one capture are paid from. */
export interface JudgeMoney {
  /** Every question is reserved at the most that it can cost before it is asked; absent: there is no limit. */
  limit?: Pick<SpendingLimit, 'reserve'> | undefined;
  /** What a batch job has said to the first question, which is paid: it is not asked again. */
  told?: ModelAnswer | undefined;
}

/** The port through which the pipeline sees the judge; Bedrock Converse, an OpenAI-compatible URL and a SageMaker endpoint implement it. */
export interface Judge {
  /** As recorded on assessments, e.g. `bedrock:/global.anthropic.claude-sonnet-4-6`. */
  readonly sourceId: string;
  /**
   * The most that one round of asking these can cost, in US dollars, before they are asked; `null` when the price is not
   * known. What has to be asked again, because an answer could not be used, comes on top, and is reserved by itself.
   */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
  /**
   * Asks all the scorers of one capture. A scorer without an answer comes back as an `error` verdict; throttling and
   * outages that outlast the retries are thrown as `JudgeThrottled` / `JudgeUnavailable` (retryable), a judge that takes
   * no request at all as `JudgeRefused` (permanent): errors with `spend`, all that was spent on the capture, and `verdicts`,
   * those that were answered before; write them, and they are not asked again. Nothing else is to be recorded. What `money`
   * has no room for is thrown as `JudgeHeld`, with what was answered before. Any other exception is the capture's own, and
   * comes back as `error` verdicts.
   */
  judge(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    signal?: AbortSignal,
    money?: JudgeMoney,
  ): Promise<JudgeResult>;
}
