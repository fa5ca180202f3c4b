/** Invokes the Lambda function of a scorer. */
import { GetAliasCommand, InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { isRetryable } from '../../core/errors/errors.ts';
import { isAlias } from '../../core/settings/scorer-functions-setting.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { CallFailure, judgingError, OF_FUNCTION } from '../errors.ts';
import { functionArnOf, functionSource } from '../scorers/scorer-set.ts';
import { readAwsFailure } from '../transports/bedrock-failures.ts';
import type { FunctionScorer } from '../types.ts';
import { errorText, replyTooLong, ScorerFault } from './read-reply.ts';
import type { Invoke } from './scorer-function.ts';

type Asks = FunctionScorer['asks'];

/** The region is that of the function. The SDK makes one attempt. */
const clientOf = ({ arn }: Asks): LambdaClient =>
  new LambdaClient({ region: arn.split(':')[3] as string, maxAttempts: 1 });

/** Connects a function. An invocation ends after its time. Without an answer it may have been paid for. */
export function lambdaInvoke(scorer: FunctionScorer): Invoke {
  const { asks } = scorer;
  const client = clientOf(asks);
  const FunctionName = functionArnOf(scorer);
  return async (request, signal) => {
    if (isAlias(asks.qualifier)) throw new CallFailure('refused', 'The version of the alias is not known');
    const late = AbortSignal.timeout(asks.seconds * 1000);
    const invoked = new InvokeCommand({ FunctionName, Payload: Buffer.from(request) });
    const reply = await client
      .send(invoked, { abortSignal: AbortSignal.any([signal, late]) })
      .catch((error: unknown) => {
        if (late.aborted && !signal.aborted) throw timedOut(asks);
        const failure = readAwsFailure(error, signal);
        const { kind, message, status, retryAfterMs } = failure;
        const mayBePaid = kind === 'aborted' || (kind === 'unavailable' && status === undefined);
        throw new CallFailure(kind, message, { status, retryAfterMs, mayBePaid, cause: error });
      });
    const payload = Buffer.from(reply.Payload ?? []);
    if (reply.FunctionError !== undefined) throw functionError(payload.toString(), asks);
    return payload.toString();
  };
}

const timedOut = ({ seconds }: Asks): ScorerFault =>
  new ScorerFault('ScorerTimedOut', 'The function did not answer in time', { expected: `at most ${seconds} s` });

/** Lambda tells time-outs and replies over 6 MB as errors of the function. */
function functionError(text: string, asks: Asks): ScorerFault {
  const said = errorText(jsonIn(text), 'errorType', 'errorMessage');
  if (/Task timed out|Sandbox\.Timedout/.test(said)) return timedOut(asks);
  if (/ResponseSizeTooLarge|payload size \(\d{1,12} bytes\) exceeded/i.test(said)) return replyTooLong();
  return new ScorerFault('ScorerFailed', said || 'The function failed');
}

/**
 * Returns the versions of the functions of scorers by name. Asks Lambda for those that settings name by an alias; leaves out those that
 * Lambda refuses to tell.
 *
 * @throws RetryableError `ScorerThrottled` or `ScorerUnavailable`
 */
export async function functionVersions(scorers: readonly FunctionScorer[]): Promise<Record<string, string>> {
  const versions: Record<string, string> = {};
  const find = async (scorer: FunctionScorer): Promise<void> => {
    const { arn: FunctionName, qualifier: Name } = scorer.asks;
    try {
      const { FunctionVersion = '' } = await clientOf(scorer.asks).send(new GetAliasCommand({ FunctionName, Name }));
      versions[scorer.name] = FunctionVersion;
    } catch (cause) {
      const error = judgingError(readAwsFailure(cause), functionSource(scorer), undefined, OF_FUNCTION);
      if (isRetryable(error)) throw error;
    }
  };
  await Promise.all(scorers.filter(({ asks }) => isAlias(asks.qualifier)).map(find));
  return versions;
}
