/** The port between the judging and the services that host judges: one request to a model, one answer. */

import type { Feature } from '../errors.ts';
import type { JsonSchema } from '../prompt/answer-schema.ts';
import type { Prompt } from '../prompt/prompt.ts';

export interface Ask {
  prompt: Prompt;
  /** The form of the answer, for the rungs that enforce it. */
  schema: JsonSchema;
  /** Most tokens of the answer. */
  maxTokens: number;
  /** Whether the model is taken to support a feature. */
  supports(feature: Feature): boolean;
}

/** Tokens of one call. `inputTokens` leaves out what was read from or written to the prompt cache. */
export interface CallUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number;
  cacheWriteInputTokens?: number;
  /** The call was part of a batch job, which has a price of its own. */
  batch?: boolean;
}

/** Why the model stopped, in the terms that matter here. */
export type Stop = 'end' | 'cut' | 'guardrail' | 'filtered' | 'malformed' | 'context';

export interface Told {
  /** The answer as an object, where the service gives one (a tool call). */
  object?: unknown;
  text: string;
  stop: Stop;
  /** The service's own word for it. */
  stopReason: string;
  usage: CallUsage;
}

export interface Transport {
  /** As recorded on assessments: `<scheme>:/<model>`. */
  readonly sourceId: string;
  /** Inference parameters that the user has set by name: a refusal of one is a wrong setting, not a quirk to work around. */
  readonly userSet: ReadonlySet<string>;
  /** @throws CallFailure, and nothing else */
  send(ask: Ask, signal?: AbortSignal): Promise<Told>;
}
