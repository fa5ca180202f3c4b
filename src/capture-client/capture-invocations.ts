/**
 * Captures an application's requests to a SageMaker endpoint, and the replies: `captureInvocations(client, { bucket,
 * prefix })`. This is the entry of the package's `capture-client`, which imports no other code of the product.
 */
import { S3Client } from '@aws-sdk/client-s3';
import type { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { Call, endOf } from './call.ts';
import { type CaptureOptions, type CaptureStats, type Settings, settingsOf } from './options.ts';
import { Sender } from './sender.ts';
import { unreferenced } from './sockets.ts';
import { watchFrames, watchStream } from './watch-stream.ts';

export type { CaptureOptions, CaptureStats };

export interface Captures {
  /**
   * Tries once to write all captures of calls that have ended, for at most `limitMs` (default 10,000). Never throws. AWS Lambda stops
   * the process between invocations: call it before the handler returns.
   */
  flush(limitMs?: number): Promise<CaptureStats>;
  stats(): CaptureStats;
}

const COMMANDS = ['InvokeEndpointCommand', 'InvokeEndpointWithResponseStreamCommand'];
/** Errors of calls that may have reached a container: SageMaker captures unstreamed calls of this kind itself. */
const CONTAINER_SAW = ['model', 'stream', 'aborted'];
/** The SDK writes its own warnings to the console, if it has no logger. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
/** On the client, so that a second copy of this module finds the first one's work. */
const CAPTURES = Symbol.for('sagemaker-inference-monitor.captures');

/**
 * Captures the calls of a client from now on. Requests and replies are not changed. A second call has no effect, and
 * returns the captures of the first call.
 *
 * @throws TypeError about an option that is not allowed
 *
 * @example
 *     const captures = captureInvocations(client, { bucket: 'my-captures', prefix: 'app' });
 *     await captures.flush();   // before the process ends
 */
export function captureInvocations(client: SageMakerRuntimeClient, options: CaptureOptions): Captures {
  const watched: SageMakerRuntimeClient & { [CAPTURES]?: Captures } = client;
  if (watched[CAPTURES] !== undefined) return watched[CAPTURES];
  const settings = settingsOf(options);
  const sender = new Sender(s3Of(client, options.s3), settings);
  watch(client, sender, settings);
  Object.defineProperty(client, CAPTURES, { value: sender });
  return sender;
}

function s3Of({ config }: SageMakerRuntimeClient, given: CaptureOptions['s3'] = {}): S3Client {
  if ('send' in given) return given;
  const { region, credentials } = config;
  const defaults = { region, credentials, maxAttempts: 1, requestHandler: unreferenced(), logger: SILENT };
  return new S3Client({ ...defaults, ...given });
}

/** Adds the middlewares. Their errors never reach the application. */
function watch(client: SageMakerRuntimeClient, sender: Sender, settings: Settings): void {
  const calls = new WeakMap<object, Call>();
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const call = sender.quietly(() => begun(args.input, context.commandName ?? '', settings));
      if (call === undefined) return next(args);
      calls.set(context, call);
      try {
        const result = await next(args);
        sender.quietly(() => replied(call, result.output as Output, sender, settings), call);
        return result;
      } catch (error) {
        sender.quietly(() => failed(call, error as SdkError, sender, settings), call);
        throw error;
      }
    },
    { step: 'initialize', priority: 'high', name: 'captureInvocations' },
  );
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const call = calls.get(context);
      // These are values of an earlier attempt.
      if (call !== undefined) {
        Object.assign(call.client, { status: undefined, firstByteMs: undefined });
        calls.set(args.request as object, call);
      }
      const result = await next(args);
      if (call !== undefined) sender.quietly(() => headersCame(call, result.response as HttpReply));
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'captureFirstByte' },
  );
  // No middleware is given the signal.
  const { requestHandler } = client.config;
  const handle = requestHandler.handle.bind(requestHandler);
  requestHandler.handle = (request, options) => {
    const call = calls.get(request);
    if (call !== undefined) call.signal = (options as { abortSignal?: Call['signal'] } | undefined)?.abortSignal;
    return handle(request, options);
  };
}

function begun(input: { EndpointName?: unknown }, command: string, { sampling }: Settings): Call | undefined {
  const isOne = COMMANDS.includes(command) && typeof input.EndpointName === 'string' && Math.random() < sampling;
  return isOne ? new Call({ ...input }, command === COMMANDS[1]) : undefined;
}

type HttpReply = {
  statusCode?: number;
  headers?: Record<string, string>;
  body?: Pick<Call, 'socket'> & Partial<AsyncIterable<Uint8Array>>;
};

/** Records the headers of a reply. With several attempts, the last one counts. */
function headersCame(call: Call, { statusCode, headers = {}, body }: HttpReply): void {
  call.client.firstByteMs = call.now();
  call.client.status = statusCode;
  call.socket = body?.socket;
  if (call.client.streamed && statusCode === 200) watchFrames(body ?? {}, call);
  call.variant = headers['x-amzn-invoked-production-variant'] ?? call.variant;
}

type Output = { Body?: unknown; ContentType?: string };

function replied(call: Call, output: Output, sender: Sender, { calls }: Settings): void {
  const { streamed } = call.client;
  if (!streamed && calls !== 'all') return;
  call.reply.contentType = output.ContentType ?? 'application/octet-stream';
  sender.begin(call);
  if (streamed) {
    watchStream(output.Body as AsyncIterable<object>, call, sender);
    return;
  }
  if (output.Body instanceof Uint8Array) sender.add(call.reply, output.Body);
  sender.end(call, 'whole');
}

type SdkError = Error & { OriginalMessage?: string };

function failed(call: Call, error: SdkError, sender: Sender, { calls }: Settings): void {
  const [ended, told] = endOf(call, error);
  const hasContainerSeen = told === undefined || CONTAINER_SAW.includes(told.kind);
  if (!call.client.streamed && calls !== 'all' && hasContainerSeen) return;
  sender.begin(call);
  const said = Buffer.from(String(error.OriginalMessage ?? error.message));
  if (told?.kind === 'model') sender.add(call.reply, said);
  sender.end(call, ended, told);
}
