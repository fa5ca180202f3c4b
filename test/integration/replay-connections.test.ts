/** When a replay opens and closes its connections, and how many. */

import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { isByCapturedTimes } from '../../src/replay/derived-options.ts';
import { ConnectionPool } from '../../src/replay/http/pool.ts';
import { DEFAULT_OPTIONS, type ReplayOptions } from '../../src/replay/options.ts';
import type { Target } from '../../src/replay/request/target.ts';
import { scheduleFromIndex } from '../../src/replay/schedule/timing.ts';
import type { SendJob, SendOutcome, SendProgress } from '../../src/replay/send/job.ts';
import { sendSchedule } from '../../src/replay/send/send-schedule.ts';
import { indexCaptures } from '../../src/replay/source/index-captures.ts';
import { localFiles } from '../../src/replay/source/open-source.ts';
import { localReader } from '../../src/replay/source/range-reader.ts';
import { urlTarget } from '../../src/replay/targets/url-target.ts';
import { chatLine, ReplayFolder, replay } from '../helpers/replay.ts';
import { serve } from '../helpers/serve.ts';

const BURST = 20;
const LATENCY_MS = 50;
/** Connections are opened 1.5 s ahead of their requests. The rest is tolerance between two wall clocks. */
const AHEAD_MS = 1_550;
const ANSWER = JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Fine.' } }] });

/** Serves, and records the connections and requests. */
async function noting() {
  const open = new Set<Socket>();
  const noted = {
    /** Times of the connections, epoch ms. */
    openedAtMs: [] as number[],
    /** Numbers of the requests, in the order of arrival. */
    numbers: [] as number[],
    most: 0,
    answering: true,
    onConnection: (_: Socket): void => {},
  };
  const serving = await serve((message, response) => {
    const chunks: Buffer[] = [];
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('end', () => {
      noted.numbers.push(Number(/#(\d+)/.exec(Buffer.concat(chunks).toString())?.[1]));
      if (!noted.answering) return;
      setTimeout(() => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': ANSWER.length });
        response.end(ANSWER);
      }, LATENCY_MS);
    });
  });
  serving.server.on('connection', (socket: Socket) => {
    noted.openedAtMs.push(Date.now());
    open.add(socket);
    noted.most = Math.max(noted.most, open.size);
    socket.on('error', () => {});
    socket.once('close', () => open.delete(socket));
    noted.onConnection(socket);
  });
  return Object.assign(noted, serving, { open });
}

let folder: ReplayFolder;
let server: Awaited<ReturnType<typeof noting>>;
let url: string;

beforeEach(async () => {
  folder = new ReplayFolder();
  server = await noting();
  url = server.url;
});
afterEach(() => server.close());

/** Writes captures with bursts at these seconds. */
const bursts = (...seconds: number[]): string =>
  folder.write(
    'a.jsonl',
    seconds.flatMap((second, n) =>
      Array.from({ length: BURST }, (_, i) => chatLine(`e${n * BURST + i}`, second, `#${n * BURST + i}`)),
    ),
  );

const numbersOf = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const sorted = (numbers: readonly number[]): number[] => [...numbers].sort((a, b) => a - b);

/** Starts a replay at a given time, like the shards of a cloud replay. */
async function startAt(
  captures: string,
  startAtEpochMs: number,
  signal?: AbortSignal,
  more: Partial<SendJob> = {},
  given: Partial<ReplayOptions> = {},
): Promise<SendOutcome> {
  const options = { ...DEFAULT_OPTIONS, fixedScheduleAutoOffset: true, ...given };
  const files = await localFiles(captures);
  const index = await indexCaptures(files, { needsTime: isByCapturedTimes(options), onSkipped: () => {} });
  return sendSchedule(
    {
      run: 'test-run',
      files,
      reader: localReader(files),
      schedule: scheduleFromIndex(index, options),
      target: urlTarget(url),
      options,
      maxConcurrency: Number.POSITIVE_INFINITY,
      keepCaptured: false,
      onSkipped: () => {},
      onMeasured: () => {},
      startAtEpochMs,
      ...more,
    },
    signal,
  );
}

const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
};

