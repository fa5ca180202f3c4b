/** Classifying the failures of judge calls. */

import { judgingError } from '../../../src/judge/errors.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { readAwsFailure } from '../../../src/judge/transports/bedrock-failures.ts';
import { readChatFailure } from '../../../src/judge/transports/chat.ts';
import { sageMakerTransport } from '../../../src/judge/transports/sagemaker.ts';
import { askOf } from './captures.ts';
import TABLE from './failures.json' with { type: 'json' };

const aws = (name: string, status: number | undefined, message = name, headers: Record<string, string> = {}) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode: status }, $response: { headers } });

describe('errors of the AWS SDK', () => {
  test.each(TABLE.aws)('classifies $name $status $message as $kind', ({ name, status, message, kind, feature }) => {
    const failure = readAwsFailure(aws(name, status, message));
    expect([failure.kind, failure.feature]).toEqual([kind, feature]);
    expect(failure.message).toBe(status === undefined ? name : `${name}: HTTP ${status}`);
  });

  test('reads Retry-After, and gives precedence to an aborted signal', () => {
    expect(readAwsFailure(aws('ThrottlingException', 429, 'x', { 'retry-after': '3' })).retryAfterMs).toBe(3000);
    expect(readAwsFailure(aws('AbortError', undefined), AbortSignal.abort()).kind).toBe('aborted');
  });
});

test('a denial by a service control policy names the policy, and which profiles it may allow', () => {
  const policy = 'arn:aws:organizations::111122223333:policy/o-abc/service_control_policy/p-1234';
  const denied = (words: string) =>
    judgingError(
      readAwsFailure(
        aws(
          'AccessDeniedException',
          403,
          `User: arn:aws:sts::111122223333:assumed-role/r/s is not authorized to perform: bedrock:InvokeModel on resource: arn:aws:bedrock:::foundation-model/m with an explicit deny in ${words}`,
        ),
      ),
      'bedrock:/global.m',
    );
  expect(denied(`a service control policy: ${policy}`)).toMatchObject({
    name: 'JudgeRefused',
    message: expect.stringMatching(
      new RegExp(
        `denied bedrock:InvokeModel on arn:aws:bedrock:::foundation-model/m by a service control policy: ${policy}; expected: a BEDROCK_MODEL_ID whose regions .*us\\. or eu\\..*"unspecified"`,
      ),
    ),
  });
  expect(denied('an identity-based policy').message).not.toContain('expected:');
});

describe('errors of a chat completion server', () => {
  test.each(TABLE.chat)('classifies $status $text as $kind', ({ status, text, kind, feature }) => {
    const failure = readChatFailure(status, text, undefined);
    expect([failure.kind, failure.feature]).toEqual([kind, feature]);
  });
});

describe('errors of a SageMaker endpoint', () => {
  const failureOf = (error: object, signal?: AbortSignal) => {
    const client = { send: () => Promise.reject(Object.assign(new Error('whole message'), error)) };
    return sageMakerTransport('judge', readParameters(), client as never).send(askOf(), signal);
  };

  test.each([
    [404, 'no such route', 'refused', /^The container of the endpoint answered HTTP 404/],
    [429, 'slow down', 'throttled', /^The container of the endpoint answered HTTP 429/],
    [500, undefined, 'unavailable', /^The container of the endpoint answered HTTP 500/],
  ])('an answer %i of the container decides the kind', async (status, text, kind, message) => {
    const error = { name: 'ModelError', OriginalStatusCode: status, OriginalMessage: text };
    await expect(failureOf(error)).rejects.toMatchObject({ kind, message: expect.stringMatching(message), status });
  });

  test('without an answer of the container, the SDK’s error decides', async () => {
    const failed = { name: 'ModelError', $metadata: { httpStatusCode: 424 } };
    await expect(failureOf(failed)).rejects.toMatchObject({ kind: 'unavailable', status: 424 });
    const stopped = failureOf({ name: 'ModelError', OriginalStatusCode: 404 }, AbortSignal.abort());
    await expect(stopped).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('a missing endpoint is refused, another invalid request is rejected', async () => {
    const invalid = (message: string) =>
      failureOf({ name: 'ValidationError', message, $metadata: { httpStatusCode: 400 } });
    await expect(invalid('Endpoint judge of account 1 not found.')).rejects.toMatchObject({ kind: 'refused' });
    await expect(invalid('Body is empty.')).rejects.toMatchObject({ kind: 'rejected' });
  });
});
