/** What an application in Node or its surroundings can do to the capture client, and once did. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type InvokeEndpointWithResponseStreamCommandInput as Input,
  InvokeEndpointCommand,
  InvokeEndpointWithResponseStreamCommand,
  SageMakerRuntimeClient,
} from '@aws-sdk/client-sagemaker-runtime';
import { type Context, type ContextManager, context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { payloadPart, StandInEndpoint } from '../../local/stand-in-endpoint/server.ts';
import { type CaptureOptions, captureInvocations } from '../../src/capture-client/capture-invocations.ts';
import { captureSurroundings, clientsIn, REFUSED } from '../helpers/capture-surroundings.ts';
import { runHere } from '../helpers/command-here.ts';
import { serve } from '../helpers/serve.ts';

const here = captureSurroundings();

function start(options: Partial<CaptureOptions> = {}, url = here.endpoint.url) {
  const place = { region: 'eu-west-1', credentials: { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' } };
  const client = new SageMakerRuntimeClient({ ...place, endpoint: url });
  const wire = { ...place, endpoint: here.s3.url, forcePathStyle: true };
  const captures = captureInvocations(client, { bucket: 'captures', batchMs: 60_000, s3: wire, ...options });
  const ask = async (more: Partial<Input> = {}, abortSignal?: AbortSignal) => {
    const input = { EndpointName: 'e', Body: Buffer.from('{"inputs":"a"}'), ContentType: 'application/json', ...more };
    const { Body } = await client.send(new InvokeEndpointWithResponseStreamCommand(input), { abortSignal });
    return Body ?? [];
  };
  return { captures, ask, client };
}
async function readAll(stream: AsyncIterable<unknown> | unknown[]): Promise<void> {
  for await (const _ of stream);
}

test('a stream that the application aborts was left, and is no error of the endpoint; one that the server cuts is', async () => {
  const { captures, ask } = start();
  const stop = new AbortController();
  const read = async () => {
    for await (const _ of await ask({}, stop.signal)) stop.abort();
  };
  await expect(read()).rejects.toThrow('aborted');
  const cut = async () => {
    for await (const _ of await ask()) await here.endpoint.close();
  };
  await expect(cut()).rejects.toThrow('aborted');
  await captures.flush();
  expect(clientsIn(here.s3)[0]).toMatchObject({ ended: 'left', status: 200 });
  expect(clientsIn(here.s3)[0]).not.toHaveProperty('error');
  expect(clientsIn(here.s3)[1]).toMatchObject({ ended: 'broke', error: { kind: 'stream', class: 'ECONNRESET' } });
});

/** On a busy machine, the reply has begun by then. */
const ABORT_MS = 2_000;
/** How an application aborts: after a time, by a reason of its own, or by leaving. */
const SIGNALS = {
  timeout: () => AbortSignal.timeout(ABORT_MS),
  'a time-out among others': () => AbortSignal.any([new AbortController().signal, AbortSignal.timeout(ABORT_MS)]),
  abort: () => abortedBy(undefined),
  'an error': () => abortedBy(new Error('enough')),
  'a word': () => abortedBy('enough'),
};
function abortedBy(reason: unknown): AbortSignal {
  const stop = new AbortController();
  setTimeout(() => stop.abort(reason), ABORT_MS);
  return stop.signal;
}

test.each(Object.entries(SIGNALS))(
  'a call that %s ends: by its reason it is a time-out, or the user left',
  async (name, signal) => {
    const hanging = await serve(({ url, headers }, response) => {
      if (headers['x-amzn-sagemaker-inference-id'] === 'before') return;
      response
        .writeHead(200, { 'content-length': 1000 })
        .write(/stream/.test(url ?? '') ? payloadPart(Buffer.from('a')) : 'a');
    });
    const { captures, ask, client } = start({ calls: 'all' }, hanging.url);
    const whole = new InvokeEndpointCommand({ EndpointName: 'e', Body: '{}', InferenceId: 'within' });
    const calls = [
      ask({ InferenceId: 'before' }, signal()),
      ask({ InferenceId: 'within' }, signal()).then(readAll),
      client.send(whole, { abortSignal: signal() }),
    ];
    for (const { status } of await Promise.allSettled(calls)) expect(status).toBe('rejected');
    await captures.flush();
    await hanging.close();
    const ends = clientsIn(here.s3).map(({ ended, error }) => [ended, error]);
    const broke = ['broke', { kind: 'stream', class: 'TimeoutError' }];
    const [timedOut, left] = [
      ['failed', { kind: 'timeout', class: 'TimeoutError' }],
      ['left', undefined],
    ];
    const aborted = ['failed', { kind: 'aborted', class: 'AbortError' }];
    expect(ends.toSorted()).toEqual(/time/.test(name) ? [broke, broke, timedOut] : [aborted, left, left]);
  },
);

test('a call that cannot be written costs its own capture alone', async () => {
  const { captures, ask } = start();
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  await readAll(await ask({ InferenceId: 5n as unknown as string }));
  await readAll(await ask());
  expect(await captures.flush()).toMatchObject({ open: 0, waiting: 0, written: 1, dropped: 1 });
});

