/** Errors of the judge: of a single call (ours to deal with), and of a capture's judging (for the caller). */
import {
  type ErrorFacts,
  PermanentError,
  PipelineError,
  RetryableError,
  type RetryableErrorName,
} from '../shared/errors.ts';
import type { CallUsage } from './model-answer.ts';
import type { JudgeResult, Verdict } from './types.ts';

/** What a model may not support; each is done without once it has been refused. */
export type Feature = 'json-schema' | 'tool' | 'temperature' | 'system' | 'cache' | 'max-tokens-name';

export type CallFailureKind =
  /** Too many calls; to be tried again later. */
  | 'throttled'
  /** The service failed, or could not be reached; to be tried again. */
  | 'unavailable'
  /** The model does not know a feature that was used. */
  | 'unsupported'
  /** The prompt is longer than the model takes. */
  | 'too-long'
  /** This request is refused, for a reason that may lie in it. */
  | 'rejected'
  /** No request would be taken: no access, no such model, the model's life is over. */
  | 'refused'
  /** The credentials have run out; a fresh start has new ones. */
  | 'expired'
  /** The caller gave up. */
  | 'aborted'
  /** The budget leaves no room for the call. */
  | 'held';

/** One call that ended without an answer. Refused and failed calls cost no tokens, save where it says so. */
export class CallFailure extends PipelineError {
  readonly kind: CallFailureKind;
  readonly feature: Feature | undefined;
  readonly retryAfterMs: number | undefined;
  readonly status: number | undefined;
  /** Something has answered with status 200: it may have been the model, and is paid then. */
  readonly mayBePaid: boolean;
  /** What it is booked at then. */
  usage: CallUsage | undefined;

  constructor(
    kind: CallFailureKind,
    message: string,
    details: {
      mayBePaid?: boolean;
      feature?: Feature;
      retryAfterMs?: number | undefined;
      status?: number | undefined;
      cause?: unknown;
    } = {},
  ) {
    super('JudgeCallFailure', message, {}, details.cause);
    this.kind = kind;
    this.feature = details.feature;
    this.retryAfterMs = details.retryAfterMs;
    this.status = details.status;
    this.mayBePaid = details.mayBePaid ?? false;
  }
}

type JudgeSpendOfCapture = JudgeResult['spend'];

/** What was answered and paid before a failure. Verdicts quote what was captured: the error does not show them. */
interface Answered {
  spend: JudgeSpendOfCapture;
  verdicts: readonly Verdict[];
  cause?: unknown;
  retryAfterMs?: number | undefined;
}

/**
 * The judging of a capture was broken off and can be taken up later. `verdicts` were paid for and are valid: write
 * them before failing, and they will not be asked for again. `spend` is all that was spent on the capture.
 */
export class JudgeInterrupted extends RetryableError {
  readonly #answered: Answered;

  constructor(name: RetryableErrorName, message: string, facts: ErrorFacts, answered: Answered) {
    super(name, message, facts, answered.cause, answered.retryAfterMs);
    this.#answered = answered;
  }

  get spend(): JudgeSpendOfCapture {
    return this.#answered.spend;
  }

  get verdicts(): readonly Verdict[] {
    return this.#answered.verdicts;
  }
}

class AnsweredInPart extends PermanentError {
  readonly #answered: Answered;

  constructor(name: string, message: string, facts: ErrorFacts, answered: Answered) {
    super(name, message, facts, answered.cause);
    this.#answered = answered;
  }

  get spend(): JudgeSpendOfCapture {
    return this.#answered.spend;
  }

  get verdicts(): readonly Verdict[] {
    return this.#answered.verdicts;
  }
}

/**
 * No capture can be judged with these settings: the run must stop and say so, not write an error on every trace.
 */
export class JudgeRefused extends AnsweredInPart {
  constructor(message: string, facts: ErrorFacts, answered: Answered) {
    super('JudgeRefused', message, facts, answered);
  }
}

/** The budget left no room to ask for what was missing. What was answered before stands; the rest is held. */
export class JudgeHeld extends AnsweredInPart {
  constructor(facts: ErrorFacts, answered: Answered) {
    super('JudgeHeld', 'The budget leaves no room for the call', facts, answered);
  }
}

/** What was answered before an error of others than the judge, such as the budget's table. */
const answeredBeforeOthers = new WeakMap<object, JudgeResult>();

/** The error as it is; `answeredBefore` tells what the judge has answered until then. */
export function afterAnswers<E extends object>(error: E, result: JudgeResult): E {
  answeredBeforeOthers.set(error, result);
  return error;
}

/** What a judge that failed has answered and cost all the same; its errors carry it. */
export function answeredBefore(error: unknown): JudgeResult {
  const known = typeof error === 'object' && error !== null ? answeredBeforeOthers.get(error) : undefined;
  if (known !== undefined) return known;
  const isCarrier = error instanceof JudgeInterrupted || error instanceof AnsweredInPart;
  if (isCarrier) return { verdicts: [...error.verdicts], spend: error.spend };
  return { verdicts: [], spend: { calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 } };
}

/** Codes of error verdicts, as they are written into `feedback.error`. */
export const VERDICT_ERRORS = {
  cut: 'JudgeReplyCut',
  unreadable: 'JudgeReplyUnreadable',
  missing: 'JudgeScorerMissing',
  value: 'JudgeValueNotAllowed',
  guardrail: 'JudgeGuardrailIntervened',
  filtered: 'JudgeContentFiltered',
  tooLong: 'JudgeInputTooLong',
  rejected: 'JudgeInputRejected',
  /** An exception of ours that this capture provokes. */
  failed: 'JudgeCaptureFailed',
} as const;

export type VerdictErrorCode = (typeof VERDICT_ERRORS)[keyof typeof VERDICT_ERRORS];