describe('connections ahead of a burst', () => {
  test('are opened for all requests that are due together', async () => {
    const { maxConnections } = await replay(bursts(0), url, folder.path, { fixedScheduleAutoOffset: true });
    expect(sorted(server.numbers)).toEqual(numbersOf(BURST));
    expect([server.most, maxConnections]).toEqual([BURST, BURST]);
  });

  test('do not exceed the concurrency cap', async () => {
    const { records } = await replay(bursts(0), url, folder.path, { fixedScheduleAutoOffset: true, maxConcurrency: 3 });
    expect(records).toHaveLength(BURST);
    expect(sorted(server.numbers)).toEqual(numbersOf(BURST));
    expect(server.most).toBe(3);
  });

  test('are not opened long before a given start, since they would be idle for too long', async () => {
    // Enough time for a busy machine to be ready.
    const startMs = Date.now() + 8_000;
    await startAt(bursts(0), startMs);
    // The first connection checks that the target is reachable.
    const [probe = 0, ...others] = server.openedAtMs;
    expect(probe).toBeLessThan(startMs);
    expect(Math.min(...others)).toBeGreaterThan(startMs - AHEAD_MS);
    expect(Math.max(...others)).toBeLessThan(startMs);
    expect(sorted(server.numbers)).toEqual(numbersOf(BURST));
  });

  test('are replaced if the server closes them unused, and each request is sent once', async () => {
    // Closes each connection on which no data arrives within this time.
    server.onConnection = (socket) => {
      const timer = setTimeout(() => socket.destroy(), 100);
      socket.once('data', () => clearTimeout(timer));
    };
    const { records, sent } = await replay(bursts(0, 3), url, folder.path, { fixedScheduleAutoOffset: true });
    expect(sent).toBe(2 * BURST);
    expect(records).toHaveLength(2 * BURST);
    expect(new Set(server.numbers).size).toBe(server.numbers.length);
    // A request whose connection is closed just then fails with that error, and is not sent again.
    const failed = records.filter(({ error }) => error);
    expect(failed.filter(({ error }) => !/Connection|Disconnected|BrokenPipe/.test(error?.type ?? ''))).toEqual([]);
    expect(server.numbers.length + failed.length).toBeGreaterThanOrEqual(2 * BURST);
  });
});

describe('a stopped replay closes its connections', () => {
  test('while it waits for its start', async () => {
    const stop = new AbortController();
    const started: SendProgress[] = [];
    const running = startAt(bursts(0), Date.now() + 60_000, stop.signal, { onStarted: (one) => started.push(one) });
    await until(() => started.length === 1);
    stop.abort();
    expect(await running).toMatchObject({ sent: 0, unsent: BURST, stopped: true });
    await until(() => server.open.size === 0);
    expect(server.numbers).toEqual([]);
  });

  test('with requests in flight and connections open for the next burst', async () => {
    server.answering = false;
    const stop = new AbortController();
    const running = startAt(bursts(0, 1), Date.now(), stop.signal);
    // The connections in use may not be returned: the next burst gets separate ones.
    await until(() => server.numbers.length >= BURST && server.open.size > BURST);
    stop.abort();
    const { sent, unsent, stopped } = await running;
    expect([sent + unsent, stopped]).toEqual([2 * BURST, true]);
    await until(() => server.open.size === 0);
  });
});

describe('the addresses of a target', () => {
  /** The server listens only on the first address. */
  const resolve = async () => ['127.0.0.1', '127.0.0.2', '127.0.0.3'];

  test('no request fails because of an address that refuses connections', async () => {
    server.onConnection = (socket) => void socket.once('data', () => setTimeout(() => socket.end(), 200));
    const failed: unknown[] = [];
    const target = urlTarget(url.replace('127.0.0.1', 'some.name'));
    const pool = new ConnectionPool(target.origin, resolve);
    await pool.open();
    const outcome = await startAt(bursts(0, 1), Date.now(), undefined, {
      target,
      pool,
      onMeasured: ({ error }) => void (error && failed.push(error)),
    });
    expect([outcome.sent, failed]).toEqual([2 * BURST, []]);
    expect(sorted(server.numbers)).toEqual(numbersOf(2 * BURST));
  });
});

