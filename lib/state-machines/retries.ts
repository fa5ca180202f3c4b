/** The retries of the state machines by error name: how often, and for how long. */
import { Duration } from 'aws-cdk-lib';
import { JitterType, type RetryProps } from 'aws-cdk-lib/aws-stepfunctions';
import ERRORS from '../../src/core/errors/errors.json' with { type: 'json' };
import LAMBDA_ERRORS from './lambda-errors.json' with { type: 'json' };

/** The account's concurrency is used up. The CDK's default retry does not include this error. */
const LAMBDA_THROTTLED = 'Lambda.TooManyRequestsException';

/** Errors of a function that was killed: by its timeout, out of memory, or with its host. */
export const LAMBDA_ENDED_ERRORS = Object.keys(ERRORS.killed);

// Full jitter waits between 0 and the figure, so the retries take half the sum on average.

/**
 * Transient errors, and errors of Lambda or of the connection to it: all that Step Functions' best practices list.
 * After ClientExecutionTimeoutException the function may still be running; a second invocation at the same time is
 * safe.
 *
 * 2, 4, 8, 16, 32, 60 s: at most two minutes, in addition to the retries in the function, for MLflow or S3 to recover.
 */
const TRANSIENT_RETRY: RetryProps = {
  errors: [...Object.keys(ERRORS.transient), ...LAMBDA_ERRORS.service],
  interval: Duration.seconds(2),
  backoffRate: 2,
  maxAttempts: 6,
  maxDelay: Duration.seconds(60),
  jitterStrategy: JitterType.FULL,
};

/** 5, 10, 20, 40, 80, 160, then 6 × 300 s: at most 35 minutes, 18 on average, for a throttled judge with a quota per minute. */
const JUDGE_RETRY: RetryProps = {
  ...TRANSIENT_RETRY,
  interval: Duration.seconds(5),
  maxAttempts: 12,
  maxDelay: Duration.seconds(300),
};

/**
 * 2, 4, …, 256, then 992 × 300 s: at most 83 hours, 41 on average. A new account has a concurrency of 10 for all its
 * functions, and an invocation may run for 15 minutes. Invocations that arrive together, including planning, must wait
 * for one another instead of failing. A retry is three events of the 25,000 that an execution may have.
 */
const THROTTLED_RETRY: RetryProps = {
  ...TRANSIENT_RETRY,
  errors: [LAMBDA_THROTTLED, ...Object.keys(ERRORS.throttled)],
  maxAttempts: 1000,
  maxDelay: Duration.seconds(300),
};

/** A function may be killed once because of its host; if it is killed three times, the cause is its own. */
const ENDED_RETRY: RetryProps = {
  errors: LAMBDA_ENDED_ERRORS,
  interval: Duration.seconds(2),
  backoffRate: 2,
  maxAttempts: 2,
  jitterStrategy: JitterType.FULL,
};

/**
 * 1, 2, 4, then 11 × 5 s: at most a minute, half of it on average. A throttled invocation has not started, so it can be
 * retried. The only other retried error is that of a function that is not ready, because a shard that may have started
 * is never sent again.
 */
const NOT_STARTED_RETRY: RetryProps = {
  ...TRANSIENT_RETRY,
  errors: [LAMBDA_THROTTLED],
  interval: Duration.seconds(1),
  maxAttempts: 14,
  maxDelay: Duration.seconds(5),
};

/**
 * Error of a function that was not called for weeks: its first call fails and only wakes it, which takes a minute or
 * two, in a VPC longer. The names come from Lambda's API, and the last one from errors observed by callers outside a
 * VPC. Nothing has started, so every task has this entry: 10, 15, 22, …, 384 s, 19 minutes in all.
 */
export const NOT_READY_RETRY: RetryProps = {
  errors: LAMBDA_ERRORS.notReady,
  interval: Duration.seconds(10),
  backoffRate: 1.5,
  maxAttempts: 10,
};

/** Each entry counts separately: a chunk that was throttled has not used up its retries for MLflow. */
export const STORE_RETRIES = [TRANSIENT_RETRY, THROTTLED_RETRY, ENDED_RETRY];

/**
 * 96 × 15 minutes: a day, within which another batch job ends, while the account has no place for one or Bedrock does not answer. So
 * seldom that the alarm of failing functions stays off.
 */
const PLACE_RETRY: RetryProps = {
  errors: ['JudgeThrottled', 'JudgeUnavailable'],
  interval: Duration.minutes(15),
  backoffRate: 1,
  maxAttempts: 96,
};
export const BATCH_RETRIES = [PLACE_RETRY, ...STORE_RETRIES];

/** A chunk on which a function was killed is not simply retried: the next attempt looks for the line that does it. */
export const LOG_CHUNK_RETRIES = [TRANSIENT_RETRY, THROTTLED_RETRY];
export const EVALUATE_CHUNK_RETRIES = [JUDGE_RETRY, THROTTLED_RETRY];

export const SHARD_RETRIES = [NOT_STARTED_RETRY];