test('times without an end are no times of a millisecond', async () => {
  const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { captures, ask } = start({ batchMs: Number.POSITIVE_INFINITY });
  await readAll(await ask());
  expect(await captures.flush(Number.POSITIVE_INFINITY)).toMatchObject({ written: 1 });
  expect(warned).not.toHaveBeenCalled();
});

test('a bucket that refuses writes nothing to the application’s console but one warning', async () => {
  here.s3.fault = () => ({ kind: 'error', status: 403, code: 'AccessDenied' });
  const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const printed = jest.spyOn(console, 'warn').mockImplementation(() => {});
  const { captures, ask } = start();
  await readAll(await ask());
  await captures.flush();
  expect(await captures.flush()).toMatchObject({ waiting: 1 });
  expect(warned).toHaveBeenCalledTimes(1);
  expect(printed).not.toHaveBeenCalled();
});

test('a reply that another middleware has frozen is dropped once, and is not open', async () => {
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { captures, ask, client } = start();
  const freeze = (next: (args: never) => Promise<object>) => async (args: never) => {
    const result = (await next(args)) as { output: { Body: object } };
    Object.freeze(result.output.Body);
    return result;
  };
  client.middlewareStack.add(freeze as never, { step: 'deserialize', priority: 'high' });
  await readAll(await ask());
  expect(await captures.flush()).toMatchObject({ open: 0, waiting: 0, written: 0, dropped: 1 });
});

test('the active span of OpenTelemetry is in the line, and an API that fails costs nothing', async () => {
  const contexts = new AsyncLocalStorage<Context>();
  const active = (): Context => contexts.getStore() ?? ROOT_CONTEXT;
  const within = (given: Context, work: () => unknown) => contexts.run(given, work);
  const manager = { active, with: within, bind: (_: Context, work: unknown) => work } as unknown as ContextManager;
  context.setGlobalContextManager(Object.assign(manager, { enable: () => manager, disable: () => manager }));
  const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const span = trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({ traceId, spanId, traceFlags: 1 }));
  const { captures, ask } = start();
  const call = async () => readAll(await ask());
  await context.with(span, call);
  await call();
  manager.active = () => JSON.parse('no context');
  await call();
  context.disable();
  expect(await captures.flush()).toMatchObject({ written: 3, dropped: 0 });
  const found = clientsIn(here.s3).map(({ traceparent }) => traceparent);
  expect(found).toEqual([`00-${traceId}-${spanId}-01`, undefined, undefined]);
});

test('a request that names no endpoint is no call', async () => {
  const { captures, ask } = start();
  await expect(ask({ EndpointName: undefined })).rejects.toThrow('EndpointName');
  expect(await captures.flush()).toMatchObject({ written: 0, dropped: 0 });
});

test('what was refused for one endpoint is written once it is allowed', async () => {
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  here.s3.fault = ({ key }) => (key.startsWith('e/') ? REFUSED : undefined);
  const { captures, ask } = start();
  for (const EndpointName of ['e', 'e', 'f']) await readAll(await ask({ EndpointName }));
  await captures.flush();
  here.s3.fault = () => undefined;
  expect(await captures.flush()).toMatchObject({ waiting: 0, written: 3, dropped: 0 });
});

const FIRST_MS = 800;
const ROLE = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] })}\n\n`;
const FRAMES = {
  'content-type': 'application/vnd.amazon.eventstream',
  'x-amzn-sagemaker-content-type': 'text/event-stream',
};

/** Sends a comment and the role at once, and all words later. */
class LateEndpoint extends StandInEndpoint {
  #streams = 0;

  protected override async stream(
    events: readonly string[],
    response: ServerResponse,
    framed: boolean,
    end: () => void,
  ) {
    const write = (event: string) => response.write(framed ? payloadPart(Buffer.from(event)) : event);
    response.writeHead(200, framed ? FRAMES : { 'content-type': 'text/event-stream' });
    for (const event of [': keep-alive\n\n', ROLE]) write(event);
    await wait(FIRST_MS + 10 * (this.#streams++ % 10));
    for (const event of events) write(event);
    end();
  }
}

test('the first tokens of 100 streams, captured and replayed, have medians that agree', async () => {
  const late = new LateEndpoint({ latencyMs: 0 });
  await late.listen();
  try {
    const { captures, ask } = start({}, late.url);
    const Body = JSON.stringify({ messages: [{ role: 'user', content: 'Do ferns flower?' }], stream: true });
    // Few at once: on a busy machine, the SDK's own time would be measured.
    const one = async () => readAll(await ask({ Body: Buffer.from(Body) }));
    for (let n = 0; n < 25; n++) await Promise.all([one(), one(), one(), one()]);
    await captures.flush();
    const lines = here.s3.keys('captures').flatMap((key) => here.s3.lines('captures', key));
    const [file, out] = ['captures.jsonl', 'out'].map((name) => join(here.folder, name)) as [string, string];
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const ran = await runHere(['replay', file, '--url', late.url, '--quiet', '--no-report', '-o', out]);
    const figures = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8'));
    const { captured_time_to_first_token: captured, time_to_first_token: replayed } = figures;
    expect([ran.code, captured.count, replayed.count]).toEqual([0, 100, 100]);
    expect(captured.p50).toBeGreaterThanOrEqual(FIRST_MS);
    expect(Math.abs(captured.p50 / replayed.p50 - 1)).toBeLessThanOrEqual(0.05);
  } finally {
    await late.close();
  }
});
