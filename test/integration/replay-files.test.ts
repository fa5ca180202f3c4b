/** The result files of a run, the report in a real browser, and the command line that creates them. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { openFollowUps } from '../../src/replay/follow-ups.ts';
import { DEFAULT_OPTIONS } from '../../src/replay/options.ts';
import { EXCHANGES_FILE, exchangeFile, traceNameOf } from '../../src/replay/publish/exchanges.ts';
import { urlTarget } from '../../src/replay/targets/url-target.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { inputsSchema, recordSchema, summarySchema } from '../helpers/aiperf-files.ts';
import { launchChromium } from '../helpers/chromium.ts';
import { runHere } from '../helpers/command-here.ts';
import { expectReadable, inBrowser, VIEWS } from '../helpers/in-browser.ts';
import { expectPublished } from '../helpers/published-json.ts';
import { captureLine, chatLine, ReplayFolder, readLines, replay, startCli } from '../helpers/replay.ts';

let folder: ReplayFolder;
let endpoint: StandInEndpoint;

beforeEach(async () => {
  folder = new ReplayFolder();
  endpoint = await startStandInEndpoint({ latencyMs: 20, words: 5, interTokenMs: 3, record: true });
});
afterEach(() => endpoint.close());

/** Successful and failed requests, streams, tables and a conversation, over three seconds. */
const mixed = (): string[] => [
  ...Array.from({ length: 18 }, (_, i) => chatLine(`e${i}`, i % 3, `[#${i}] hello`)),
  ...Array.from({ length: 6 }, (_, i) => chatLine(`s${i}`, i % 3, `[#${100 + i}] stream`, 'x', { stream: true })),
  chatLine('f429', 0, '[[status 429]] <script>alert(1)</script>'),
  chatLine('f500', 1, '[[status 500]]'),
  chatLine('gone', 1, '[[disconnect]]'),
  captureLine('csv', 2, { data: '1,2\n', encoding: 'CSV', contentType: 'text/csv' }),
  captureLine('image', 2, { data: 'AAEC/w==', encoding: 'BASE64', contentType: 'application/x-image' }),
  'not json',
];

const json = (directory: string, name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(directory, name), 'utf8')) as Record<string, unknown>;

test('the result files match AIPerf’s format and units, and agree with each other', async () => {
  const out = join(folder.path, 'out');
  const file = folder.write('a.jsonl', mixed());
  const options = {
    requestCancellationRate: 15,
    requestCancellationDelay: 0.005,
    goodput: 'request_latency:100',
    randomSeed: 3,
  };
  const { results } = await replay(file, endpoint.url, out, options);
  const records = readLines(join(out, 'profile_export.jsonl')).map((record) => recordSchema.parse(record));
  const summary = summarySchema.parse(json(out, 'profile_export_aiperf.json')) as unknown as Record<
    string,
    { avg: number; count: number; p50: number }
  >;
  inputsSchema.parse(json(out, 'inputs.json'));
  expect(records).toHaveLength(29);
  const good = records.filter(({ error }) => !error);
  expect(summary.request_count?.avg).toBe(good.length);
  expect(summary.request_latency?.count).toBe(good.length);
  expect(summary.error_request_count?.avg).toBe(29 - good.length);
  expect(results.stats.cancelled).toBeGreaterThan(0);
  const latencies = good.map(({ metrics }) => metrics.request_latency?.value as number).sort((a, b) => a - b);
  // The median of an even number of values is between the two in the middle.
  const [low = 0, high = 0] = [latencies[Math.ceil(latencies.length / 2) - 1], latencies[latencies.length >> 1]];
  expect(Math.abs((summary.request_latency?.p50 ?? 0) / ((low + high) / 2) - 1)).toBeLessThan(0.002);
  const errors = (summary.error_summary as unknown as { count: number }[]).reduce((sum, { count }) => sum + count, 0);
  expect(errors).toBe(29 - good.length);

  const csv = readFileSync(join(out, 'profile_export_aiperf.csv'), 'utf8').split('\n');
  expect(csv[0]).toBe('Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std');
  expect(csv).toContain('Metric,Value');
  expect(csv.find((row) => row.startsWith('Request Latency (ms),'))?.split(',')).toHaveLength(15);
  expect(csv).toContain(`Request Count,${good.length.toFixed(2)}`);
});

