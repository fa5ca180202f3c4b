/** Classifying the failures of judge calls. */

import { judgingError } from '../../../src/judge/errors.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { readAwsFailure } from '../../../src/judge/transports/bedrock-failures.ts';
import { readChatFailure } from '../../../src/judge/transports/chat.ts';
import { sageMakerTransport } from '../../../src/judge/transports/sagemaker.ts';
import { askOf } from './captures.ts';

const aws = (name: string, status: number | undefined, message = name, headers: Record<string, string> = {}) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode: status }, $response: { headers } });

describe('errors of the AWS SDK', () => {
  type Case = [name: string, status: number | undefined, message: string, kind: string, feature?: string];
  /** A request that Bedrock refuses as invalid, by what it says. */
  const invalid = (message: string, kind: string, feature?: string): Case => [
    'ValidationException',
    400,
    message,
    kind,
    feature,
  ];
  const cases: Case[] = [
    ['ThrottlingException', 429, 'Too many requests', 'throttled'],
    ['ThrottlingException', 429, 'Too many tokens, please wait before trying again.', 'throttled'],
    ['ThrottlingException', 429, 'Too many tokens per day, please wait before trying again.', 'day'],
    ['ServiceQuotaExceededException', 400, 'Too many requests per day', 'day'],
    ['ServiceQuotaExceededException', 400, 'quota', 'throttled'],
    ['ModelNotReadyException', 429, 'not ready', 'throttled'],
    ['SomethingNewException', 429, 'slow down', 'throttled'],
    ['ServiceUnavailableException', 503, 'x', 'unavailable'],
    ['InternalServerException', 500, 'x', 'unavailable'],
    ['ModelTimeoutException', 408, 'x', 'unavailable'],
    ['ModelErrorException', 424, 'x', 'unavailable'],
    ['SomethingNewException', 401, 'x', 'refused'],
    ['SomethingNewException', 403, 'x', 'refused'],
    ['SyntaxError', 200, "Unexpected token '<'", 'unavailable'],
    ['TimeoutError', undefined, 'Stream timed out', 'unavailable'],
    ['Error', undefined, 'connect ECONNREFUSED', 'unavailable'],
    ['AccessDeniedException', 403, "You don't have access to the model with the specified model ID.", 'refused'],
    ['ResourceNotFoundException', 404, 'This model version has reached the end of its life.', 'refused'],
    ['UnrecognizedClientException', 403, 'The security token included in the request is invalid.', 'refused'],
    ['ExpiredTokenException', 403, 'The security token included in the request is expired', 'expired'],
    invalid('The provided model identifier is invalid.', 'refused'),
    invalid('Invocation of model ID x with on-demand throughput isn’t supported.', 'refused'),
    invalid('Operation not allowed', 'refused'),
    invalid(
      'The guardrail identifier or version provided in the request does not exist: guardrail was not found',
      'refused',
    ),
    invalid('Input is too long for requested model.', 'too-long'),
    invalid('prompt is too long: 210000 tokens > 200000 maximum', 'too-long'),
    invalid(
      'The model returned the following errors: output_config.format: Extra inputs are not permitted',
      'unsupported',
      'json-schema',
    ),
    invalid("This model doesn't support the toolConfig.toolChoice.tool field.", 'unsupported', 'tool'),
    invalid("This model doesn't support tool use.", 'unsupported', 'tool'),
    invalid('Thinking may not be enabled when tool_choice forces tool use.', 'unsupported', 'tool'),
    invalid(
      'The model returned the following errors: `temperature` is deprecated for this model.',
      'unsupported',
      'temperature',
    ),
    invalid("This model doesn't support system messages.", 'unsupported', 'system'),
    invalid('You invoked an unsupported model or your request did not allow prompt caching.', 'unsupported', 'cache'),
    invalid('system.1.cache_control: Extra inputs', 'unsupported', 'cache'),
    invalid('cachePoint is not supported', 'unsupported', 'cache'),
    invalid('The text field in the ContentBlock object is blank.', 'rejected'),
  ];

  test.each(cases)('classifies %s %s %s as %s', (name, status, message, kind, ...[feature]) => {
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
  test.each([
    [429, '{"error":{"code":"rate_limit_exceeded"}}', 'throttled', undefined],
    [429, '{"error":{"code":"insufficient_quota"}}', 'refused', undefined],
    [429, '{"error":{"message":"Rate limit reached for m on tokens per day (TPD): Limit 100000"}}', 'day', undefined],
    [429, '{"error":{"message":"Rate limit reached for m on tokens per minute (TPM)"}}', 'throttled', undefined],
    [401, '{"error":{"message":"Incorrect API key"}}', 'refused', undefined],
    [404, '{"error":{"code":"model_not_found"}}', 'refused', undefined],
    [400, '{"message":"The model `x` does not exist."}', 'refused', undefined],
    [503, 'upstream', 'unavailable', undefined],
    [400, "This model's maximum context length is 8192 tokens.", 'too-long', undefined],
    [413, 'Payload Too Large', 'too-long', undefined],
    [
      400,
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      'unsupported',
      'max-tokens-name',
    ],
    [400, "Unsupported value: 'temperature' does not support 0 with this model.", 'unsupported', 'temperature'],
    [400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported", 'unsupported', 'json-schema'],
    [400, '"auto" tool choice requires --enable-auto-tool-choice', 'unsupported', 'tool'],
    [400, 'System role not supported', 'unsupported', 'system'],
    [422, 'Unprocessable', 'rejected', undefined],
  ])('classifies %s %s as %s', (status, text, kind, feature) => {
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
