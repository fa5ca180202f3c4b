/**
 * Captures what an application asks a SageMaker endpoint, and what it gets: `captureInvocations(client, { bucket, prefix })`. The entry
 * of the package's `capture-client`, which imports nothing of the product.
 */
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import type { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { Call } from './call.ts';
import { errorOf } from './error.ts';
import { Sender } from './sender.ts';
import { unreferenced } from './sockets.ts';
import type { CaptureStats } from './stats.ts';
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
  /** The client for the bucket, or its settings. Default: the region and credentials of the SageMaker client. */
  s3?: S3Client | S3ClientConfig;
  /** A longer request or reply is captured without its content. Default 1 MB. */
  maxBodyBytes?: number;
  /** The bound on all captures in memory, those of open streams too. Default 16 MB. */
  memoryBytes?: number;
  /** An object is written when this many bytes wait. Default 1 MB. */
  batchBytes?: number;
  /** An object is written after this time. Default 5 seconds. */
  batchMs?: number;
  /** A folder for what cannot be written to S3. Default: none; such captures stay in memory, within its bound. */
  spoolFolder?: string;
  /** The bound on the folder. Default 256 MB. */
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
const AMOUNTS = { maxBodyBytes: MB, memoryBytes: 16 * MB, batchBytes: MB, batchMs: 5_000, spoolBytes: 256 * MB };
const FLUSH_MS = 10_000;
const COMMANDS = ['InvokeEndpointCommand', 'InvokeEndpointWithResponseStreamCommand'];
/** Errors of calls that a container may have seen: SageMaker captures the unstreamed ones itself. */
const CONTAINER_SAW = ['model', 'stream', 'aborted'];
/** On the client, so that a second copy of this module finds the first one's work. */
const CAPTURES = Symbol.for('sagemaker-inference-monitor.captures');

/**
 * Captures the calls of a client from now on. Requests and replies stay what they are. A second call changes nothing, and returns the
 * captures of the first.
 *
 * @throws TypeError about an option that is not allowed
 */
export function captureInvocations(client: SageMakerRuntimeClient, options: CaptureOptions): Captures {
  const watched: SageMakerRuntimeClient & { [CAPTURES]?: Captures } = client;
  if (watched[CAPTURES] !== undefined) return watched[CAPTURES];
  const settings = settingsOf(options);
  const sender = new Sender(s3Of(client, options.s3), settings);
  new Watch(sender, settings).add(client);
  const captures: Captures = {
    stats: () => sender.stats(),
    flush: async (limitMs = FLUSH_MS) => {
      await sender.flush(limitMs);
      return sender.stats();
    },
  };
  Object.defineProperty(client, CAPTURES, { value: captures });
  return captures;
}

type Settings = ReturnType<typeof settingsOf>;

function settingsOf({ s3: _, ...options }: CaptureOptions) {
  const { bucket, prefix = '', calls = 'streams', sampling = 1, spoolFolder } = options;
  const check = (isAllowed: boolean, name: string, got: unknown, expected: string): void => {
    const text = `captureInvocations: ${name} is not allowed; got: ${String(got)}; expected: ${expected}`;
    if (!isAllowed) throw new TypeError(text);
  };
  check(/^[^/]+$/.test(bucket ?? ''), 'bucket', bucket, 'the name of a bucket');
  check(calls === 'streams' || calls === 'all', 'calls', calls, 'streams or all');
  check(sampling > 0 && sampling <= 1, 'sampling', sampling, 'a number over 0, at most 1');
  const amounts = { ...AMOUNTS };
  for (const name of Object.keys(AMOUNTS) as (keyof typeof AMOUNTS)[]) {
    amounts[name] = options[name] ?? AMOUNTS[name];
    check(amounts[name] > 0, name, amounts[name], 'a number over 0');
  }
  return { bucket, prefix: prefix.replace(/^\/+|\/+$/g, ''), calls, sampling, spoolFolder, ...amounts };
}

function s3Of({ config }: SageMakerRuntimeClient, given: CaptureOptions['s3'] = {}): S3Client {
  if ('send' in given) return given;
  const { region, credentials } = config;
  return new S3Client({ region, credentials, maxAttempts: 1, requestHandler: unreferenced(), ...given });
}

/** The middlewares. Nothing that goes wrong in them reaches the application. */
class Watch {
  readonly #sender: Sender;
  readonly #settings: Settings;
  readonly #calls = new WeakMap<object, Call>();

  constructor(sender: Sender, settings: Settings) {
    this.#sender = sender;
    this.#settings = settings;
  }

  add(client: SageMakerRuntimeClient): void {
    client.middlewareStack.add(
      (next, context) => async (args) => {
        const call = this.#sender.quietly(() => this.#began(args.input, context.commandName ?? ''));
        if (call === undefined) return next(args);
        this.#calls.set(context, call);
        try {
          const result = await next(args);
          this.#sender.quietly(() => this.#replied(call, result.output));
          return result;
        } catch (error) {
          this.#sender.quietly(() => this.#failed(call, error));
          throw error;
        }
      },
      { step: 'initialize', priority: 'high', name: 'captureInvocations' },
    );
    client.middlewareStack.add(
      (next, context) => async (args) => {
        const call = this.#calls.get(context);
        // Of an earlier attempt.
        if (call !== undefined) call.client.status = undefined;
        const result = await next(args);
        if (call !== undefined) this.#sender.quietly(() => headersCame(call, result.response));
        return result;
      },
      { step: 'deserialize', priority: 'low', name: 'captureFirstByte' },
    );
  }

  #began(input: object, command: string): Call | undefined {
    const { sampling, maxBodyBytes } = this.#settings;
    const isOne = COMMANDS.includes(command) && 'EndpointName' in input && Math.random() < sampling;
    return isOne ? new Call({ ...input }, command === COMMANDS[1], maxBodyBytes) : undefined;
  }

  #replied(call: Call, output: { Body?: unknown; ContentType?: string; $metadata?: { attempts?: number } }): void {
    if (!call.client.streamed && this.#settings.calls !== 'all') return;
    call.client.attempts = output.$metadata?.attempts;
    call.reply.contentType = output.ContentType ?? 'application/octet-stream';
    if (!this.#sender.begin(call)) return;
    if (call.client.streamed) {
      watchStream(output.Body as AsyncIterable<object>, call, this.#sender);
      return;
    }
    if (output.Body instanceof Uint8Array && output.Body.length > 0) {
      call.client.firstContentMs = call.client.firstByteMs;
      call.keepReply(output.Body);
    }
    this.#sender.end(call, 'whole');
  }

  #failed(call: Call, thrown: unknown): void {
    const error = thrown as Error & Record<string, unknown> & { $metadata?: { attempts?: number } };
    const told = errorOf(error, call.client.status);
    if (!call.client.streamed && this.#settings.calls !== 'all' && CONTAINER_SAW.includes(told.kind)) return;
    call.client.error = told;
    call.client.attempts = error.$metadata?.attempts;
    if (!this.#sender.begin(call)) return;
    if (told.kind === 'model') {
      call.client.originalStatus = error.OriginalStatusCode as number | undefined;
      call.keepReply(Buffer.from(String(error.OriginalMessage ?? error.message)));
    }
    this.#sender.end(call, told.kind === 'stream' ? 'broke' : 'failed');
  }
}

/** Of the last attempt, if there are several. */
function headersCame(call: Call, response: unknown): void {
  const { statusCode, headers = {} } = response as { statusCode?: number; headers?: Record<string, string> };
  call.client.firstByteMs = call.now();
  call.client.status = statusCode;
  call.variant = headers['x-amzn-invoked-production-variant'] ?? call.variant;
}