test('the result files contain no secret headers and no values of the URL’s query', async () => {
  const out = join(folder.path, 'out');
  const names = [
    ...[
      ...['Authorization', 'X-Api-Key', 'api_key', 'Ocp-Apim-Subscription-Key', 'X-Functions-Key'],
      ...['X-Auth-Key', 'X-Auth'],
    ],
    ...['CF-Access-Client-Id', 'Private-Key', 'X-Access-Key', 'X-Credential', 'X-Signature', 'X-Session', 'X-Bearer'],
  ];
  const headers = Object.fromEntries(names.map((name) => [name, 'hunter2']));
  const url = `${endpoint.url}/v1/chat/completions?api-key=hunter2&v=hunter2&hunter2`;
  const target = urlTarget(url, { ...headers, 'User-Agent': 'hunter2' });
  mkdirSync(out);
  const { description } = target;
  const kinds = { directory: out, report: true, compare: true };
  const followUps = await openFollowUps({ ...kinds, run: 'test-run', target: description });
  const spool = exchangeFile(out, { run: 'test-run', target: traceNameOf(description, 'test-run') });
  const options = { ...DEFAULT_OPTIONS, speedup: 10 };
  const result = await replay(folder.write('a.jsonl', mixed()), target, out, options, {
    keepCaptured: true,
    read: (measured, clock) => [...followUps.read(measured, clock), spool.read(measured, clock)],
  });
  await followUps.finish(result, false, new AbortController().signal);
  await spool.close();
  expect(endpoint.requests[0]).toMatchObject({ url: new URL(url).pathname + new URL(url).search });
  expect(endpoint.requests[0]?.headers).toMatchObject({ 'x-auth': 'hunter2', 'user-agent': 'hunter2' });
  const files = readdirSync(out);
  expect(files).toEqual(expect.arrayContaining(['report.html', EXCHANGES_FILE, 'replies.jsonl']));
  expect(files.filter((name) => readFileSync(join(out, name), 'utf8').includes('hunter2'))).toEqual([]);
  // Neither do the bodies, which are in base64.
  const spooled = readLines<{ captureData: Record<string, { data: string }> }>(join(out, EXCHANGES_FILE));
  const bodies = spooled.flatMap(({ captureData }) => Object.values(captureData).map(({ data }) => data));
  expect(bodies.map((data) => Buffer.from(data, 'base64').toString()).join()).not.toContain('hunter2');
  expect(json(out, 'replay.json').target).toEqual({
    kind: 'url',
    url: `${endpoint.url}/v1/chat/completions?api-key=<redacted>&v=<redacted>&<redacted>`,
  });
});

