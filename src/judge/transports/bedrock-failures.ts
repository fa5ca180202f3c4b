/** Classifies errors of the AWS SDK. */
import type { SdkError } from '../../core/errors/aws-failures.ts';
import { saidBy } from '../../core/errors/errors.ts';
import { readRetryAfter } from '../../core/process/retry.ts';
import { CallFailure, type CallFailureKind, type Feature } from '../errors.ts';
import kinds from './bedrock-errors.json' with { type: 'json' };
import { isPage, refusalOf, saysPerDay } from './chat.ts';

/** Kinds of failures by error name. */
const KINDS = kinds as Record<string, CallFailureKind>;

/**
 * Returns the remedy for a denial by a policy of the organization. Returns `undefined` if no policy denies the call.
 * Policies that deny other regions refuse global profiles, whose calls have the region `unspecified`, and profiles with
 * one denied region.
 */
export const policyRemedy = (message: string): string | undefined =>
  /explicit deny in a service control policy/i.test(message)
    ? 'a BEDROCK_MODEL_ID whose regions the service control policy allows: a profile of your geography such as us. or eu., or a model of this region, instead of global. (whose aws:RequestedRegion is "unspecified"); or an exception for bedrock:InvokeModel in that policy'
    : undefined;

interface AwsError extends SdkError {
  $response?: { statusCode?: number; headers?: Record<string, string | undefined> };
  /** The body of a response that the client could not parse. */
  $responseBodyText?: string;
}

function kindOf(error: AwsError, status: number | undefined): { kind: CallFailureKind; feature?: Feature } {
  const known = KINDS[error.name] ?? (status === 429 ? 'throttled' : undefined);
  if (known === 'throttled' && saysPerDay(error.message)) return { kind: 'day' };
  if (known !== undefined) return { kind: known };
  // The SDK's words, on a person's own machine.
  if (error.message === 'Region is missing') return { kind: 'refused' };
  return status === undefined ? { kind: 'unavailable' } : refusalOf(status, error.message);
}

/** @param error from a client of the AWS SDK: an error of the service, of the SDK, or of Node's network */
export function readAwsFailure(error: unknown, signal?: AbortSignal): CallFailure {
  const aws = error as AwsError;
  const status = aws.$metadata?.httpStatusCode ?? aws.$response?.statusCode;
  const { kind, feature } = signal?.aborted ? { kind: 'aborted' as const } : kindOf(aws, status);
  const headers = aws.$response?.headers ?? {};
  return new CallFailure(kind, saidBy(error), {
    feature,
    retryAfterMs: readRetryAfter(headers['retry-after']),
    status,
    remedy: policyRemedy(aws.message ?? ''),
    mayBePaid: status !== undefined && status < 300 && !isPage(aws.$responseBodyText ?? ''),
    cause: error,
  });
}
