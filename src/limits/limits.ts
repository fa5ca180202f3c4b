/**
 * The limits of the stack: how much all functions of all runs together may ask of MLflow, of the judge, and of Lambda.
 * Their items are in one table, together with the budget and the locks.
 */
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { type Breaker, TableBreaker } from './breaker.ts';
import { type RateLimit, TableRateLimit } from './rate-limit.ts';
import { type CallLimit, type Permits, TableSemaphore } from './semaphore.ts';
import { SIZES } from './sizes.ts';
import { limitsTable, realClock } from './table.ts';

/** Limits that each call of the judge must pass. */
export interface JudgeLimits {
  breaker: Breaker;
  /** The tokens of the calls, as the provider counts them, or invocations of a function. Absent: no limit. */
  tokens?: RateLimit | undefined;
}

/** All are absent without a table, as in a test. */
export interface Limits {
  /**
   * Limits that requests to MLflow must pass. Without `rate` there is no limit. `breaker` receives the outcome of each request, and
   * prevents the start of chunks.
   */
  mlflow?: { rate?: RateLimit | undefined; breaker?: Breaker | undefined } | undefined;
  /** Returns the limits for the calls of a model, by its id in the settings. */
  judge?: ((model: string) => JudgeLimits) | undefined;
  /** Returns the limits for the invocations of a scorer's function. */
  scorer?: ((asked: { arn: string; perSecond?: number | undefined }) => JudgeLimits) | undefined;
  permits?: Permits | undefined;
}

/** Each function writes to an item of a rate about once a second, and DynamoDB takes 1,000 writes a second to an item. */
const FUNCTIONS_PER_SHARD = 250;
/** A shard below this rate would make single requests wait long. */
const LEAST_PER_SHARD = 50;

/** A server that is asked for a second's requests at once, after a pause, would throttle them. */
const KEEP_REQUESTS_MS = 150;
/** Providers count tokens by the minute. */
const KEEP_TOKENS_MS = 10_000;

/** A request is given up after some 16 s. While MLflow answers others of the function, it is slow, and pauses would waste its time. */
const MLFLOW_REFUSED = { inRow: 5, forMs: 20_000 };

/**
 * Returns the limits that this function shares with all functions of the stack.
 *
 * @param limit the limiter of the judge's calls; absent in a function that does not judge
 *
 * @example
 *     const limits = connectLimits(readEnvironment(), limiter);
 *     const permit = await limits.permits?.acquire();   // 'acquired', or how long to wait
 */
export function connectLimits(settings: LambdaEnvironment, limit?: CallLimit): Limits {
  const { MAX_FUNCTIONS: functions, MLFLOW_TRACKING_URI: uri } = settings;
  const { judgeCalls: calls, mlflowRequests } = SIZES[settings.SIZE];
  const table = limitsTable(settings);
  const rate = (of: string, perSecond: number, keepMs: number): RateLimit | undefined => {
    if (perSecond === 0) return undefined;
    const most = Math.max(1, Math.floor(perSecond / LEAST_PER_SHARD));
    const shards = Math.min(most, Math.ceil((functions || 1000) / FUNCTIONS_PER_SHARD));
    return new TableRateLimit({ table, name: of, perSecond, keepMs, shards });
  };
  const tokens = rate('judge', settings.JUDGE_TOKENS_PER_MINUTE / 60, KEEP_TOKENS_MS);
  return {
    mlflow: {
      // A server of the person's own has no limit here.
      rate: rate('mlflow', uri.startsWith('arn:') ? mlflowRequests : 0, KEEP_REQUESTS_MS),
      breaker: new TableBreaker(table, 'mlflow', realClock, MLFLOW_REFUSED),
    },
    // Providers count by model: while one is throttled, the other model of a cascade may have room.
    judge: (model) => ({ breaker: new TableBreaker(table, `judge#${model}`), tokens }),
    scorer: ({ arn, perSecond = 0 }) => ({
      breaker: new TableBreaker(table, `scorer#${arn}`),
      tokens: rate(`scorer#${arn}`, perSecond, KEEP_REQUESTS_MS),
    }),
    permits: new TableSemaphore({ table, functions, calls, limit }),
  };
}
