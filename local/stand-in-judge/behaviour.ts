/** What the stand-in can be told to do, so that tests meet what a real model service does on a bad day. */
import * as z from 'zod';

/** Ways in which an answer can be wrong. */
export const ANSWER_FAULTS = [
  /** JSON in a Markdown fence with talk around it. */
  'fenced',
  /** JSON with single quotes, comments, a trailing comma. */
  'sloppy-json',
  /** Sentences, no JSON. */
  'prose',
  'nonsense',
  /** Every second scorer is left out. */
  'missing-keys',
  /** Values that no scorer allows. */
  'wrong-value',
  /** Values in another language. */
  'wrong-language',
  'empty',
  /** `stopReason: max_tokens`, the text cut off at two thirds. */
  'cut',
  'malformed',
  'guardrail',
  'content-filtered',
  'context-exceeded',
] as const;
export type AnswerFault = (typeof ANSWER_FAULTS)[number];

const share = z.number().min(0).max(1);

const modelBehaviourSchema = z.strictObject({
  /** A model that refuses the JSON schema with a 400, or takes no notice of it. */
  jsonSchema: z.enum(['accepted', 'rejected', 'ignored']).default('accepted'),
  forcedTool: z.enum(['accepted', 'rejected', 'ignored']).default('accepted'),
  temperature: z.enum(['accepted', 'rejected']).default('accepted'),
  systemPrompt: z.enum(['accepted', 'rejected']).default('accepted'),
  /** `counted`: cached tokens are counted as such, as on Bedrock; `ignored`: as on a model that caches nothing. */
  caching: z.enum(['ignored', 'counted', 'rejected']).default('ignored'),
  /**
   * `denied`: no access; `invalid`: no such identifier; `ended`: past its life; `unlisted`: works, by a profile that
   * routes elsewhere, and cannot be looked up in this region.
   */
  state: z.enum(['active', 'legacy', 'ended', 'missing', 'denied', 'invalid', 'unlisted']).default('active'),
  /** A request of more is refused as too long. */
  maxInputTokens: z.number().int().positive().optional(),
});
export type ModelBehaviour = z.infer<typeof modelBehaviourSchema>;

export const behaviourSchema = z.strictObject({
  /** How long an answer takes; at most until the behaviour is changed. */
  delayMs: z.number().min(0).default(0),
  /** Share of the calls that are throttled (429), at once. */
  throttleShare: share.default(0),
  /** Calls above this many at the same time are throttled. */
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
  /** Only the first so many calls meet any of the above. */
  faultyCalls: z.number().int().min(0).optional(),
  /** By model id; `*` for all others. */
  models: z.record(z.string(), modelBehaviourSchema).default({}),
  /** Start of the pseudo-random draws: the same seed and the same order of calls give the same faults. */
  seed: z.number().int().default(1),
});

export type Behaviour = z.infer<typeof behaviourSchema>;
/** As it is given: everything may be left out. */
export type BehaviourInput = z.input<typeof behaviourSchema>;

const DEFAULT_MODEL: ModelBehaviour = modelBehaviourSchema.parse({});

export const modelBehaviour = (behaviour: Behaviour, modelId: string): ModelBehaviour =>
  behaviour.models[modelId] ?? behaviour.models['*'] ?? DEFAULT_MODEL;

/** mulberry32: small, even enough, and the same on every machine. */
export function pseudoRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Lets `perSecond` calls a second through, with a second's worth in hand. */
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