describe('the command', () => {
  test('prints what a dry run would send', async () => {
    const file = folder.write('a.jsonl', mixed());
    const { code, stdout } = await runHere(['replay', file, '--dry-run', '--json']);
    expect(code).toBe(0);
    expect(await expectPublished('replay', stdout)).toMatchObject({
      requests: 29,
      seconds: 2,
      streaming: 6,
      skipped: { NotJson: 1 },
      contentTypes: { 'text/csv': 1 },
    });
    const text = await runHere(['replay', file, '--dry-run']);
    expect(text.stdout).toContain('requests: 29');
    expect(text.stdout).toContain('Nothing was sent.');
    expect(endpoint.arrivals.count).toBe(0);
  });

  test('fails because of its error rate, or if it cannot run', async () => {
    const file = folder.write('a.jsonl', [
      ...Array.from({ length: 9 }, (_, i) => chatLine(`e${i}`, 0, 'ok')),
      chatLine('f', 0, '[[status 500]]'),
    ]);
    const args = ['replay', file, '--url', endpoint.url, '--quiet', '--no-report', '-o', join(folder.path, 'out')];
    expect((await runHere([...args, '--max-error-rate', '5%'])).code).toBe(1);
    const passed = await runHere([...args, '--max-error-rate', '10']);
    expect(passed).toMatchObject({ code: 0, stdout: expect.stringMatching(/succeeded: 9\nfailed: 1\n/) });
    const printed = await runHere([...args, '--max-error-rate', '10', '--compare', '--json']);
    expect(await expectPublished('replay', printed.stdout)).toMatchObject({
      sent: 10,
      succeeded: 9,
      failed: 1,
      errors: [{ code: 500, count: 1 }],
      metrics: { request_latency: { count: 9 } },
      comparison: { quality: { compared: 10 } },
    });
    const wrong = await runHere(['replay', file, '--url', endpoint.url, '--speedup', '0']);
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('InvalidReplayOptions: --speedup is invalid; got: 0; expected: a number above 0'),
    });
    const unreachable = await runHere(['replay', file, '--url', 'http://127.0.0.1:1', '-o', join(folder.path, 'out')]);
    expect(unreachable).toMatchObject({ code: 2, stderr: expect.stringContaining('TargetUnreachable') });
    const missing = await runHere(['replay', join(folder.path, 'none'), '--url', endpoint.url]);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('SourceMissing') });
  });

  test('shuts down gracefully on Ctrl-C: writes and marks the results, and exits with 130', async () => {
    const file = folder.chats(
      300,
      (i) => Math.floor(i / 10),
      (i) => `[#${i}] [[latency 300]]`,
    );
    const out = join(folder.path, 'out');
    const options = ['--spread-same-second', 'even', '--quiet', '-o', out, '--header', 'X-Key:s3cret'];
    const running = startCli(['replay', file, '--url', endpoint.url, ...options]);
    // After the first requests, as a person would.
    while (endpoint.arrivals.count < 15) await new Promise((resolve) => setTimeout(resolve, 20));
    process.kill(running.pid, 'SIGINT');
    const result = await running.done;
    expect(result.code).toBe(130);
    const records = readLines(join(out, 'profile_export.jsonl')).map((record) => recordSchema.parse(record));
    const cancelled = records.filter(({ metadata }) => metadata.was_cancelled).length;
    expect(cancelled).toBeGreaterThan(0);
    // Every request that arrived has a record. A request whose connection was still being opened did not arrive.
    expect(records.length).toBeGreaterThanOrEqual(endpoint.arrivals.count);
    expect(records.length - cancelled).toBeLessThanOrEqual(endpoint.arrivals.count);
    const summary = summarySchema.parse(json(out, 'profile_export_aiperf.json'));
    expect(summary).toMatchObject({ was_cancelled: true, is_complete: false });
    const unsent = 300 - records.length;
    expect(json(out, 'replay.json')).toMatchObject({ was_cancelled: true, sent: records.length, unsent });
    expect(existsSync(join(out, 'report.html'))).toBe(true);
    expect(result.stdout).toContain('The replay was stopped');
    // Sent by the command that is printed, the rest begins with the time of the first request that was not sent.
    const command = /^To send the rest: inference-monitor (.+)$/m.exec(result.stdout)?.[1] ?? '';
    const offset = 1000 * Math.floor(records.length / 10);
    expect(command).toBe(
      `replay ${file} --url ${endpoint.url} --spread-same-second even --quiet -o ${out} --header 'X-Key: …' --fixed-schedule-start-offset ${offset} --out ${out}-rest`,
    );
    const again = records.length % 10;
    if (again > 0) expect(result.stdout).toContain(`It sends ${again} requests again`);
    const rest = await runHere([...command.replace(/--header '.*?' /, '').split(' '), '--speedup', '100']);
    expect(rest).toMatchObject({ code: 0, stdout: expect.stringContaining(`sent: ${300 - records.length + again}`) });
  });

  test('shuts down gracefully when the terminal is closed, even after repeated signals', async () => {
    const file = folder.chats(
      100,
      (i) => i,
      (i) => `[#${i}] hello`,
    );
    const out = join(folder.path, 'out');
    const running = startCli(['replay', file, '--url', endpoint.url, '--speedup', '10', '--quiet', '-o', out]);
    while (endpoint.arrivals.count < 5) await new Promise((resolve) => setTimeout(resolve, 20));
    process.kill(running.pid, 'SIGHUP');
    process.kill(running.pid, 'SIGHUP');
    expect((await running.done).code).toBe(130);
    const records = readLines(join(out, 'profile_export.jsonl'));
    expect(json(out, 'replay.json')).toMatchObject({ was_cancelled: true, sent: records.length });
  });
});

