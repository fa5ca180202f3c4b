/** Failures of a single call to the model, and the errors in which the judging of a capture ends. */
import {
  type ErrorFacts,
  PermanentError,
  PipelineError,
  RetryableError,
  type RetryableErrorName,
} from '../core/errors/errors.ts';
import { emptySpend } from './spend.ts';
import type { CallUsage, JudgeResult } from './types.ts';

/** A feature that a model may lack. After a refusal the judge works without it. */
const FEATURES = ['json-schema', 'tool', 'temperature', 'thinking', 'system', 'cache', 'max-tokens-name'] as const;
export type Feature = (typeof FEATURES)[number];
export const isFeature = (name: string): name is Feature => FEATURES.some((feature) => feature === name);

export type CallFailureKind =
  /** Too many calls. A retry helps. */
  | 'throttled'
  /** The service failed or could not be reached. A retry helps. */
  | 'unavailable'
  /** The model does not support a feature that the request uses. */
  | 'unsupported'
  /** The prompt is longer than the model accepts. */
  | 'too-long'
  /** The service refuses this request. The reason may be its content. */
  | 'rejected'
  /** The service refuses every request: access denied, no such model, or the model was retired. */
  | 'refused'
  /** The credentials have expired. A new process gets new credentials. */
  | 'expired'
  /** The caller canceled. */
  | 'aborted'
  /** The budget has no room for the call. */
  | 'held'
  /** The provider's quota of the day is used up. */
  | 'day'
  /** The breaker is open: the provider throttles all functions of the stack. */
  | 'paused';

/** A call that ended without an answer. Failed calls cost no tokens, unless `mayBePaid` is set. */
export class CallFailure extends PipelineError {
  readonly kind: CallFailureKind;
  readonly feature: Feature | undefined;
  readonly retryAfterMs: number | undefined;
  readonly status: number | undefined;
  /** Set if the response had status 200: it may have come from the model, and the call is then billed. */
  readonly mayBePaid: boolean;
  /** A remedy. Absent if the service's own message names a remedy. */
  readonly remedy: string | undefined;
  /** The usage that is charged if the call may have been billed. */
  usage: CallUsage | undefined;

  constructor(
    kind: CallFailureKind,
    message: string,
    details: Partial<Pick<CallFailure, 'mayBePaid' | 'feature' | 'retryAfterMs' | 'status' | 'remedy' | 'cause'>> = {},
  ) {
    super('JudgeCallFailure', message, {}, details.cause);
    this.kind = kind;
    this.feature = details.feature;
    this.retryAfterMs = details.retryAfterMs;
    this.status = details.status;
    this.mayBePaid = details.mayBePaid ?? false;
    this.remedy = details.remedy;
  }
}

/** Reasons why questions are held. */
const HELD_FOR = {
  budget: 'The budget leaves no room for the call',
  providerDay: 'The judge’s quota of the day is used up',
  JudgeBatchRefused: 'The batch job refused the record of the capture, and many others for the same reason',
  ScorerOverPrice: 'A record has cost more than the usdPerRecord of the scorer, which is asked no more in this run',
};
export type HeldFor = keyof typeof HELD_FOR;

/**
 * The budget, or the provider's quota of the day, has no room for the remaining questions, or a batch job refused them. The verdicts given
 * before remain valid; the others are held.
 */
export class JudgeHeld extends PermanentError {
  readonly heldFor: HeldFor;

  constructor(facts: ErrorFacts = {}, cause?: unknown, heldFor: HeldFor = 'budget') {
    super('JudgeHeld', HELD_FOR[heldFor], facts, cause);
    this.heldFor = heldFor;
  }
}

/** The breaker is open. A function waits for that outside of its paid time: see `withinLimits`. */
export class JudgePaused extends RetryableError {
  constructor(facts: ErrorFacts, cause: unknown, retryAfterMs: number | undefined) {
    const message = 'The judge throttles all functions, and is not asked for a while';
    super('JudgeThrottled', message, facts, cause, retryAfterMs);
  }
}

const OF_JUDGE = {
  who: 'The judge',
  ...({ throttled: 'JudgeThrottled', unavailable: 'JudgeUnavailable', refused: 'JudgeRefused' } as const),
};
/** The names of the errors of a scorer's function. */
export const OF_FUNCTION = {
  who: 'The scorer’s function',
  ...({ throttled: 'ScorerThrottled', unavailable: 'ScorerUnavailable', refused: 'ScorerRefused' } as const),
};
type Named = typeof OF_JUDGE | typeof OF_FUNCTION;

/**
 * Returns the error that ends the judging of a capture after a call failed permanently.
 * @param where the id of the judge or of the function
 */
export function judgingError(
  failure: CallFailure,
  where: string,
  signal?: AbortSignal,
  { who, throttled, unavailable, refused }: Named = OF_JUDGE,
): PipelineError {
  const facts = { got: failure.message, where, ...(failure.remedy ? { expected: failure.remedy } : {}) };
  const retryable = (name: RetryableErrorName, message: string, cause: unknown = failure): RetryableError =>
    new RetryableError(name, message, facts, cause, failure.retryAfterMs);
  switch (failure.kind) {
    case 'throttled':
      return retryable(throttled, `${who} throttled every attempt`);
    case 'expired':
      return retryable('CredentialsExpired', `The credentials for ${where} have expired`);
    case 'aborted':
      return retryable('ChunkOutOfTime', 'The judging was canceled', signal?.reason ?? failure);
    case 'held':
      return new JudgeHeld(facts, failure);
    case 'day':
      return new JudgeHeld(facts, failure, 'providerDay');
    case 'paused':
      return new JudgePaused(facts, failure, failure.retryAfterMs);
    case 'refused':
    case 'rejected':
      return new PermanentError(refused, `${who} refuses every request with these settings`, facts, failure);
    default:
      return retryable(unavailable, `${who} failed or could not be reached`);
  }
}

/** Results by error. They are not fields of the error, because verdicts quote captured text and errors are logged. */
const resultsBefore = new WeakMap<object, JudgeResult>();

/** Attaches to an error the verdicts and the spend until it occurred, and returns the error. */
export function afterAnswers<E extends object>(error: E, result: JudgeResult): E {
  resultsBefore.set(error, result);
  return error;
}

/** Returns the verdicts and the spend of a judge that then failed with `error`. */
export function answeredBefore(error: unknown): JudgeResult {
  const known = typeof error === 'object' && error !== null ? resultsBefore.get(error) : undefined;
  return known ?? { verdicts: [], spend: emptySpend() };
}

/** Codes of error verdicts, as written to `feedback.error`. */
export const VERDICT_ERRORS = {
  cut: 'JudgeReplyCut',
  unreadable: 'JudgeReplyUnreadable',
  missing: 'JudgeScorerMissing',
  value: 'JudgeValueNotAllowed',
  guardrail: 'JudgeGuardrailIntervened',
  filtered: 'JudgeContentFiltered',
  tooLong: 'JudgeInputTooLong',
  rejected: 'JudgeInputRejected',
  /** The capture triggers an exception in this project's code. */
  failed: 'JudgeCaptureFailed',
} as const;

type VerdictErrorCode = (typeof VERDICT_ERRORS)[keyof typeof VERDICT_ERRORS];

/** The reason why a scorer has no verdict. */
export interface VerdictProblem {
  code: VerdictErrorCode;
  message: string;
}
