/**
 * One HTTP client behind the replay's own dispatcher, in a separate process.
 *
 *     node bench/replay-support/http-client-side.ts own|undici URL SCENARIO        prints its figures as JSON
 *     node bench/replay-support/http-client-side.ts own|undici URL outcomes COUNT  sends requests one by one and prints their outcomes
 */
import { Pool } from 'undici';
import type { Exchange } from '../../src/replay/http/exchange.ts';
import { ConnectionPool } from '../../src/replay/http/pool.ts';
import type { Completion } from '../../src/replay/measure/measure.ts';
import type { PreparedRequest } from '../../src/replay/request/preparer.ts';
import { hostHeader, httpRequest, originOf } from '../../src/replay/request/target.ts';
import { Dispatcher } from '../../src/replay/send/dispatcher.ts';

/** Due times by request number, ms. Without one, a request is sent as soon as `concurrency` allows. */
const SCENARIOS: Record<string, { requests: number; concurrency: number; dueMs(i: number): number }> = {
  rate: { requests: 5_000, concurrency: Number.POSITIVE_INFINITY, dueMs: (i) => i },
  bursts: { requests: 5_000, concurrency: Number.POSITIVE_INFINITY, dueMs: (i) => Math.floor(i / 1000) * 1000 },
  flood: { requests: 20_000, concurrency: 200, dueMs: () => Number.NaN },
};
const LEAD_MS = 500;
const TIMEOUT_MS = 2_000;
const PATH = '/v1/chat/completions';
const HEAD_END = '\r\n\r\n';

const [client = '', target = '', name = '', count = '0'] = process.argv.slice(2);
const origin = originOf(new URL(target));

/** Undici with one request at a time per connection, unlimited connections and no client-side timeouts. */
class UndiciPool {
  readonly #pool = new Pool(new URL(target).origin, { pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });

  send(exchange: Exchange): void {
    exchange.startedAt = performance.now();
    const body = exchange.wire.subarray(exchange.wire.indexOf(HEAD_END) + HEAD_END.length);
    const fail = (error: Error): void =>
      exchange.finish(performance.now(), { type: error.name, message: error.message });
    this.#pool.dispatch(
      { path: PATH, method: 'POST', headers: { 'content-type': 'application/json' }, body },
      {
        onRequestStart: (controller) => {
          exchange.connection = { destroy: () => controller.abort(new Error('canceled')) };
        },
        onResponseStart: (_, status, headers, reason = '') => {
          exchange.received(performance.now());
          exchange.onHead(status, new Map(Object.entries(headers).map(([key, value]) => [key, String(value)])), reason);
        },
        onResponseData: (_, chunk) => {
          exchange.received(performance.now());
          exchange.onBody(chunk, 0, chunk.length);
        },
        onResponseEnd: () => exchange.onEnd(),
        onResponseError: (_, error) => fail(error),
      },
    );
  }

  close(): void {
    void this.#pool.destroy();
  }
}

const pool = client === 'undici' ? new UndiciPool() : new ConnectionPool(origin);

function request(ordinal: number, dueMs: number): PreparedRequest {
  const body = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: `[#${ordinal}] hello` }] }));
  const headers: [string, string][] = [
    ['Host', hostHeader(origin)],
    ['Content-Type', 'application/json'],
  ];
  const encoded = httpRequest('POST', PATH, headers, body);
  return { ...encoded, ordinal, dueMs, pass: 0, phase: 'profiling', streaming: false } as unknown as PreparedRequest;
}

/** Sends all requests and passes each completion to `onDone`. */
async function sendAll(
  requests: number,
  concurrency: number,
  dueMs: (i: number) => number,
  onDone: (one: Completion) => void,
): Promise<void> {
  const dispatcher = new Dispatcher({
    pool: pool as ConnectionPool,
    maxConcurrency: concurrency,
    timeoutMs: TIMEOUT_MS,
    onDone: (one) => {
      onDone(one);
      one.exchange.release();
    },
  });
  for (let i = 0; i < requests; i++) dispatcher.push(request(i, dueMs(i)));
  dispatcher.start(performance.now() + LEAD_MS);
  await dispatcher.drained();
}

if (name === 'outcomes') {
  const outcomes: string[] = [];
  await sendAll(
    Number(count),
    1,
    () => Number.NaN,
    ({ exchange }) => {
      outcomes.push(exchange.error ? 'error' : `${exchange.status} ${exchange.body.toString('latin1').slice(0, 40)}`);
    },
  );
  console.log(JSON.stringify(outcomes));
} else {
  const { requests, concurrency, dueMs } = SCENARIOS[name] as (typeof SCENARIOS)[string];
  if (pool instanceof ConnectionPool) {
    await pool.open();
    pool.warm(name === 'rate' ? 100 : Math.min(1000, concurrency));
    await pool.warmed(TIMEOUT_MS);
  }
  const before = process.cpuUsage();
  let failed = 0;
  await sendAll(requests, concurrency, dueMs, ({ exchange }) => {
    if (exchange.error || exchange.status !== 200) failed++;
  });
  const { user, system } = process.cpuUsage(before);
  const megabytes = (process.resourceUsage().maxRSS * 1024) / 1e6;
  console.log(JSON.stringify({ microseconds: (user + system) / requests, megabytes, failed }));
}
pool.close();
process.exit(0);
