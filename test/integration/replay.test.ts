/** Replays against a real HTTP server: the requests that arrive there, and the measurements. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { NOT_MASKED } from '../../src/captures/redact/encoded.ts';
import { Masker } from '../../src/captures/redact/mask.ts';
import { type Redaction, redactRules } from '../../src/core/settings/redact-setting.ts';
import type { DistributionMetric } from '../../src/replay/metrics.ts';
import type { Target } from '../../src/replay/request/target.ts';
import type { SkippedLine } from '../../src/replay/source/types.ts';
import { urlTarget } from '../../src/replay/targets/url-target.ts';
import type { StandInEndpoint } from '../doubles/recording-endpoint.ts';
import { startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { captureLine, chatLine, ReplayFolder, type ReplayRecord, readLines, replay } from '../helpers/replay.ts';

const LATENCY_MS = 50;
/** A busy machine delays a process by some hundred milliseconds. A broken schedule differs by more. */
const LATE_MS = 2_000;
/** Tolerance between two ways of reading the wall clock. */
const CLOCKS_MS = 50;

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let out: string;

beforeEach(async () => {
  folder = new ReplayFolder();
  out = join(folder.path, 'out');
  endpoint = await startStandInEndpoint({ latencyMs: LATENCY_MS, record: true });
});
afterEach(() => endpoint.close());

const scheduledMs = ({ metadata }: ReplayRecord): number => metadata.scheduled_ns / 1e6;

/** Expects every request to be sent, and to reach the server, at its scheduled time or shortly after it. */
function expectOnSchedule(records: readonly ReplayRecord[]): void {
  const numbered = new Map(endpoint.arrivals.list().map(({ number, atMs }) => [`e${number}`, atMs]));
  expect(numbered.size).toBe(records.length);
  for (const record of records) {
    const lag = (record.metadata.request_start_ns - record.metadata.scheduled_ns) / 1e6;
    expect(lag).toBeGreaterThan(-1);
    expect(lag).toBeLessThan(LATE_MS);
    const arrived = (numbered.get(String(record.metadata.event_id)) ?? 0) - scheduledMs(record);
    expect(arrived).toBeGreaterThan(-CLOCKS_MS);
    expect(arrived).toBeLessThan(LATE_MS + CLOCKS_MS);
  }
}

/** Returns the scheduled times relative to the first one, in the order of sending. */
function scheduleOfSent(records: readonly ReplayRecord[]): { ids: unknown[]; dues: number[] } {
  const sent = [...records].sort((a, b) => a.metadata.request_start_ns - b.metadata.request_start_ns);
  const dues = sent.map(scheduledMs);
  return { ids: sent.map(({ metadata }) => metadata.event_id), dues: dues.map((due) => due - Math.min(...dues)) };
}