test('enables TCP keep-alive on silent connections', async () => {
  server.answering = false;
  const stop = new AbortController();
  const running = startAt(bursts(0), Date.now(), stop.signal);
  await until(() => server.numbers.length === BURST);
  // On Linux: the active timer of each connection to the server; 2 is the keep-alive timer.
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0');
  const timers = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    // Established connections only: those of earlier tests may still be closing.
    .filter(([, , remote, state]) => remote?.endsWith(`:${port}`) && state === '01')
    .map(([, , , , , timer]) => timer?.slice(0, 2));
  stop.abort();
  await running;
  expect(timers.length).toBeGreaterThanOrEqual(BURST);
  expect(new Set(timers)).toEqual(new Set(['02']));
});

test.each<[string, (socket: Socket) => void]>([
  ['accepts and closes', (socket) => void socket.destroy()],
  ['is gone', () => void server.server.close()],
])('does not flood a target that %s with connections', async (_, behave) => {
  const captures = bursts(0, 1);
  let opened = 0;
  server.onConnection = (socket) => {
    opened++;
    // The first connection checks that the target is reachable.
    if (opened > 1) behave(socket);
  };
  const pool = new ConnectionPool(urlTarget(url).origin);
  await pool.open();
  const outcome = await startAt(captures, Date.now(), undefined, { pool });
  expect(outcome.sent).toBe(2 * BURST);
  // One for each request, and a few rounds ahead of a burst: not 32 every 20 ms.
  expect(opened + pool.lost).toBeLessThan(10 * BURST);
});

test('clears the cancellation timer when the reply arrives', async () => {
  const options = { requestCancellationRate: 100, requestCancellationDelay: 60 };
  await startAt(bursts(0), Date.now(), undefined, {}, options);
  expect(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length).toBeLessThan(BURST);
});

test('applies the memory limit to the warm-up too', async () => {
  server.answering = false;
  const lines = Array.from({ length: 400 }, (_, i) => chatLine(`e${i}`, 0, `#${i} ${'x'.repeat(100_000)}`));
  let prepared = 0;
  const real = urlTarget(url);
  const target: Target = {
    origin: real.origin,
    description: real.description,
    encode: (...request) => {
      prepared++;
      return real.encode(...request);
    },
  };
  const stop = new AbortController();
  const running = startAt(folder.write('a.jsonl', lines), Date.now(), stop.signal, { target }, { warmup: 400 });
  await until(() => server.numbers.length === 8);
  await new Promise((resolve) => setTimeout(resolve, 300));
  // 8 MiB are waiting, and eight requests are in flight.
  expect(prepared).toBeLessThan(120);
  stop.abort();
  await running;
});

describe('after a stop nothing is sent, and the run ends,', () => {
  /** Stops a replay that has sent its first burst and is preparing the next one. The target does not answer. */
  async function stoppedWhilePreparing(release: (go: () => void, ended: Promise<SendOutcome>) => void) {
    server.answering = false;
    const real = urlTarget(url);
    let go = (): void => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    let encoded = 0;
    const target: Target = {
      origin: real.origin,
      description: real.description,
      encode: async (...request) => {
        if (encoded++ >= BURST) await held;
        return real.encode(...request);
      },
    };
    const stop = new AbortController();
    const reasons: string[] = [];
    const more: Partial<SendJob> = { target, onSkipped: ({ reason }) => reasons.push(reason) };
    // It would last for days: the remaining passes are counted without reading them.
    const running = startAt(bursts(0, 1, 2), Date.now(), stop.signal, more, { repeat: 1_000_000 });
    await until(() => encoded > BURST && server.numbers.length === BURST);
    stop.abort();
    release(go, running);
    const outcome = await running;
    await until(() => server.open.size === 0);
    return { ...outcome, reasons };
  }
  const ALL = 3 * BURST * 1_000_000;

  test.each<[string, (go: () => void, ended: Promise<SendOutcome>) => void]>([
    ['if the request in preparation is ready immediately', (go) => go()],
    ['if it is ready after the end of the run', (go, ended) => void ended.then(go)],
    ['if it is never ready', () => {}],
  ])('%s', async (_, release) => {
    const { sent, unsent, stopped, reasons } = await stoppedWhilePreparing(release);
    expect([sent, sent + unsent, stopped, reasons]).toEqual([BURST, ALL, true, []]);
    expect(sorted(server.numbers)).toEqual(numbersOf(BURST));
  });
});
