/**
 * Captures what an application asks a SageMaker endpoint, and what it gets: `captureInvocations(client, {bucket, prefix})`.
 * The entry of its own, `sagemaker-inference-monitor/capture-client`. It imports nothing of the product.
 */
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { Call } from './call.ts';
import { errorOf } from './error.ts';
import { type CaptureStats, Sender } from './sender.ts';
import { unreferenced } from './sockets.ts';
import { watchStream } from './watch-stream.ts';

export type { CaptureStats };

export interface CaptureOptions {
  /** The bucket that the monitor's stack watches. */
  bucket: string;
  /** The prefix above the endpoints' names, as in Data Capture's `DestinationS3Uri`. Default: none. */
  prefix?: string;
  /** `streams` (default): streams, and calls that reached no container. `all`: for endpoints without Data Capture. */
  calls?: 'streams' | 'all';
  /** The share of the calls that is captured, over 0 and at most 1. Default 1. */
  sampling?: number;
  /**
   * The client for the bucket, or its settings. Default: the region and credentials of the SageMaker client. The sockets of a client
   * that is passed are its own: while one of them writes, it keeps the process alive.
   */
  s3?: S3Client | S3ClientConfig;
  /** A longer request or reply is captured without its content. Default 1 MB. */
  maxBodyBytes?: number;
  /** Bound on all captures in memory, those of open streams too. Default 32 MB. */
  memoryBytes?: number;
  /** An object is written when so many bytes wait, or … Default 1 MB. */
  batchBytes?: number;
  /** … after so many milliseconds. Default 5,000. */
  batchMs?: number;
  /** A folder for what cannot be written to S3. Default: none, and such captures stay in memory until they are over its bound. */
  spoolFolder?: string;
  /** Bound on the folder. Default 256 MB. */
  spoolBytes?: number;
}

export interface Captures {
  /**
   * Tries once to write all captures of calls that have ended, for at most `limitMs` (default 10,000). Never throws. AWS Lambda stops
   * the process between invocations: call it before the handler returns.
   */
  flush(limitMs?: number): Promise<CaptureStats>;
  stats(): CaptureStats;
}

const MB = 1_000_000;
const FLUSH_MS = 10_000;
const COMMANDS = ['InvokeEndpointCommand', 'InvokeEndpointWithResponseStreamCommand'];
/** Errors of calls that a container may have seen: SageMaker captures the unstreamed ones. */
const CONTAINER_SAW = ['model', 'stream', 'aborted'];
/** On the client, so that a second copy of this module finds the first one's work. */
const CAPTURES = Symbol.for('sagemaker-inference-monitor.captures');

type Watched = SageMakerRuntimeClient & { [CAPTURES]?: Captures };

/**
 * Captures the calls of a client from now on. Requests and replies stay what they are. A second call changes nothing, and returns the
 * captures of the first.
 *
 * @throws TypeError about an option that is not allowed
 */
export function captureInvocations(client: SageMakerRuntimeClient, options: CaptureOptions): Captures {
  const watched: Watched = client;
  if (watched[CAPTURES] !== undefined) return watched[CAPTURES];
  const settings = settingsOf(options);
  const sender = new Sender(s3Of(client, options.s3), settings);
  watch(client, sender, settings);
  const stats = (): CaptureStats => sender.stats();
  const captures: Captures = {
    stats,
    flush: async (limitMs = FLUSH_MS) => {
      await sender.flush(limitMs);
      return stats();
    },
  };
  Object.defineProperty(client, CAPTURES, { value: captures });
  return captures;
}

type Settings = ReturnType<typeof settingsOf>;

function settingsOf(options: CaptureOptions) {
  const { bucket, prefix = '', calls = 'streams', sampling = 1, spoolFolder } = options;
  const refuse = (name: string, got: unknown, expected: string): never => {
    throw new TypeError(`captureInvocations: ${name} is not allowed; got: ${String(got)}; expected: ${expected}`);
  };
  if (typeof bucket !== 'string' || bucket === '' || bucket.includes('/'))
    refuse('bucket', bucket, 'the name of a bucket');
  if (calls !== 'streams' && calls !== 'all') refuse('calls', calls, 'streams or all');
  if (!(sampling > 0 && sampling <= 1)) refuse('sampling', sampling, 'a number over 0, at most 1');
  const numbers = { maxBodyBytes: MB, memoryBytes: 32 * MB, batchBytes: MB, batchMs: 5_000, spoolBytes: 256 * MB };
  for (const name of Object.keys(numbers) as (keyof typeof numbers)[]) {
    const value = options[name] ?? numbers[name];
    if (!(Number.isSafeInteger(value) && value > 0)) refuse(name, value, 'a whole number over 0');
    numbers[name] = value;
  }
  return { bucket, prefix: prefix.replace(/^\/+|\/+$/g, ''), calls, sampling, spoolFolder, ...numbers };
}

