/** Scorers, verdicts, and the port through which the pipeline uses the judge. */

import type * as z from 'zod';
import type { Capture } from '../captures/types.ts';
import type { JudgeSpend } from '../core/contract/receipts.ts';
import type { SpendingLimit } from '../limits/spending-limit.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import type { codeScorerSchema, exampleSchema, judgeScorerSchema } from './scorer-schema.ts';

export type JudgeScorer = Readonly<z.infer<typeof judgeScorerSchema>>;
/** A scorer that is a Lambda function. */
export type FunctionScorer = JudgeScorer & Required<Pick<JudgeScorer, 'asks'>>;
export type ScorerExample = z.infer<typeof exampleSchema>;
export type CodeScorer = z.infer<typeof codeScorerSchema>;
export type Scorer = JudgeScorer | CodeScorer;

/** One scorer's outcome on one capture. */
export type Verdict =
  | (ScorerVerdict & { outcome: 'verdict'; value: AssessmentValue /** May be empty. */; rationale: string })
  | (ScorerVerdict & { outcome: 'error'; error: { code: string; message: string } });

interface ScorerVerdict {
  scorer: string;
  usage: VerdictUsage;
  /** The id of the model that gave the verdict, if it is not the judge’s `sourceId`: the first model of a cascade. */
  source?: string;
}

/** The scorer's share of the tokens and the cost of the calls that asked for it. */
export type VerdictUsage = Pick<JudgeSpend, 'inputTokens' | 'outputTokens' | 'usd'>;

export interface JudgeResult {
  verdicts: Verdict[];
  /** Total spend on this capture, including failed attempts. */
  spend: JudgeSpend;
  /** Scorers that the first model of a cascade has left to the main judge, and that are not decided yet. */
  leftOpen?: readonly string[];
}

/** The payment for the questions about one capture. */
export interface JudgeMoney {
  /** Reserves each question's worst case before it is asked. If absent, there is no limit. */
  limit?: Pick<SpendingLimit, 'reserve'> | undefined;
  /** A batch job's answer to the first question. It is paid for, so the question is not asked again. */
  answer?: ModelAnswer | undefined;
  /** Scorers that a cascade's first model has left open before. It is paid for, so only the judge is asked. */
  leftOpen?: ReadonlySet<string> | undefined;
  /**
   * Answers to parts of the question, from earlier calls that failed before the whole question was answered. They are
   * already paid for.
   */
  known?: readonly Verdict[] | undefined;
}

/** The judge as the pipeline uses it. Bedrock Converse, OpenAI-compatible URLs and SageMaker endpoints are supported. */
export interface Judge {
  /** The id that is recorded on assessments, for example `bedrock:/global.anthropic.claude-sonnet-4-6`. */
  readonly sourceId: string;
  /**
   * Returns the worst case, in US dollars, of asking these scorers once; `null` if the price is unknown. Follow-up questions
   * after unusable answers are not included: each is reserved separately.
   */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
  /**
   * Asks all the scorers about one capture. A scorer without an answer gets an `error` verdict, and so do all scorers of
   * a capture that triggers an exception.
   *
   * The verdicts and the spend before an error are available from `answeredBefore(error)`. Write these verdicts, and they
   * are not asked for again.
   *
   * @throws RetryableError `JudgeThrottled`, `JudgeUnavailable` or `CredentialsExpired` when retries did not help, and
   *   `ChunkOutOfTime` after `signal` was aborted
   * @throws PermanentError `JudgeRefused` when the judge refuses every request, `JudgeHeld` when `money` has no room
   */
  judge(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    signal?: AbortSignal,
    money?: JudgeMoney,
  ): Promise<JudgeResult>;
}

/** Tokens of one call. `inputTokens` excludes tokens that were read from or written to the prompt cache. */
export interface CallUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number | undefined;
  cacheWriteInputTokens?: number | undefined;
  /** The request asked for its prefix to be cached. */
  asksForCache?: boolean | undefined;
  /** The call was part of a batch job, which has a separate price. */
  batch?: boolean | undefined;
}

/** Reason why the model stopped. */
export type Stop = 'end' | 'cut' | 'guardrail' | 'filtered' | 'malformed' | 'context';

export interface ModelAnswer {
  /** The answer as an object, if the service returns one (a tool call). */
  object?: unknown;
  text: string;
  stop: Stop;
  /** The service's own name for the reason. */
  stopReason: string;
  usage: CallUsage;
}
