/**
 * What other programs say can quote captured content. Of their failures, logs, errors that leave a function, and receipts have names,
 * codes, statuses and ids alone. The tests plant a marked text wherever another program can put one, and search what comes out.
 */
import { inspect } from 'node:util';
import { S3ServiceException } from '@aws-sdk/client-s3';
import { namedStorageError } from '../../../src/core/aws/storage-errors.ts';
import {
  bareError,
  PermanentError,
  RetryableError,
  saidBy,
  shownOf,
  toNamedError,
  Words,
  wordsIn,
} from '../../../src/core/errors/errors.ts';
import { logged, logger } from '../../../src/core/process/logging.ts';
import { judgingError } from '../../../src/judge/errors.ts';
import { readAwsFailure } from '../../../src/judge/transports/bedrock-failures.ts';
import { readChatFailure } from '../../../src/judge/transports/chat.ts';
import { createMlflowClient } from '../../../src/mlflow/client.ts';
import { withReceipt } from '../../../src/monitoring/receipts.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { startScriptedMlflow } from '../../doubles/scripted-mlflow.ts';

const MARK = 'Qz7Mark my number is 078-05-1120';
const MARKED = /qz7|078-05|1120/i;

/** An exception of the AWS SDK with a mark in each field. */
function awsError(name: string, status: number, message = MARK): Error {
  const $metadata = { httpStatusCode: status, requestId: MARK };
  const fields = { message, [MARK]: MARK, $metadata, $responseBodyText: MARK };
  return Object.assign(new Error(message), fields, { name });
}

let written = '';
beforeEach(() => {
  written = '';
  for (const stream of [process.stdout, process.stderr]) {
    jest.spyOn(stream, 'write').mockImplementation((text: unknown) => {
      written += String(text);
      return true;
    });
  }
});
afterEach(() => jest.restoreAllMocks());

/** Returns all that is logged and thrown when a function fails so. */
async function toldOf(error: unknown): Promise<string> {
  const context = { awsRequestId: 'r', functionName: 'f', memoryLimitInMB: '1', invokedFunctionArn: 'a' };
  if (error instanceof Error) logger.warn('a warning', error);
  const end = await logged('prod', () => Promise.reject(error))({}, context as never).catch(
    (thrown: unknown) => thrown,
  );
  return [
    written,
    inspect(end, { depth: 9, showHidden: true }),
    JSON.stringify(toNamedError(error)),
    saidBy(error),
  ].join('\n');
}

const circular = new PermanentError('InvalidInput', 'x');
circular.cause = new Error(MARK, { cause: circular });

const FAILURES: Record<string, () => unknown> = {
  'an exception': () => Object.assign(new TypeError(MARK), { body: MARK, code: MARK }),
  'an exception with a marked name': () => Object.assign(new Error(MARK), { name: MARK }),
  'a text': () => MARK,
  'no error at all': () => undefined,
  'the words themselves': () => new Words(MARK),
  'a cause of a named error': () => new RetryableError('JudgeThrottled', 'throttled', {}, new Error(MARK)),
  'a cause of a cause': () => new Error('x', { cause: new Error('y', { cause: new SyntaxError(MARK) }) }),
  'a circle of causes': () => circular,
  'a message with lines like those of a stack': () => new Error(`x\n    at ${MARK}\n    at home (a.ts:1:1)`),
  S3: () =>
    namedStorageError(Object.assign(Object.create(S3ServiceException.prototype), awsError(MARK, 400)), 's3://b/k'),
  Bedrock: () => judgingError(readAwsFailure(awsError('ValidationException', 400)), 'bedrock:/m'),
  'a judge behind a URL': () =>
    judgingError(readChatFailure(400, `{"error":{"code":"${MARK}","message":"${MARK}"}}`, undefined), 'openai:/m'),
  'a denied call': () =>
    judgingError(
      readAwsFailure(awsError('AccessDeniedException', 403, `${MARK} is not authorized to perform: ${MARK}`)),
      'm',
    ),
};

test.each(Object.keys(FAILURES))('%s is not quoted', async (which) => {
  expect(await toldOf(FAILURES[which]?.())).not.toMatch(MARKED);
});

test.each([200, 302, 400, 401, 404, 413, 429, 500])(
  'a reply of MLflow with status %d is not quoted',
  async (status) => {
    const server = await startScriptedMlflow();
    const store = createMlflowClient({ trackingUri: server.url, retry: { attempts: 1, baseMs: 1, capMs: 1 } });
    try {
      for (const body of [
        MARK,
        `<html>${MARK}</html>`,
        JSON.stringify({ error_code: MARK, message: MARK, experiment: { [MARK]: MARK } }),
      ]) {
        const location = `https://login.example/${MARK}`;
        const headers = { 'x-amzn-errortype': MARK, 'x-amzn-requestid': MARK, location };
        server.fault(() => ({ kind: 'reply', status, headers, body }));
        const error = await store.getExperiment('7').catch((failure: unknown) => failure);
        expect(error).toBeInstanceOf(Error);
        expect(await toldOf(error)).not.toMatch(MARKED);
      }
    } finally {
      store.close();
      await server.stop();
    }
  },
);

test('a log and a receipt have the name, the code, the status and the id, and of a denied call the action and the resource', () => {
  const id = '0a1b2c3d-0000-4000-8000-000000000000';
  const resource = 'arn:aws:bedrock:eu-west-1::foundation-model/m';
  const text = `User: ${MARK} is not authorized to perform: bedrock:InvokeModel on resource: ${resource} because ${MARK}`;
  const error = Object.assign(awsError('AccessDeniedException', 403, text), {
    $metadata: { httpStatusCode: 403, requestId: id },
  });
  const message = `HTTP 403, request ${id}, denied bedrock:InvokeModel on ${resource}`;
  expect(toNamedError(error)).toEqual({ name: 'AccessDeniedException', message });
  expect(saidBy(Object.assign(new Error(MARK), { code: 'ECONNREFUSED' }))).toBe('Error: ECONNREFUSED');
  expect(shownOf({ status: 400, code: 'INVALID_PARAMETER_VALUE', requestId: MARK, text: MARK })).toBe(
    'HTTP 400, INVALID_PARAMETER_VALUE',
  );
  expect(bareError(new PermanentError('InvalidInput', 'ours', { got: 7 })).message).toBe('ours; got: 7');
});

test('the other program’s message is kept in an object next to the receipt, and in no other', async () => {
  const storage = new MemoryStorage();
  const error = new RetryableError('MlflowUnavailable', 'failed', {}, new Error('wrapped', { cause: new Words(MARK) }));
  const names = { run: 'r', chunk: 0, step: 'log', attempt: 1, requestId: 'id' };
  const receipt = (failure: unknown) => ({ ...names, error: toNamedError(failure) }) as never;
  await expect(
    withReceipt(
      { storage: storage.storage, environment: { WORK_BUCKET: 'w' } as never },
      { run: () => Promise.reject(error), receipt },
    ),
  ).rejects.toBe(error);
  const [kept, ...others] = [...storage.objects].filter(([, bytes]) => MARKED.test(bytes.toString()));
  expect([kept?.[0], JSON.parse(String(kept?.[1])), others]).toEqual([
    'runs/r/words/00000000/log-001-id.json',
    { words: wordsIn(error) },
    [],
  ]);
  expect(wordsIn(error)).toEqual(['Error: wrapped', MARK]);
  expect([...storage.objects.keys()]).toContain('runs/r/receipts/00000000/log-001-id.json');
});