function s3Of({ config }: SageMakerRuntimeClient, given: CaptureOptions['s3'] = {}): S3Client {
  if ('send' in given) return given as S3Client;
  const { region, credentials } = config;
  return new S3Client({ region, credentials, maxAttempts: 1, requestHandler: unreferenced(), ...given });
}

/** Adds the two middlewares. Nothing that goes wrong in them reaches the application. */
function watch(client: SageMakerRuntimeClient, sender: Sender, settings: Settings): void {
  const calls = new WeakMap<object, Call>();
  const quietly = <T>(work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      sender.lose(1);
      sender.failed(error);
      return undefined;
    }
  };
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const call = quietly(() => callOf(args.input, context.commandName ?? '', settings));
      if (call === undefined) return next(args);
      calls.set(context, call);
      try {
        const result = await next(args);
        quietly(() => replied(call, result.output, sender, settings));
        return result;
      } catch (error) {
        quietly(() => failed(call, error, sender, settings));
        throw error;
      }
    },
    { step: 'initialize', priority: 'high', name: 'captureInvocations' },
  );
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const call = calls.get(context);
      // Of an earlier attempt.
      if (call !== undefined) call.status = undefined;
      const result = await next(args);
      if (call !== undefined) quietly(() => headersCame(call, result.response));
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'captureFirstByte' },
  );
}

function callOf(input: object, command: string, { sampling, maxBodyBytes }: Settings): Call | undefined {
  const { EndpointName, ...asked } = input as Record<string, unknown>;
  if (!COMMANDS.includes(command) || typeof EndpointName !== 'string' || Math.random() >= sampling) return undefined;
  const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
  const facts = {
    endpoint: EndpointName,
    target: text(asked.TargetVariant) ?? text(asked.InferenceComponentName),
    inferenceId: text(asked.InferenceId),
    customAttributes: text(asked.CustomAttributes),
    streamed: command === COMMANDS[1],
  };
  const call = new Call(facts, maxBodyBytes);
  call.request.contentType = text(asked.ContentType) ?? null;
  call.body = asked.Body;
  return call;
}

function headersCame(call: Call, response: unknown): void {
  const { statusCode, headers = {} } = response as { statusCode?: number; headers?: Record<string, string> };
  call.firstByteMs = call.now();
  call.status = statusCode;
  const variant = Object.keys(headers).find((name) => name.toLowerCase() === 'x-amzn-invoked-production-variant');
  if (variant !== undefined) call.variant = headers[variant];
}

function replied(call: Call, output: object, sender: Sender, { calls }: Settings): void {
  const { Body, ContentType, $metadata } = output as Record<string, unknown> & { $metadata?: { attempts?: number } };
  call.attempts = $metadata?.attempts;
  call.reply.contentType = typeof ContentType === 'string' ? ContentType : 'application/octet-stream';
  if (call.facts.streamed) {
    call.keepRequest();
    watchStream(Body as AsyncIterable<object>, call, sender);
    return;
  }
  if (calls !== 'all') return;
  call.keepRequest();
  call.end('whole');
  if (Body instanceof Uint8Array) {
    if (Body.byteLength > 0) call.firstContentMs = call.firstByteMs;
    call.reply.add(Body);
  }
  sender.add(call);
}

function failed(call: Call, error: unknown, sender: Sender, { calls }: Settings): void {
  const { OriginalMessage, OriginalStatusCode, $metadata } = (error ?? {}) as Record<string, unknown> & {
    $metadata?: { attempts?: number };
  };
  call.error = errorOf(error, call.status);
  if (calls !== 'all' && !call.facts.streamed && CONTAINER_SAW.includes(call.error.kind)) return;
  call.keepRequest();
  call.attempts = $metadata?.attempts;
  call.end(call.error.kind === 'stream' ? 'broke' : 'failed');
  if (call.error.kind === 'model') {
    if (typeof OriginalStatusCode === 'number') call.originalStatus = OriginalStatusCode;
    call.reply.add(Buffer.from(String(OriginalMessage ?? (error as Error).message)));
  }
  sender.add(call);
}
