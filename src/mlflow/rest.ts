/** Calls MLflow's REST API: authenticates requests, limits their time, and names their failures. */

import type { z } from 'zod';
import { PermanentError, type RetryableErrorName, shownOf, Words } from '../core/errors/errors.ts';
import { type RetryPolicy, readRetryAfter, withRetries } from '../core/process/retry.ts';
import { countThrottle } from '../core/process/throttles.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { type Authorizer, type RefusedReply, saysExpired } from './auth.ts';
import { capabilityProbe } from './capabilities.ts';
import { isAccessDenied, MlflowRefusedError, MlflowRetryableError, notStored } from './errors.ts';
import type { TrackingTarget } from './tracking-uri.ts';
import { type HttpReply, type HttpRequest, type HttpTransport, NoReplyError } from './transport.ts';

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path below the tracking URI, with encoded segments, such as `/api/3.0/mlflow/traces`. */
  path: string;
  query?: Record<string, string>;
  json?: unknown;
  bytes?: Uint8Array;
  contentType?: string;
  headers?: Record<string, string>;
  /** See `HttpRequest`. */
  receive?: (piece: Buffer) => void;
  /** The caller has waited for the rate limit by `waitForRate`. */
  hasWaited?: boolean;
}

/**
 * The timeout of a request. 100 traces take 0.5 s on an idle server. On a busy server they wait behind ten other
 * writers. Every 256 KiB of body add a second, for slow connections.
 */
const BASE_TIMEOUT_MS = 60_000;
const BYTES_PER_SECOND = 256 * 1024;

/**
 * Number of times that a request is sent again with renewed credentials, after they have expired or the secret was
 * rotated.
 */
const MAX_RENEWALS = 2;

const USER_AGENT = 'sagemaker-inference-monitor';

/** Limits that requests must pass, shared by all functions of the stack. */
export interface RequestLimits {
  /** Waits until a request is due. Absent: no limit. */
  rate?: { acquire(requests: number): Promise<void> } | undefined;
  /** Receives the outcome of each request. Absent outside of the stack. */
  breaker?: { report(outcome: 'throttled' | 'answered'): Promise<void> } | undefined;
}

export interface RestOptions {
  target: TrackingTarget;
  authorizer: Authorizer;
  transport: HttpTransport;
  retry: RetryPolicy;
  /** The timeout of a request in milliseconds; large bodies get more. Default 60,000. */
  timeoutMs?: number;
  /** Limits that requests must pass, shared by all functions of the stack. */
  limits?: RequestLimits | undefined;
}

export class MlflowRest {
  readonly retry: RetryPolicy;
  readonly target: TrackingTarget;
  /** The capabilities of the server, asked for again once a minute. */
  readonly probe = capabilityProbe(() => this.#version());
  readonly #options: RestOptions;

  constructor(options: RestOptions) {
    this.#options = options;
    this.retry = options.retry;
    this.target = options.target;
  }

  /** Makes a call with retries: a read, or an idempotent write. */
  repeat<T>(call: Call, schema: z.ZodType<T>): Promise<T> {
    return withRetries(this.retry, () => this.once(call, schema));
  }

  /** Makes a call once. A failure reports the outcome, see `MlflowRetryableError`. */
  async once<T>(call: Call, schema: z.ZodType<T>): Promise<T> {
    return parseReply(await this.bytes(call), schema, this.#where(call));
  }

  /**
   * Makes a writing call once. Only MLflow's own reply contains the id: a gateway may answer 200 by itself, or echo the
   * request.
   *
   * @param reply reads the id from the reply
   * @throws MlflowRetryableError `MlflowNotStored`, with an unknown outcome
   */
  async write(call: Call, reply: z.ZodType<string>, id: string): Promise<void> {
    const body = await this.bytes(call);
    const where = this.#where(call);
    try {
      const isEcho = body.equals(Buffer.from(JSON.stringify(call.json)));
      if (!isEcho && parseReply(body, reply, where) === id) return;
    } catch {
      // Another server has answered.
    }
    throw notStored('The reply does not name what was sent', `${body.length} bytes`, where);
  }

  /** Waits for the rate limit, before a call that depends on a state that may change during the wait. */
  async waitForRate(): Promise<void> {
    await this.#options.limits?.rate?.acquire(1);
  }

  /** Makes a call once, and returns the body of the reply. */
  async bytes(call: Call): Promise<Buffer> {
    for (let renewals = 0; ; renewals += 1) {
      if (!call.hasWaited || renewals > 0) await this.waitForRate();
      const { reply, sent } = await this.#send(call);
      const isThrottled = saysThrottled(reply);
      if (isThrottled) countThrottle('mlflow');
      // A failing server gives no information about its limit.
      if (reply.status < 500) await this.#options.limits?.breaker?.report(isThrottled ? 'throttled' : 'answered');
      if (reply.status >= 200 && reply.status < 300) return reply.body;
      const text = reply.body.toString('utf8');
      const facts = { status: reply.status, text, errorType: errorTypeOf(reply), sent };
      if ([400, 401, 403].includes(reply.status) && renewals < MAX_RENEWALS) {
        if (await this.#options.authorizer.renew(facts)) continue;
      }
      throw this.#failure(call, reply, facts);
    }
  }

  async #version(): Promise<string | undefined> {
    try {
      const reply = await withRetries(this.retry, () => this.bytes({ method: 'GET', path: '/version' }));
      return /^\d+\.[\d.]+/.exec(reply.toString('utf8').trim())?.[0];
    } catch (error) {
      if (error instanceof MlflowRefusedError) return undefined;
      // A gateway in front of managed MLflow may forward only the API's routes. Assume the oldest version then.
      if (this.target.kind !== 'url' && isAccessDenied(error)) return undefined;
      throw error;
    }
  }

  #where(call: Call): string {
    return `${call.method} ${this.target.baseUrl.origin}${call.path}`;
  }

  async #send(call: Call): Promise<{ reply: HttpReply; sent: Record<string, string> }> {
    const body = call.json === undefined ? call.bytes : Buffer.from(JSON.stringify(call.json));
    const url = new URL(this.target.baseUrl);
    url.pathname = url.pathname.replace(/\/+$/, '') + call.path;
    // URLSearchParams encodes a space as `+`, which SageMaker's signature check does not accept.
    if (call.query) url.search = new URLSearchParams(call.query).toString().replaceAll('+', '%20');
    const contentType = call.json === undefined ? call.contentType : 'application/json';
    const { authorizer, transport, timeoutMs = BASE_TIMEOUT_MS } = this.#options;
    const request: HttpRequest = {
      method: call.method,
      url,
      headers: { 'user-agent': USER_AGENT, ...(contentType ? { 'content-type': contentType } : {}), ...call.headers },
      ...{ body, receive: call.receive },
      timeoutMs: timeoutMs + ((body?.length ?? 0) / BYTES_PER_SECOND) * 1000,
    };
    request.headers = await authorizer.authorize(request);
    try {
      return { reply: await transport.send(request), sent: request.headers };
    } catch (error) {
      if (!(error instanceof NoReplyError)) throw error;
      throw new MlflowRetryableError('MlflowUnavailable', 'MLflow did not answer', {
        got: error.timedOut ? error.message : shownOf({ code: error.code }) || 'a broken connection',
        where: this.#where(call),
        outcome: error.sent ? 'unknown' : 'none',
        whileSending: error.whileSending,
        timedOut: error.timedOut,
        cause: error,
      });
    }
  }