describe('what is sent', () => {
  test('sends bodies of every kind unchanged to the path of their format, and reports the places of bad lines', async () => {
    const odd =
      '{ "messages" : [ {"role":"user","content":"¿Qué? 📦"} ],\n "seed": 12345678901234567890, "temperature": 1.0 }';
    const binary = Buffer.from([0, 1, 2, 250, 10]);
    const base64 = { encoding: 'BASE64' };
    const file = folder.write('a.jsonl', [
      captureLine('chat', 0, { data: odd }),
      '{"captureData": {"endpointInput": {"data": "cut off he',
      captureLine('csv', 0, { data: '1,2,3\n4,5,6\n', encoding: 'CSV', contentType: 'text/csv; charset=utf-8' }),
      captureLine('base64', 0, { ...base64, data: Buffer.from('{"prompt":"hi"}').toString('base64') }),
      captureLine('image', 0, { ...base64, data: binary.toString('base64'), contentType: 'application/x-image' }),
      captureLine('inputs', 0, { data: '{"inputs":"hello","parameters":{}}' }),
      captureLine('no request', 0, undefined, { data: 'x' }),
      captureLine('rot13', 0, { data: '{}', encoding: 'ROT13' }),
      '[]',
    ]);
    const { records, results } = await replay(file, endpoint.url, out);
    const sent = Object.fromEntries(
      endpoint.requests.map(({ url, body, headers }) => [url + headers['content-type'], body]),
    );
    expect(sent).toEqual({
      '/v1/chat/completionsapplication/json': Buffer.from(odd),
      '/invocationstext/csv; charset=utf-8': Buffer.from('1,2,3\n4,5,6\n'),
      '/v1/completionsapplication/json': Buffer.from('{"prompt":"hi"}'),
      '/invocationsapplication/x-image': binary,
      '/invocationsapplication/json': Buffer.from('{"inputs":"hello","parameters":{}}'),
    });
    expect(records.map(({ error }) => error)).toEqual(records.map(() => undefined));
    const reasons = { NotJson: 1, NoRequest: 1, UndecodableRequest: 1, NotACaptureRecord: 1 };
    expect(Object.fromEntries(results.skippedReasons)).toEqual(reasons);
    const skipped = readFileSync(join(out, 'skipped.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const lines = ['2 NotJson', '7 NoRequest', '8 UndecodableRequest', '9 NotACaptureRecord'];
    expect(skipped.map(({ line, reason }) => `${line} ${reason}`).sort()).toEqual(lines);
  });

  test('sends all requests to the path of the URL, with ids and the user’s headers', async () => {
    const file = folder.write('a.jsonl', [chatLine('e1', 0, 'one'), captureLine('e2', 0, { data: '{"inputs":"x"}' })]);
    const { urlTarget } = await import('../../src/replay/targets/url-target.ts');
    const target = urlTarget(`${endpoint.url}/invocations?v=1`, { Authorization: 'Bearer k', accept: 'a/b' });
    const { records } = await replay(file, target, out);
    for (const { url, headers } of endpoint.requests) {
      expect(url).toBe('/invocations?v=1');
      expect(headers).toMatchObject({ authorization: 'Bearer k', accept: 'a/b' });
      expect(headers['user-agent']).toContain('replay');
    }
    expect(endpoint.requests.map(({ headers }) => headers['x-request-id']).sort()).toEqual(
      records.map(({ metadata }) => metadata.x_request_id).sort(),
    );
    expect(endpoint.requests.map(({ headers }) => headers['x-correlation-id']).sort()).toEqual(['e1', 'e2']);
  });

  test('sends nothing twice after failures', async () => {
    const file = folder.write('a.jsonl', [
      ...Array.from({ length: 12 }, (_, i) => chatLine(`d${i}`, 0, `[#${i}] [[disconnect]]`)),
      ...Array.from({ length: 12 }, (_, i) => chatLine(`s${i}`, 1, `[#${100 + i}] [[status 503]]`)),
      ...Array.from({ length: 12 }, (_, i) => chatLine(`o${i}`, 2, `[#${200 + i}]`)),
    ]);
    const { results, records } = await replay(file, endpoint.url, out, { speedup: 4 });
    const numbers = endpoint.arrivals.list().map(({ number }) => number);
    expect(numbers).toHaveLength(36);
    expect(new Set(numbers).size).toBe(36);
    expect(results.stats).toMatchObject({ succeeded: 12, failed: 24 });
    const kinds = new Set(records.map(({ error }) => error && `${error.code ?? ''} ${error.type}`));
    expect(kinds).toEqual(new Set([' ServerDisconnectedError', '503 Service Unavailable', undefined]));
  });
});

describe('when it is sent', () => {
  test('sends at the captured times, with speedup', async () => {
    const file = folder.chats(5, (i) => [0, 1, 1, 2, 4][i] ?? 0);
    const { records } = await replay(file, endpoint.url, out, { speedup: 4, fixedScheduleAutoOffset: true });
    const { ids, dues } = scheduleOfSent(records);
    expect(ids).toEqual(['e0', 'e1', 'e2', 'e3', 'e4']);
    for (const [i, expected] of [0, 250, 250, 500, 1000].entries()) expect(dues[i]).toBeCloseTo(expected, 2);
    expectOnSchedule(records);
  });

  test('respects the concurrency cap, and does not hide the time that requests wait', async () => {
    const file = folder.chats(12);
    const { results } = await replay(file, endpoint.url, out, { maxConcurrency: 3 });
    expect(endpoint.maxConnections).toBeLessThanOrEqual(3);
    const { stats } = results;
    // Four rounds of 50 ms: the last request waits for three of them, which only the effective latency includes.
    const mean = (metric: DistributionMetric): number => stats.distribution(metric).summary()?.avg ?? 0;
    expect(stats.distribution('effective_latency').max).toBeGreaterThan(3.9 * LATENCY_MS);
    expect(mean('effective_latency') - mean('request_latency')).toBeGreaterThan(1.4 * LATENCY_MS);
    // The cap causes the delay, not the client.
    expect(mean('credit_to_start_latency') - mean('replay_client_lag')).toBeGreaterThan(1.4 * LATENCY_MS);
  });

  test('keeps a constant concurrency', async () => {
    const file = folder.chats(20);
    const { results } = await replay(file, endpoint.url, out, { concurrency: 5 });
    expect(endpoint.maxConnections).toBeLessThanOrEqual(5);
    expect(results.stats.succeeded).toBe(20);
    expect(results.stats.lastEndMs - results.stats.firstStartMs).toBeGreaterThan(3.8 * LATENCY_MS);
  });

  test('sends a warm-up that is not counted', async () => {
    const file = folder.chats(4);
    const { results, records } = await replay(file, endpoint.url, out, { warmup: 3 });
    expect(endpoint.arrivals.count).toBe(7);
    expect(records).toHaveLength(4);
    expect(results.stats.completed).toBe(4);
  });
});

describe('what is measured', () => {
  test('shows a stalled server in the effective latency even if few requests are let through', async () => {
    const STALL_MS = 1500;
    await endpoint.close();
    endpoint = await startStandInEndpoint({ latencyMs: 20, stall: { afterMs: 1000, durationMs: STALL_MS } });
    // Ten requests per second for four seconds, one at a time: the stall delays one request, and the others wait behind it.
    const file = folder.chats(40, (i) => Math.floor(i / 10));
    const { results } = await replay(file, endpoint.url, out, { maxConcurrency: 1, spreadSameSecond: 'even' });
    const fromSending = results.stats.distribution('request_latency');
    const fromSchedule = results.stats.distribution('effective_latency');
    expect(fromSending.percentile(90)).toBeLessThan(STALL_MS * 0.3);
    expect(fromSchedule.percentile(90)).toBeGreaterThan(STALL_MS * 0.6);
    expect(fromSchedule.max).toBeGreaterThan(STALL_MS * 0.9);
    // The chart of the report shows it at the scheduled times of the waiting requests.
    const waited = [...results.report.buckets].filter(([, { maxEffective }]) => maxEffective > STALL_MS * 0.6);
    expect(waited.map(([index]) => index * results.report.bucketMs)).toContain(1500);
    // The wait of a third of the requests does not count as the client's own delay. (A busy machine has some delay.)
    expect(results.stats.distribution('replay_client_lag').percentile(80)).toBeLessThan(STALL_MS / 2);
  });

  test('measures the first token, the gaps and the tokens of a stream', async () => {
    await endpoint.close();
    endpoint = await startStandInEndpoint({ latencyMs: 60, words: 8, interTokenMs: 15 });
    const file = folder.chats(6, (i) => i);
    const { records, results } = await replay(file, endpoint.url, out, { stream: true, speedup: 5 });
    for (const { metrics } of records) {
      expect(metrics.output_sequence_length?.value).toBe(8);
      expect(metrics.inter_chunk_latency?.value).toHaveLength(7);
      const { time_to_first_token: first, request_latency: latency, inter_token_latency: gap } = metrics;
      expect(first?.value).toBeGreaterThan(55);
      expect((first?.value ?? 0) + (gap?.value ?? 0) * 7).toBeCloseTo(latency?.value ?? 0, 3);
    }
    expect(results.stats.distribution('inter_token_latency').percentile(50)).toBeGreaterThan(13);
    const median = (metric: DistributionMetric): number => results.stats.distribution(metric).percentile(50);
    expect(median('request_latency') - median('time_to_first_token')).toBeGreaterThan(7 * 13 * 0.7);
  });

  test('records separate errors for a broken stream, invalid JSON, a timeout and a canceled request', async () => {
    const file = folder.write('a.jsonl', [
      chatLine('cut', 0, '[[cut stream]]', 'x', { stream: true }),
      chatLine('not json', 0, '[[not json]]'),
      chatLine('late', 0, '[[latency 20000]]'),
    ]);
    const { records } = await replay(file, endpoint.url, out, { timeout: 2 });
    const errors = Object.fromEntries(records.map(({ metadata, error }) => [metadata.event_id, error?.type]));
    expect(errors).toEqual({
      cut: 'ServerDisconnectedError',
      'not json': 'InvalidInferenceResultError',
      late: 'TimeoutError',
    });

    const options = { requestCancellationRate: 100, requestCancellationDelay: 0.02 };
    const cancelled = await replay(file, endpoint.url, join(folder.path, 'out2'), options);
    for (const { metadata, error, metrics } of cancelled.records) {
      const message = 'Request cancelled 0.020s after being sent';
      expect(error).toMatchObject({ code: 499, type: 'RequestCancellationError', message });
      expect(metadata).toMatchObject({ was_cancelled: true, cancellation_time_ns: metadata.request_end_ns });
      expect(metrics).toEqual({});
    }
    expect(cancelled.results.stats.cancelled).toBe(3);
  });
});

describe('results are written even if files fail', () => {
  const json = (name: string) => JSON.parse(readFileSync(join(out, name), 'utf8')) as Record<string, unknown>;
  const inputs = () => (json('inputs.json').data as { payloads: unknown[] }[]).flatMap(({ payloads }) => payloads);
  const chats = (name: string, from: number, count: number): string =>
    folder.write(
      `captures/${name}`,
      Array.from({ length: count }, (_, i) => chatLine(`e${from + i}`, from + i, `[#${from + i}] hello`)),
    );
  /** A target that runs `act` when the first request is encoded. */
  function onFirst(work: () => void): Target {
    const url = urlTarget(endpoint.url);
    let first = true;
    const encode: Target['encode'] = (...request) => {
      if (first) work();
      first = false;
      return url.encode(...request);
    };
    return { origin: url.origin, description: url.description, encode };
  }

  test.each<[string, string, (file: string) => void]>([
    ['is deleted', 'CaptureUnreadable', (file) => rmSync(file)],
    ['is cut short', 'CaptureChanged', (file) => writeFileSync(file, '')],
    ['is replaced', 'CaptureChanged', (file) => writeFileSync(file, `x${readFileSync(file, 'utf8')}`)],
  ])('continues with the other files if a capture file %s, and is incomplete', async (_, reason, change) => {
    // More than is read ahead.
    const count = 600;
    const first = chats('a.jsonl', 0, count);
    const second = chats('b.jsonl', count, 2);
    const target = onFirst(() => change(second));
    const { records, incomplete, sent, wasCancelled } = await replay(join(first, '..'), target, out, { speedup: 1000 });
    expect(records).toHaveLength(count);
    expect(incomplete).toBe('2 requests unsent because their captures could no longer be read');
    expect([sent, wasCancelled]).toEqual([count, false]);
    expect(json('profile_export_aiperf.json')).toMatchObject({ is_complete: false, incomplete_reason: incomplete });
    expect(readLines<SkippedLine>(join(out, 'skipped.jsonl'))).toEqual(
      [1, 2].map((line) => ({
        file: second,
        line,
        reason,
        message: expect.stringContaining(`b.jsonl, line ${line}`),
      })),
    );
    expect(inputs()).toHaveLength(count);
  });

  test('leaves out inputs.json and reports it if there is no space for it', async () => {
    mkdirSync(out);
    symlinkSync('/dev/full', join(out, 'inputs.json.part'));
    const { incomplete } = await replay(chats('a.jsonl', 0, 4), endpoint.url, out, { speedup: 10 });
    expect(incomplete).toBeUndefined();
    expect(json('replay.json')).toMatchObject({ inputs_left_out: expect.stringContaining('ENOSPC') });
    expect(json('profile_export_aiperf.json')).toMatchObject({ is_complete: true, request_count: { avg: 4 } });
    expect(readdirSync(out).filter((name) => name.startsWith('inputs.json'))).toEqual([]);
  });

  test('writes the figures if there is no space for the records', async () => {
    mkdirSync(out);
    symlinkSync('/dev/full', join(out, 'profile_export.jsonl'));
    const { unwritten } = await replay(chats('a.jsonl', 0, 3), endpoint.url, out, { speedup: 10 });
    expect(unwritten).toMatchObject({ name: 'ResultsNotWritten' });
    expect(json('profile_export_aiperf.json')).toMatchObject({ request_count: { avg: 3 } });
    expect(json('replay.json')).toMatchObject({ sent: 3 });
  });

  test('leaves requests out of inputs.json that were prepared but not sent', async () => {
    const stop = new AbortController();
    const file = chats('a.jsonl', 0, 30);
    const onStarted = (): void => void setTimeout(() => stop.abort(), 200);
    const { sent, unsent } = await replay(file, endpoint.url, out, { speedup: 10 }, { signal: stop.signal, onStarted });
    expect(unsent).toBeGreaterThan(0);
    expect(inputs()).toHaveLength(sent);
  });

  test('records a request whose payload cannot be serialised', async () => {
    const broken = jest.spyOn(Masker.prototype, 'value').mockReturnValue(1n as never);
    const redaction: Redaction = { ...redactRules('email'), allow: [], content: 'all', key: 'k', keyVersion: '1' };
    const { records } = await replay(chats('a.jsonl', 0, 2), endpoint.url, out, { speedup: 10 }, { redaction });
    broken.mockRestore();
    expect(records.map(({ error }) => error)).toEqual([undefined, undefined]);
    expect(inputs()).toEqual([{ text: NOT_MASKED }, { text: NOT_MASKED }]);
  });

  test('records an error for a reply that cannot be kept', async () => {
    const { records } = await replay(
      chats('a.jsonl', 0, 4),
      endpoint.url,
      out,
      { speedup: 10 },
      {
        read: ({ request, error }) => {
          if (request.eventId === 'e1' && !error) throw new RangeError('Maximum call stack size exceeded');
          return [];
        },
      },
    );
    const errors = records.map(({ metadata, error }) => [metadata.event_id, error?.type]);
    expect(errors.sort()).toEqual([['e0'], ['e1', 'ReplyNotRecorded'], ['e2'], ['e3']].map(([a, b]) => [a, b]));
    expect(json('profile_export_aiperf.json')).toMatchObject({ request_count: { avg: 3 }, is_complete: true });
    expect(existsSync(join(out, 'inputs.json'))).toBe(true);
  });

  test('reports requests that cannot be recorded, and keeps the others', async () => {
    const { records, incomplete } = await replay(
      chats('a.jsonl', 0, 3),
      endpoint.url,
      out,
      { speedup: 10 },
      {
        read: ({ request }) => {
          if (request.eventId === 'e1') throw new TypeError('not this one');
          return [];
        },
      },
    );
    expect(records).toHaveLength(2);
    expect(incomplete).toBe('1 requests sent but not recorded: TypeError');
  });
});
