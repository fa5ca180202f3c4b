/** What the state machine repeats, by the error's name: how often, and for how long. */
import { Duration } from 'aws-cdk-lib';
import { JitterType, type RetryProps } from 'aws-cdk-lib/aws-stepfunctions';
import { RETRYABLE_ERRORS } from '../../src/shared/errors.ts';

/**
 * Trouble of Lambda's own, or on the way to it, which passes within seconds: all that Step Functions' best practices name.
 * With ClientExecutionTimeoutException the function may still be at work; to begin again beside it is safe.
 */
const LAMBDA_SERVICE_ERRORS = [
  'Lambda.ClientExecutionTimeoutException',
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
];

/** No concurrency is left in the account; the CDK's own default retry leaves it out. */
const LAMBDA_THROTTLED = 'Lambda.TooManyRequestsException';

/** A function that was ended: by its time limit, out of memory, or with its host. */
export const LAMBDA_ENDED_ERRORS = [
  'Sandbox.Timedout',
  'States.Timeout',
  'Runtime.ExitError',
  'Runtime.OutOfMemory',
  'Lambda.Unknown',
];

// Full jitter waits anything from 0 to the figure: what a retry lasts is half the sum on average.

/** 2, 4, 8, 16, 32, 60 s: two minutes at most, beside the retries inside a function, for MLflow to restart or S3 to recover. */
const TRANSIENT_RETRY: RetryProps = {
  errors: [...RETRYABLE_ERRORS, ...LAMBDA_SERVICE_ERRORS],
  interval: Duration.seconds(2),
  backoffRate: 2,
  maxAttempts: 6,
  maxDelay: Duration.seconds(60),
  jitterStrategy: JitterType.FULL,
};

/** 5, 10, 20, 40, 80, 160, then 6 × 300 s: 35 minutes at most, 18 on average, for a throttled judge, whose quota is by the minute. */
const JUDGE_RETRY: RetryProps = {
  ...TRANSIENT_RETRY,
  interval: Duration.seconds(5),
  maxAttempts: 12,
  maxDelay: Duration.seconds(300),
};

/**
 * 2, 4, 8, 16, 32, then 55 × 60 s: 56 minutes at most, 28 on average. A new account has 10 invocations at a time for all
 * its functions, and each may hold its place for 15 minutes: files that come together wait for one another, and must not fail.
 */
const THROTTLED_RETRY: RetryProps = {
  ...TRANSIENT_RETRY,
  errors: [LAMBDA_THROTTLED],
  maxAttempts: 60,
};

/** What ended a function once may be the host's; what ends it three times is its own. */
const ENDED_RETRY: RetryProps = {
  errors: LAMBDA_ENDED_ERRORS,
  interval: Duration.seconds(2),
  backoffRate: 2,
  maxAttempts: 2,
  jitterStrategy: JitterType.FULL,
};

/**
 * 1, 2, 4, then 11 × 5 s: a minute at most, half of it on average. An invocation that was throttled has not begun, and
 * may still be made; a shard that may have begun is never sent again, so nothing else is repeated.
 */
const NOT_BEGUN_RETRY: RetryProps = {
  errors: [LAMBDA_THROTTLED],
  interval: Duration.seconds(1),
  backoffRate: 2,
  maxAttempts: 14,
  maxDelay: Duration.seconds(5),
  jitterStrategy: JitterType.FULL,
};

/** Each has attempts of its own: a chunk that waited for a place has not used up its retries of MLflow. */
export const STORE_RETRIES = [TRANSIENT_RETRY, THROTTLED_RETRY, ENDED_RETRY];
export const JUDGE_RETRIES = [JUDGE_RETRY, THROTTLED_RETRY, ENDED_RETRY];

/** A chunk on which a function was ended is not tried again as it is, but in smaller parts. */
export const LOG_CHUNK_RETRIES = [TRANSIENT_RETRY, THROTTLED_RETRY];
export const EVALUATE_CHUNK_RETRIES = [JUDGE_RETRY, THROTTLED_RETRY];

export const BEGIN_RETRIES = [NOT_BEGUN_RETRY];
