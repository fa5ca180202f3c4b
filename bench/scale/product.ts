/** The simulation's constants: the product's own, read from its code. */
import type { RetryProps } from 'aws-cdk-lib/aws-stepfunctions';
import { STARTERS_AT_ONCE } from '../../lib/object-rule.ts';
import { STORE_RETRIES } from '../../lib/state-machines/retries.ts';
import { settingsSchema } from '../../src/core/settings/schema.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { MAX_CONCURRENT_CALLS } from '../../src/judge/transports/transport.ts';
import { type Refusals, WINDOW_MS, waitAfterRefusal } from '../../src/limits/semaphore.ts';
import { REFUSED_ATTEMPTS, REFUSED_WAIT_MS } from '../../src/limits/table.ts';
import { CHUNK_BOUNDS } from '../../src/monitoring/chunk/chunk-bounds.ts';
import { RANGES_AT_ONCE } from '../../src/monitoring/chunk/ranges.ts';
import { isEnoughForPart } from '../../src/monitoring/plan/part-bounds.ts';
import { OBJECTS_AT_ONCE } from '../../src/monitoring/plan/units.ts';
import { secondsOf, THROTTLED_WAIT_MS } from '../../src/monitoring/within-limits.ts';
import { chatRecord } from '../support/records.ts';

const REQUIRED = {
  STACK_PREFIX: 'scale',
  MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
  SAGEMAKER_ENDPOINT_NAME: 'scale',
  DATA_CAPTURE_S3_BUCKET: 'scale-captures',
};

/** The defaults of the settings, by their names in `.env`. */
const DEFAULTS: Readonly<Record<string, unknown>> = settingsSchema.parse({
  ...REQUIRED,
  // The default depends on the region.
  BEDROCK_MODEL_ID: 'anthropic.claude-sonnet-4-6',
});

export const defaultNumber = (name: string): number => Number(DEFAULTS[name] ?? 0);

export const CHUNK_LINES = CHUNK_BOUNDS.maxLines;
export const CALLS_AT_ONCE = MAX_CONCURRENT_CALLS;
/** Capture files that planning and a chunk read at the same time. */
/** How long a function that gets no permit stays away. */
export {
  isEnoughForPart,
  OBJECTS_AT_ONCE,
  RANGES_AT_ONCE,
  type Refusals,
  STARTERS_AT_ONCE,
  WINDOW_MS,
  waitAfterRefusal,
};

/** Events in the 6 MB that a function is given (decision 0081). */
export const EVENTS_AT_ONCE = 3000;

const THROTTLED = 'Lambda.TooManyRequestsException';

/** How an invocation that found no free place is repeated. */
export const THROTTLED_RETRY: Required<Pick<RetryProps, 'maxAttempts'>> & { seconds(attempt: number): number } =
  (() => {
    const retry = STORE_RETRIES.find(({ errors = [] }) => errors.includes(THROTTLED));
    if (retry === undefined) throw new Error(`No retry of the state machine names ${THROTTLED}`);
    const { interval, backoffRate = 2, maxDelay, maxAttempts = 3 } = retry;
    const [first, most] = [interval?.toSeconds() ?? 1, maxDelay?.toSeconds() ?? Number.POSITIVE_INFINITY];
    return { maxAttempts, seconds: (attempt) => Math.min(most, first * backoffRate ** attempt) };
  })();

/**
 * For how long a function repeats a write that DynamoDB refuses: its own waits, half of each on average. When much is refused,
 * the SDK's retries come on top only until its tokens for them are used up.
 */
export const TABLE_REFUSED_SECONDS = (REFUSED_WAIT_MS * REFUSED_ATTEMPTS * (REFUSED_ATTEMPTS - 1)) / 4 / 1000;

/** How long a chunk then waits, after it has waited for these seconds before. */
export const tableWait = (waited: number, random: () => number): number =>
  secondsOf(Math.max(2000 * waited, THROTTLED_WAIT_MS), random);

/** What judging a capture takes by the product's own estimate, on average. */
export const JUDGED_CAPTURE = (() => {
  const captures = 1000;
  const settings = {
    // Of the region of the list prices: a geographic profile costs a tenth more than the model itself.
    BEDROCK_MODEL_ID: 'us.anthropic.claude-sonnet-4-6',
    EVALUATION_BUDGET_USD: 0,
    JUDGE_PRICES: {},
    MLFLOW_EVALUATION_MODEL_PARAM: {},
  };
  const bytes = captures * Buffer.byteLength(chatRecord(1));
  const estimate = estimateFromSizes(settings, scorersFor(), { judge: 'converse', sampleRate: 1 }, { captures, bytes });
  return {
    calls: estimate.judgeCalls / captures,
    inputTokens: estimate.inputTokens / captures,
    outputTokens: estimate.outputTokens / captures,
    usd: (estimate.usd ?? 0) / captures,
  };
})();