inBrowser('in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  /** Opens a page. Fails on network requests and on console errors. */
  async function open(path: string) {
    const page = await browser.newPage({ viewport: { width: 1100, height: 900 } });
    const asked: string[] = [];
    const said: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(error.message));
    page.on('dialog', (dialog) => {
      said.push(`dialog ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(`file://${path}`);
    return { page, asked, said };
  }

  test('the report shows charts and tables, and what was captured does nothing but stand there', async () => {
    const out = join(folder.path, 'out');
    const file = folder.write('a.jsonl', mixed());
    const { code } = await runHere(['replay', file, '--url', endpoint.url, '--quiet', '--compare', '-o', out]);
    expect(code).toBe(0);
    const { page, asked, said } = await open(join(out, 'report.html'));
    expect(asked).toEqual([`file://${join(out, 'report.html')}`]);
    expect(said).toEqual([]);
    expect(await page.locator('svg').count()).toBe(4);
    for (const label of ['Latency of requests over time', 'Distribution of the latency', 'Throughput over time']) {
      const box = await page.locator(`svg[aria-label="${label}"]`).boundingBox();
      expect(box?.width).toBeGreaterThan(800);
      expect(box?.height).toBeGreaterThan(200);
    }
    // A cross for each failed request. The one in the legend does not count.
    const chart = page.locator('svg[aria-label="Latency of requests over time"]');
    expect(await chart.locator('path[stroke="#d6453d"][ecmeta_ssr_type="chart"]').count()).toBe(3);
    expect(await chart.innerHTML()).toContain('maximum effective latency');
    const failed = page.locator('section', { hasText: 'Failed requests' });
    expect(await failed.locator('tbody tr').count()).toBe(3);
    await failed.locator('summary', { hasText: 'input' }).first().click();
    expect(await failed.locator('pre').first().innerText()).toContain('<script>alert(1)</script>');
    expect(await page.locator('section', { hasText: 'Slowest requests' }).last().locator('tbody tr').count()).toBe(20);
    expect(await page.locator('body').innerText()).toContain('replies compared');
    for (const view of VIEWS) await expectReadable(page, view);
    // On a phone charts and tables scroll horizontally, and stay readable.
    await page.setViewportSize({ width: 400, height: 900 });
    expect((await chart.boundingBox())?.width).toBeGreaterThan(600);
    expect((await failed.locator('td').last().boundingBox())?.width).toBeGreaterThanOrEqual(150);
    await page.close();
  });

  test('the report shows a single request in every chart, and warns if there was no request', async () => {
    const out = join(folder.path, 'out');
    const file = folder.write('a.jsonl', [chatLine('\u202eone', 0, 'hello')]);
    const args = ['replay', file, '--url', endpoint.url, '--quiet', '-o', out];
    expect((await runHere(args)).code).toBe(0);
    const one = await open(join(out, 'report.html'));
    for (const label of ['Latency of requests over time', 'Throughput over time']) {
      // Points of lines; a chart without a visible line has none.
      const points = one.page.locator(`svg[aria-label="${label}"] [ecmeta_ssr_type="chart"]`);
      expect(await points.count()).toBeGreaterThan(0);
    }
    // A bidirectional control character in a captured id does not affect the text around it.
    const place = one.page.locator('section', { hasText: 'Slowest requests' }).locator('.soft bdi');
    expect(await place.innerText()).toBe(file);
    expect(one.said).toEqual([]);
    await one.page.close();
    expect((await runHere([...args, '--fixed-schedule-start-offset', '60000'])).code).toBe(1);
    const none = await open(join(out, 'report.html'));
    expect(await none.page.locator('.warn').innerText()).toContain('no request');
    expect(await none.page.locator('svg').count()).toBe(0);
    for (const view of VIEWS) await expectReadable(none.page, view);
    await none.page.close();
  });

  test('the comparison of two runs', async () => {
    const file = folder.chats(
      20,
      () => 0,
      (i) => `hello ${i}`,
    );
    const runs = [join(folder.path, 'one'), join(folder.path, 'two')];
    for (const out of runs)
      await runHere(['replay', file, '--url', endpoint.url, '--quiet', '--no-report', '--compare', '-o', out]);
    await runHere(['compare', ...runs]);
    const { page, asked, said } = await open(join(runs[1] ?? '', 'comparison.html'));
    expect([asked.length, said]).toEqual([1, []]);
    expect(await page.locator('svg').count()).toBe(1);
    expect(await page.locator('section', { hasText: 'Differences' }).locator('tbody tr').count()).toBeGreaterThan(1);
    for (const view of VIEWS) await expectReadable(page, view);
    await page.close();
  });
});
