/** The port between the judge and the services that host models: one request to a model, one answer. */
import type { JsonSchema } from '../answer/answer-schema.ts';
import type { Feature } from '../errors.ts';
import type { JudgePrompt } from '../prompt/build-prompt.ts';
import type { ModelAnswer } from '../types.ts';

export interface Ask {
  prompt: JudgePrompt;
  /** The form of the answer, for the rungs that enforce it. */
  schema: JsonSchema;
  /** Maximum number of output tokens. */
  maxTokens: number;
  /** Whether the model is assumed to support a feature. */
  supports(feature: Feature): boolean;
}

/**
 * Calls in flight at the same time in one process, at most. At 300 ms a call, 32 are 100 calls per second from one Lambda,
 * more than most accounts' quotas allow; and 32 captures of 100 KB take 3 MB.
 */
export const MAX_CONCURRENT_CALLS = 32;

/** An answer takes seconds. One minute covers a model that thinks, two minutes a call that waits in a queue. */
export const CALL_TIMEOUT_MS = 120_000;

export interface JudgeTransport {
  /** The judge's id as recorded on assessments: `<scheme>:/<model>`. */
  readonly sourceId: string;
  /** Names of the inference parameters that the user has set. If the model refuses one, the setting is wrong and the call is not repeated without it. */
  readonly userSet: ReadonlySet<string>;
  /** @throws only CallFailure */
  send(ask: Ask, signal?: AbortSignal): Promise<ModelAnswer>;
}
