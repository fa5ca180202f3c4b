/** Sends each request at its due time, or as soon as the concurrency cap allows. */

import { Exchange, type ExchangeError } from '../http/exchange.ts';
import type { ConnectionPool } from '../http/pool.ts';
import { CANCELLED_TYPE, type Completion, openReader } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/preparer.ts';
import { mostAtOnce } from '../schedule/timing.ts';
import type { SendJob } from './job.ts';

/** Read replies after this many consecutive sends. Otherwise their arrival time would be the time of the last send. */
const SENDS_IN_A_ROW = 128;
const TIMEOUT_CHECK_MS = 50;
/** The longest delay that a timer accepts. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class Dispatcher {
  readonly #job: SendJob;
  readonly #pool: ConnectionPool;
  readonly #onDone: (completion: Completion) => void;
  readonly queue = new RequestQueue();
  /** Oldest first. */
  readonly #inFlight = new Set<Exchange>();
  /** Requests that are being encoded again. */
  #renewing = 0;
  #startAt = Number.POSITIVE_INFINITY;
  #shiftMs = 0;
  #started = false;
  #closed = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #timeoutCheck: NodeJS.Timeout | undefined;
  /** Since when there is room under the cap. */
  #roomSince = Number.NEGATIVE_INFINITY;
  #finish: (() => void) | undefined;
  sent = 0;

  constructor(job: SendJob, pool: ConnectionPool, onDone: (completion: Completion) => void) {
    this.#job = job;
    this.#pool = pool;
    this.#onDone = onDone;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Returns the number of requests in flight that were sent less than `ageMs` ago. */
  youngInFlight(now: number, ageMs: number): number {
    return [...this.#inFlight].filter(({ startedAt }) => now - startedAt < ageMs).length;
  }

  /**
   * Starts the clock. A request that is due at 0 ms is sent at `at`, a time of `performance.now()`.
   *
   * @param shiftMs delays all requests by this time. It counts as their lateness and keeps their distances
   */
  start(at: number, shiftMs = 0): void {
    this.#startAt = at;
    this.#shiftMs = shiftMs;
    this.#started = true;
    this.#timeoutCheck = setInterval(() => this.#checkTimeouts(), TIMEOUT_CHECK_MS);
    this.tick();
  }

  /** Returns the time of the schedule that has passed since its start, ms; before it, negative infinity. */
  elapsedMs(): number {
    return performance.now() - this.#startAt - this.#shiftMs;
  }

  /** Adds a request. Call in the order of due times. */
  push(request: PreparedRequest): void {
    this.queue.push(request);
    if (this.#started && this.queue.length === 1) this.#arm();
  }

  /** Resolves when every request that was added has been sent and has ended. No more are added. */
  drained(): Promise<void> {
    this.#closed = true;
    return new Promise((resolve) => {
      this.#finish = resolve;
      this.#arm();
    });
  }

  /** Drops the waiting requests and cancels requests in flight. No more are added. */
  stop(error: ExchangeError): void {
    this.queue.clear();
    this.#stopped = true;
    this.#closed = true;
    for (const exchange of [...this.#inFlight]) exchange.abort(error);
    this.#arm();
  }

  /** Returns the milliseconds until the next request is due: negative if it is late, infinite if none is waiting. */
  slack(now: number): number {
    const next = this.queue.peek();
    if (!next || !this.#started || !this.#hasRoom) return Number.POSITIVE_INFINITY;
    return this.#startAt + this.#shiftMs + (Number.isNaN(next.dueMs) ? 0 : next.dueMs) - now;
  }

  /** Sends the due requests. */
  tick(): void {
    if (!this.#started) return;
    const { goodForMs = Number.POSITIVE_INFINITY } = this.#job.target;
    let now = performance.now();
    for (let inARow = 0; inARow < SENDS_IN_A_ROW; inARow++) {
      if (this.slack(now) > 0) break;
      const request = this.queue.shift();
      if (!request) break;
      if (now - (request.renewal?.since ?? now) < goodForMs) this.#send(request, now);
      else void this.#renew(request);
      now = performance.now();
    }
    this.#arm();
  }

  get #hasRoom(): boolean {
    return this.#inFlight.size + this.#renewing < this.#job.maxConcurrency;
  }

  /** Encodes a request again that has waited for room under the cap for longer than its signature is valid. */
  async #renew(request: PreparedRequest): Promise<void> {
    this.#renewing++;
    let renewed = request;
    try {
      renewed = { ...request, ...(await request.renewal?.encode()) };
    } catch {
      // Without credentials, send the request unchanged. The target refuses it with its own error.
    }
    this.#renewing--;
    if (this.#stopped) this.#arm();
    else this.#send(renewed, performance.now());
  }

  #send(request: PreparedRequest, now: number): void {
    const scheduled = !Number.isNaN(request.dueMs);
    const dueAt = scheduled ? this.#startAt + request.dueMs : now;
    const roomAt = scheduled ? Math.max(dueAt, this.#roomSince) : now;
    let cancelling: NodeJS.Timeout | undefined;
    const exchange = new Exchange(
      request.wire,
      (done) => {
        // The timer would keep the reply in memory, and the process alive, for the whole delay.
        clearTimeout(cancelling);
        if (!this.#hasRoom) this.#roomSince = performance.now();
        this.#inFlight.delete(done);
        this.#onDone({ request, exchange: done, scheduledAt: scheduled ? dueAt : done.startedAt, roomAt });
        if (!this.#immediate && !this.#timer) this.#arm();
      },
      (status, headers) => openReader(status, headers, request.streaming),
    );
    this.#inFlight.add(exchange);
    this.sent++;
    const { cancelAfterMs } = request;
    if (cancelAfterMs !== undefined) {
      const message = `Request cancelled ${(cancelAfterMs / 1000).toFixed(3)}s after being sent`;
      cancelling = setTimeout(() => exchange.abort({ code: 499, type: CANCELLED_TYPE, message }), cancelAfterMs);
    }
    this.#pool.send(exchange);
  }

  #checkTimeouts(): void {
    const { timeout } = this.#job.options;
    const now = performance.now();
    for (const exchange of this.#inFlight) {
      if (now - exchange.startedAt < timeout * 1000) return;
      exchange.abort({ type: 'TimeoutError', message: `No complete reply within ${timeout} s` });
    }
  }

  /** Schedules the next call of `tick`. */
  #arm(): void {
    if (!this.#started) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#immediate) return;
    const wait = this.slack(performance.now());
    if (wait === Number.POSITIVE_INFINITY) {
      if (!this.#closed || this.queue.length + this.#inFlight.size + this.#renewing > 0) return;
      clearInterval(this.#timeoutCheck);
      this.#finish?.();
      return;
    }
    if (wait > 0) {
      this.#timer = setTimeout(() => this.tick(), Math.min(MAX_TIMER_MS, wait));
    } else {
      this.#immediate = setImmediate(() => {
        this.#immediate = undefined;
        this.tick();
      });
    }
  }
}

// ----------------------------------------------------------------------------------------------------------- queue
// Prepared requests in the order of their due times.

class RequestQueue {
  #requests: PreparedRequest[] = [];
  /** Total size of the waiting requests. */
  bytes = 0;

  get length(): number {
    return this.#requests.length;
  }

  push(request: PreparedRequest): void {
    this.#requests.push(request);
    this.bytes += request.wire.length;
  }

  peek(): PreparedRequest | undefined {
    return this.#requests[0];
  }

  shift(): PreparedRequest | undefined {
    const request = this.#requests.shift();
    if (request) this.bytes -= request.wire.length;
    return request;
  }

  clear(): void {
    this.#requests = [];
    this.bytes = 0;
  }

  /** Returns the number of requests that are due until `untilMs`, including requests without a time. */
  dueBefore(untilMs: number): number {
    const later = this.#requests.findIndex(({ dueMs }) => dueMs > untilMs);
    return later === -1 ? this.length : later;
  }

  /** Number of connections that are busy at the same time if a reply takes `replyMs`, for the requests due until `untilMs`. */
  peak(replyMs: number, untilMs: number): number {
    return mostAtOnce(this.#requests, replyMs, untilMs);
  }
}
