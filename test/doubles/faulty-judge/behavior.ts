/** The faults and limits that the stand-in can simulate, so that tests meet what a real model service does on a bad day. */
import * as z from 'zod';
import { Random } from '../../../src/core/values/random.ts';

/** Ways in which an answer can be wrong. */
export const ANSWER_FAULTS = [
  /** JSON in a Markdown fence with prose around it. */
  'fenced',
  /** JSON with single quotes, comments, a trailing comma. */
  'sloppy-json',
  /** Prose without JSON. */
  'prose',
  'nonsense',
  /** Every second scorer is left out. */
  'missing-keys',
  /** Values that no scorer allows. */
  'wrong-value',
  /** Values in another language. */
  'wrong-language',
  'empty',
  /** `stopReason: max_tokens`, with the text truncated to two thirds. */
  'cut',
  'malformed',
  'guardrail',
  'content-filtered',
  'context-exceeded',
] as const;
export type AnswerFault = (typeof ANSWER_FAULTS)[number];

const share = z.number().min(0).max(1);

const modelBehaviorSchema = z.strictObject({
  /** `rejected`: the model refuses a JSON schema with a 400; `ignored`: the schema has no effect. */
  jsonSchema: z.enum(['accepted', 'rejected', 'ignored']).default('accepted'),
  forcedTool: z.enum(['accepted', 'rejected', 'ignored']).default('accepted'),
  temperature: z.enum(['accepted', 'rejected']).default('accepted'),
  systemPrompt: z.enum(['accepted', 'rejected']).default('accepted'),
  /** `counted`: usage reports cached tokens, as on Bedrock; `ignored`: the model caches nothing. */
  caching: z.enum(['ignored', 'counted', 'rejected']).default('ignored'),
  /**
   * `denied`: no access; `invalid`: no such identifier; `ended`: past its end of life; `unlisted`: works through a
   * profile that routes elsewhere, and cannot be looked up in this region.
   */
  state: z.enum(['active', 'legacy', 'ended', 'missing', 'denied', 'invalid', 'unlisted']).default('active'),
  /** A higher bound on the answer is refused. */
  mostAnswerTokens: z.number().int().positive().optional(),
  /** A longer request is refused. */
  maxInputTokens: z.number().int().positive().optional(),
});
export type ModelBehavior = z.infer<typeof modelBehaviorSchema>;

export const behaviorSchema = z.strictObject({
  /** Time to an answer. Changing the behavior releases the calls that wait. */
  delayMs: z.number().min(0).default(0),
  /** Share of the calls that are throttled (429) immediately. */
  throttleShare: share.default(0),
  /** Calls beyond this concurrency are throttled. */
  maxInFlight: z.number().int().positive().optional(),
  /** Calls above this rate are throttled. */
  callsPerSecond: z.number().positive().optional(),
  /** Sent with every throttling answer. */
  retryAfterSeconds: z.number().min(0).optional(),
  /** Share of the calls that end with `errorStatus`. */
  errorShare: share.default(0),
  errorStatus: z.number().int().min(400).max(599).default(503),
  errorType: z.string().default('ServiceUnavailableException'),
  /** Share of the calls whose connection is cut. */
  dropShare: share.default(0),
  /** Share of the calls whose answer is `fault`. */
  fault: z.enum(ANSWER_FAULTS).optional(),
  faultShare: share.default(1),
  /** Only this number of calls, counted from now, meet any of the above. */
  faultyCalls: z.number().int().min(0).optional(),
  /** Keyed by model id; `*` for all others. */
  models: z.record(z.string(), modelBehaviorSchema).default({}),
  /** Seed of the random draws: the same seed and the same order of calls give the same faults. */
  seed: z.number().int().default(1),
});

export type Behavior = z.infer<typeof behaviorSchema>;
/** The input form, in which every field is optional. */
export type BehaviorInput = z.input<typeof behaviorSchema>;

const DEFAULT_MODEL: ModelBehavior = modelBehaviorSchema.parse({});

export const modelBehavior = (behavior: Behavior, modelId: string): ModelBehavior =>
  behavior.models[modelId] ?? behavior.models['*'] ?? DEFAULT_MODEL;

/** Returns a generator of numbers in [0, 1) that are the same for the same seed. */
export function pseudoRandom(seed: number): () => number {
  const random = new Random(seed);
  return () => random.next();
}

/** A token bucket: admits `perSecond` calls per second, with a burst of one second's worth. */
export function rateGate(perSecond: number, now: () => number = Date.now): () => boolean {
  let tokens = Math.max(1, perSecond);
  let last = now();
  return () => {
    const at = now();
    tokens = Math.min(Math.max(1, perSecond), tokens + ((at - last) / 1000) * perSecond);
    last = at;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  };
}
