/** InvokeEndpoint and InvokeEndpointWithResponseStream on the wire, with signatures checked by an independent implementation. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  InvokeEndpointCommand,
  InvokeEndpointWithResponseStreamCommand,
  SageMakerRuntimeClient,
} from '@aws-sdk/client-sagemaker-runtime';
import { resultPage } from '../../bin/commands/replay-text.ts';
import { pageText } from '../../src/core/text/page.ts';
import { openFollowUps } from '../../src/replay/follow-ups.ts';
import { sageMakerTarget } from '../../src/replay/targets/sagemaker-target.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { signedBy } from '../doubles/sigv4-verifier.ts';
import { captureLine, chatBody, chatLine, ReplayFolder, replay, runCli } from '../helpers/replay.ts';

const KEY = { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' };

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let out: string;

beforeEach(async () => {
  folder = new ReplayFolder();
  out = join(folder.path, 'out');
  endpoint = await startStandInEndpoint({ latencyMs: 20, words: 6, refuses: signedBy(KEY), record: true });
});
afterEach(() => endpoint.close());

const AT = { endpoint: 'my-endpoint-v2', region: 'eu-west-1' };
const target = (more: object = {}): ReturnType<typeof sageMakerTarget> =>
  sageMakerTarget({ ...AT, credentials: async () => KEY, url: endpoint.url, ...more });

test('the AWS SDK accepts the stand-in as SageMaker', async () => {
  const given = { endpoint: endpoint.url, region: 'eu-west-1', maxAttempts: 1 };
  const client = new SageMakerRuntimeClient({ ...given, credentials: KEY });
  const Body = Buffer.from(chatBody('hello'));
  const asked = { EndpointName: 'e', Body, ContentType: 'application/json' };
  const reply = await client.send(new InvokeEndpointCommand(asked));
  expect(JSON.parse(Buffer.from(reply.Body ?? []).toString())).toMatchObject({ object: 'chat.completion' });
  const stream = await client.send(new InvokeEndpointWithResponseStreamCommand(asked));
  let text = '';
  for await (const { PayloadPart } of stream.Body ?? []) text += Buffer.from(PayloadPart?.Bytes ?? []).toString();
  expect(text).toContain('data: [DONE]');
  const wrong = new SageMakerRuntimeClient({ ...given, credentials: { ...KEY, secretAccessKey: 'b' } });
  await expect(wrong.send(new InvokeEndpointCommand({ EndpointName: 'e', Body }))).rejects.toMatchObject({
    $metadata: { httpStatusCode: 403 },
  });
  client.destroy();
  wrong.destroy();
});

test('sends path, signature, variant, component, inference id and custom attributes', async () => {
  const body = '{ "messages": [],  "n": 1.0 }';
  const file = folder.write('a.jsonl', [
    captureLine('event-1', 0, { data: body }, undefined, { inferenceId: 'order-5512' }),
    captureLine('event 2 ü', 0, { data: '1,2\n', encoding: 'CSV', contentType: 'text/csv' }),
  ]);
  const to = await target({ variant: 'B', inferenceComponent: 'c1' });
  const { records } = await replay(file, to, out, {}, { run: 'run-7' });
  expect(records.map(({ error }) => error)).toEqual([undefined, undefined]);
  expect(endpoint.requests.map(({ method, url }) => `${method} ${url}`)).toEqual(
    Array(2).fill('POST /endpoints/my-endpoint-v2/invocations'),
  );
  const sent = new Map(endpoint.requests.map((request) => [request.headers['content-type'], request]));
  expect(sent.get('application/json')?.body.toString()).toBe(body);
  expect(sent.get('text/csv')?.headers).toMatchObject({
    'x-amzn-sagemaker-custom-attributes': 'replay_run=run-7;event_id=event 2 ?',
  });
  const headers = sent.get('application/json')?.headers;
  expect(headers).toMatchObject({
    'x-amzn-sagemaker-target-variant': 'B',
    'x-amzn-sagemaker-inference-component': 'c1',
    'x-amzn-sagemaker-custom-attributes': 'replay_run=run-7;event_id=event-1',
    authorization: expect.stringMatching(/Credential=AKIDTEST\/\d{8}\/eu-west-1\/sagemaker\/aws4_request/),
  });
  expect(headers?.['x-amzn-sagemaker-inference-id']).toMatch(/^replay-[0-9a-f]{32}$/);
  // Headers that SageMaker would remove are not sent.
  expect(headers?.['x-request-id']).toBeUndefined();
  const record = records.find(({ metadata }) => metadata.event_id === 'event-1');
  expect(record?.metadata).toMatchObject({
    inference_id: headers?.['x-amzn-sagemaker-inference-id'],
    captured_inference_id: 'order-5512',
  });
});

test('sends a streaming request to the streaming operation and measures it piece by piece', async () => {
  const file = folder.write('a.jsonl', [
    chatLine('s', 0, 'hello', 'x', { stream: true, stream_options: { include_usage: true } }),
    chatLine('w', 0, 'hello'),
  ]);
  const { records } = await replay(file, await target(), out);
  expect(endpoint.requests.map(({ url }) => url).sort()).toEqual([
    '/endpoints/my-endpoint-v2/invocations',
    '/endpoints/my-endpoint-v2/invocations-response-stream',
  ]);
  const [stream, whole] = ['s', 'w'].map((id) => records.find(({ metadata }) => metadata.event_id === id));
  expect(stream?.error).toBeUndefined();
  expect(stream?.metrics).toMatchObject({
    output_sequence_length: { value: 6 },
    inter_chunk_latency: { value: expect.any(Array) },
  });
  expect(stream?.metrics.time_to_first_token?.value).toBeLessThan(stream?.metrics.request_latency?.value ?? 0);
  expect(whole?.metrics.time_to_first_token).toBeUndefined();
});

test('reports service errors, a broken stream and a wrong key, and sends each request once', async () => {
  const file = folder.write('a.jsonl', [
    chatLine('throttled', 0, '[[status 429]]'),
    chatLine('failed', 0, '[[status 500]]'),
    chatLine('broken', 0, '[[cut stream]]', 'x', { stream: true }),
  ]);
  const { records } = await replay(file, await target(), out);
  const errors = Object.fromEntries(
    records.map(({ metadata, error }) => [metadata.event_id, [error?.code, error?.type]]),
  );
  expect(errors).toEqual({
    ...{ throttled: [429, 'ThrottlingException'], failed: [500, 'ModelError'] },
    broken: [undefined, 'ModelStreamError'],
  });
  expect(endpoint.arrivals.count).toBe(3);

  const wrong = await target({ credentials: async () => ({ ...KEY, secretAccessKey: 'another' }) });
  const refused = await replay(file, wrong, join(folder.path, 'out2'));
  expect(refused.records.map(({ error }) => [error?.code, error?.type])).toEqual(
    Array(3).fill([403, 'InvalidSignatureException']),
  );
  expect(endpoint.arrivals.count).toBe(6);
});

test.each(['', 'has space', '-x', 'a'.repeat(64), `a${'-'.repeat(62)}b`, '../../other', 'a\r\nx: y'])(
  'rejects %j as the name of an endpoint, a variant or an inference component',
  async (name) => {
    for (const option of ['endpoint', 'variant', 'inferenceComponent']) {
      await expect(target({ [option]: name })).rejects.toMatchObject({ name: 'InvalidTarget' });
    }
  },
);

test('signs a request again that waits longer than its signature is valid', async () => {
  const strict = await startStandInEndpoint({ latencyMs: 1_500, refuses: signedBy(KEY, 7_000), record: true });
  try {
    const file = folder.chats(
      8,
      () => 0,
      (i) => `[#${i}] hello`,
    );
    // All eight are signed at the same time; the last is sent more than ten seconds later.
    const own = await target({ url: strict.url, goodForMs: 400 });
    const { records } = await replay(file, own, out, { concurrency: 1 });
    expect(records.map(({ error }) => error?.message)).toEqual(records.map(() => undefined));
    expect(strict.requests).toHaveLength(8);
    expect(new Set(strict.requests.map(({ body }) => body.toString())).size).toBe(8);
  } finally {
    await strict.close();
  }
});

test('ends gracefully when the credentials expire: writes the results and reports the unsent requests', async () => {
  const file = folder.chats(
    8,
    (i) => i,
    (i) => `[#${i}] hello`,
  );
  let signed = 0;
  const credentials = async (): Promise<typeof KEY> => {
    if (++signed > 5) throw new Error('the session has expired');
    return KEY;
  };
  const options = { speedup: 10 };
  const expiring = await target({ credentials });
  const result = await replay(file, expiring, out, options);
  const { records, incomplete, unsent } = result;
  expect(records).toHaveLength(5);
  expect(unsent).toBe(3);
  expect(incomplete).toBe('Error: the session has expired; 3 requests unsent');
  const summary = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8'));
  const told = { is_complete: false, was_cancelled: false, incomplete_reason: incomplete };
  expect(summary).toMatchObject({ ...told, request_count: { avg: 5 } });
  const { description } = expiring;
  const files = { directory: out, report: true, compare: false };
  const followUps = await openFollowUps({ ...files, run: 'test-run', target: description });
  const followed = await followUps.finish(result, true, new AbortController().signal);
  const said = `A part of the schedule was not sent: ${incomplete}.`;
  expect(readFileSync(join(out, 'report.html'), 'utf8')).toContain(`<p class="warn">${said}</p>`);
  const text = pageText(resultPage(result, followed, { directory: out, experiment: '' }));
  expect(text).toContain(said);
  const none = target({
    credentials: async () => {
      throw new Error('no credentials at all');
    },
  });
  await expect(replay(file, await none, join(folder.path, 'none'))).rejects.toThrow('no credentials at all');
});

test('ends immediately if the warm-up cannot be signed', async () => {
  const file = folder.write('a.jsonl', [chatLine('e', 0, 'hello')]);
  const args = ['replay', file, '--endpoint', 'e', '--region', 'eu-west-1', '--warmup', '1', '--quiet', '-o', out];
  // No credentials, and no metadata service to request them from.
  const env = {
    ...{ AWS_ENDPOINT_URL: endpoint.url, AWS_EC2_METADATA_DISABLED: 'true', HOME: folder.path },
    ...{ AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', AWS_PROFILE: 'none' },
  };
  expect(await runCli(args, env)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('AWS credentials are missing'),
  });
  expect(endpoint.requests).toHaveLength(0);
});