  #failure(call: Call, reply: HttpReply, facts: RefusedReply): Error {
    const { status, text, errorType } = facts;
    const errorCode = errorCodeOf(text);
    const code = errorType.split(':')[0] || errorCode;
    const requestId = reply.headers['x-amzn-requestid'] ?? reply.headers['x-request-id'];
    const retryAfterMs = readRetryAfter(reply.headers['retry-after']);
    const cause = new Words(text);
    const shown = { got: shownOf({ status, code, requestId, text }), where: this.#where(call) };
    const details = { ...shown, status, cause };
    const retryable = (name: RetryableErrorName, message: string, outcome: 'none' | 'unknown') =>
      new MlflowRetryableError(name, message, { ...details, outcome, retryAfterMs });
    if (saysThrottled(reply)) return retryable('MlflowThrottled', 'MLflow throttled the request', 'none');
    if (this.target.kind !== 'url' && saysExpired(facts)) {
      return retryable('CredentialsExpired', 'The credentials for MLflow have expired', 'none');
    }
    if (status === 401 || status === 403) {
      const message = `MLflow denied access: ${this.#options.authorizer.hint}`;
      return new PermanentError('MlflowAccessDenied', message, shown, cause);
    }
    if (status >= 300 && status < 400) {
      const expected = 'an MLflow server at the tracking URI, not a page that redirects (a login?)';
      const got = `HTTP ${status} to ${originOf(reply.headers.location)}`;
      return new PermanentError('MlflowBadReply', 'MLflow redirected the request', { ...shown, got, expected });
    }
    if (DATABASE_BUSY.test(text)) return retryable('MlflowUnavailable', 'MLflow’s database is too busy', 'unknown');
    // 501 is permanent. All other 5xx, 408 and 425 are transient.
    if ((status >= 500 && status !== 501) || status === 408 || status === 425) {
      return retryable('MlflowUnavailable', 'MLflow returned a server error', 'unknown');
    }
    return new MlflowRefusedError('MLflow refused the request', { ...details, errorCode });
  }
}

const errorTypeOf = ({ headers }: HttpReply): string => String(headers['x-amzn-errortype'] ?? '');

const saysThrottled = (reply: HttpReply): boolean =>
  reply.status === 429 || /Throttl|TooManyRequests/i.test(errorTypeOf(reply));

/** MLflow forwards these errors of its database layer with status 400. */
const DATABASE_BUSY =
  /QueuePool limit|database is locked|deadlock detected|Lock wait timeout|too many (?:clients|connections)/i;

const originOf = (location: string | undefined): string => URL.parse(location ?? '')?.origin ?? 'another page';

function errorCodeOf(text: string): string | undefined {
  const { error_code: code } = Object(jsonIn(text));
  // Some versions return this code for a route that does not exist.
  return typeof code === 'string' && code !== 'ENDPOINT_NOT_FOUND' ? code : undefined;
}

/** @throws MlflowRetryableError `MlflowUnavailable`: a gateway may answer 200 with a page of its own for as long as MLflow is away */
function parseReply<T>(body: Buffer, schema: z.ZodType<T>, where: string): T {
  const json = jsonIn(body);
  const bad = (message: string, got: string, cause: Error): MlflowRetryableError =>
    new MlflowRetryableError('MlflowUnavailable', message, { got, where, outcome: 'unknown', cause });
  if (json === undefined) {
    const got = `status 200 with ${body.length} bytes that are no JSON`;
    throw bad('The reply is not from MLflow', got, new Words(body.toString('utf8')));
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  // Below its first part a path can contain the names of tags and metadata.
  const faults = parsed.error.issues.map(({ path, code }) => `${String(path[0] ?? 'the reply')}: ${code}`);
  const got = `${body.length} bytes of JSON with ${faults.join(', ')}`;
  throw bad('MLflow’s reply has an unexpected form', got, parsed.error);
}
