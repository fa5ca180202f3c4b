/** The replay command in unusual situations: options, the output directory, signals before the first request. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { runHere } from '../helpers/command-here.ts';
import { chatLine, ReplayFolder, runCli, startCli } from '../helpers/replay.ts';
import { timedLine } from '../helpers/timed-line.ts';

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let out: string;

beforeEach(async () => {
  folder = new ReplayFolder();
  out = join(folder.path, 'out');
  endpoint = await startStandInEndpoint({ latencyMs: 10 });
});
afterEach(() => endpoint.close());

const lines = (count: number, prompt = 'hello'): string[] =>
  Array.from({ length: count }, (_, i) => chatLine(`e${i}`, 0, `[#${i}] ${prompt}`));
const run = (file: string, ...more: string[]) =>
  runHere(['replay', file, '--url', endpoint.url, '--quiet', '--no-report', '-o', out, ...more]);

test('fails with the reason if nothing can be sent', async () => {
  const skipped = await run(folder.write('a.jsonl', lines(3)), '--set', 'model.name=x');
  expect(skipped).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/OverrideFailed: 3\n[\s\S]*Nothing was sent: no record is valid/),
  });
  const outside = await run(folder.write('b.jsonl', lines(3)), '--fixed-schedule-start-offset', '5000');
  expect(outside).toMatchObject({ code: 1, stdout: expect.stringContaining('Nothing was sent') });
  expect(endpoint.arrivals.count).toBe(0);
});

test('deletes the files of an earlier run', async () => {
  const file = folder.write('a.jsonl', [...lines(3), 'not json']);
  expect((await run(file, '--compare')).code).toBe(0);
  writeFileSync(join(out, 'mine.txt'), 'kept');
  const own = ['compare.json', 'replies.jsonl', 'skipped.jsonl'];
  for (const name of own) expect(readdirSync(out)).toContain(name);
  const again = await run(folder.write('b.jsonl', lines(2)));
  expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('earlier run') });
  for (const name of own) expect(readdirSync(out)).not.toContain(name);
  expect(readFileSync(join(out, 'mine.txt'), 'utf8')).toBe('kept');
  expect(readFileSync(join(out, 'profile_export.jsonl'), 'utf8').trim().split('\n')).toHaveLength(2);
});

test('captured times of replies that came whole, and first tokens of broken streams, stand beside those of the replay, and no threshold has them', async () => {
  const timed = (client: object, n: number) =>
    JSON.stringify(timedLine(JSON.parse(lines(4)[n] ?? ''), { status: 200, firstByteMs: 1, ...client }));
  const captures = [
    timed({ streamed: true, ended: 'whole', firstMs: 111, endMs: 2222 }, 0),
    timed({ streamed: false, ended: 'whole', endMs: 4444 }, 1),
    timed({ streamed: true, ended: 'broke', firstMs: 9, endMs: 9, error: { kind: 'stream', class: 'E' } }, 2),
    timed({ streamed: true, ended: 'whole', firstMs: 9, endMs: -9 }, 3),
  ];
  const file = folder.write('a.jsonl', captures);
  const { stdout, code } = await runHere(['replay', file, '--url', endpoint.url, '--quiet', '-o', out]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^request latency .*\ncaptured latency, measured elsewhere \(ms\) +3333\.00 .* 4444\.00 *$/m);
  expect(stdout).toMatch(/^captured time to first token, measured elsewhere \(ms\) +60\.00 /m);
  const { captured_latency: latency } = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8'));
  expect(latency).toMatchObject({ unit: 'ms', min: 2222, max: 4444 });
  expect(readFileSync(join(out, 'report.html'), 'utf8')).toContain('captured latency, measured elsewhere (ms)');
  const compared = await runHere(['compare', out, out, '--threshold', 'captured_latency:p95:10%']);
  expect(compared).toMatchObject({ code: 2, stderr: expect.stringContaining('captured_latency') });
});

/** The options of AIPerf's guide, except its model. */
const GUIDE = [
  ...['--endpoint-type', 'chat', '--custom-dataset-type', 'sagemaker_data_capture'],
  ...['--fixed-schedule', '--fixed-schedule-auto-offset'],
];

test('takes the line of AIPerf’s guide, and writes its options as AIPerf does', async () => {
  await endpoint.close();
  endpoint = await startStandInEndpoint({ latencyMs: 10, record: true });
  folder.write('captured_data/2026/a.jsonl', lines(3));
  const captures = join(folder.path, 'captured_data');
  const bare = endpoint.url.replace('http://', '');
  const own = ['--quiet', '--no-report', '-o', out];
  const options = ['--model', 'my-model', '--url', bare, '--input-file', captures];
  const found = await runHere(['replay', ...options, ...GUIDE, ...own]);
  expect(found.code).toBe(0);
  expect(endpoint.requests.map(({ url }) => url)).toEqual(Array(3).fill('/v1/chat/completions'));
  expect(
    endpoint.requests.every(({ body }) => (JSON.parse(String(body)) as { model: string }).model === 'my-model'),
  ).toBe(true);
  const summary = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8')) as Record<string, unknown>;
  expect(summary.input_config).toMatchObject({
    models: { items: [{ name: 'my-model' }] },
    endpoint: { urls: [`${endpoint.url}/v1/chat/completions`], type: 'chat', timeout: 600 },
    datasets: [{ type: 'file', path: captures, format: 'sagemaker_data_capture' }],
    phases: [{ name: 'profiling', type: 'fixed_schedule', auto_offset: true }],
  });
});

test.each([
  [['--endpoint-type', 'completions'], /'completions' is invalid.*expected chat; without it/],
  [['--streaming'], /AIPerf's --streaming is no option of replay: use --stream/],
  [['--ui', 'simple'], /use --quiet/],
  [['--artifact-dir', 'x'], /use --out/],
  [['--extra-inputs=temperature:0'], /use --set key=value/],
  [['-H', 'a: b'], /AIPerf's -H is .*use --header/],
  [['--fixed-schedule', '--concurrency', '2'], /two kinds of timing.*--max-concurrency/],
  [['--custom-dataset-type', 'mooncake_trace'], /'mooncake_trace' is invalid.*sagemaker_data_capture/],
  [['--input-file', 'more.jsonl'], /A replay needs the captures once; got: both/],
])('refuses AIPerf’s other options by name: %j', async (options, message) => {
  const refused = await run(folder.write('a.jsonl', lines(1)), ...options);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(message) });
  expect(endpoint.arrivals.count).toBe(0);
});

test('reads compressed captures, and names a damaged file', async () => {
  folder.write('captures/a.jsonl', lines(2));
  writeFileSync(join(folder.path, 'captures/b.jsonl.gz'), gzipSync(`${chatLine('z', 0, 'packed')}\n`));
  expect((await run(join(folder.path, 'captures'))).code).toBe(0);
  expect(endpoint.arrivals.count).toBe(3);
  const records = readFileSync(join(out, 'profile_export.jsonl'), 'utf8');
  expect(records).toContain('b.jsonl.gz');
  const damaged = folder.write('c.jsonl.gz', ['']);
  writeFileSync(damaged, gzipSync('x'.repeat(1000)).subarray(0, 20));
  expect(await run(damaged)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/CaptureUnreadable.*c\.jsonl\.gz/s),
  });
});

test('a second replay into the directory of one that is running is refused', async () => {
  const file = folder.chats(
    30,
    (i) => i,
    (i) => `[#${i}] hello`,
  );
  const options = ['--url', endpoint.url, '--quiet', '--no-report', '-o', out, '--speedup', '6'];
  const first = startCli(['replay', file, ...options]);
  while (endpoint.arrivals.count === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const second = await run(file);
  expect(second).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/OutputUnusable: Another replay is writing to the directory; got: .*of process \d+/),
  });
  expect((await first.done).code).toBe(0);
  expect(readFileSync(join(out, 'profile_export.jsonl'), 'utf8').trim().split('\n')).toHaveLength(30);
  // What a killed process leaves does not keep others out.
  writeFileSync(join(out, '.replay-in-use'), '4194300');
  expect((await run(folder.write('b.jsonl', lines(1)))).code).toBe(0);
  expect(readdirSync(out)).not.toContain('.replay-in-use');
});

test('keeps earlier results, and creates no directory, if the target, the judge or MLflow cannot be reached', async () => {
  const file = folder.write('a.jsonl', lines(2));
  expect((await run(file)).code).toBe(0);
  const before = readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8');
  const dead = await startMisbehavingServer();
  await dead.stop();
  const args = ['replay', file, '--quiet', '--no-report'];
  const env = { DOTENV_CONFIG_PATH: join(folder.path, 'none'), MLFLOW_TRACKING_URI: dead.url };
  const cases: [string[], RegExp][] = [
    [['--url', dead.url], /TargetUnreachable/],
    [['--url', endpoint.url, '--mlflow', '--tracking-uri', 'nonsense'], /InvalidSettings|Mlflow/],
    [['--url', endpoint.url, '--judge', '--judge-model', 'openai:/no-price'], /JudgePriceUnknown|InvalidSettings/],
  ];
  for (const [flags, message] of cases) {
    for (const directory of [out, join(folder.path, 'new')]) {
      const failed = await runHere([...args, ...flags, '-o', directory], env);
      expect(failed).toMatchObject({ code: 2, stderr: expect.stringMatching(message) });
    }
    expect(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8')).toBe(before);
    expect(existsSync(join(folder.path, 'new'))).toBe(false);
  }
});

test('reports an unusable output directory before anything is sent', async () => {
  mkdirSync(join(folder.path, 'dir'));
  writeFileSync(join(folder.path, 'dir', 'file'), '');
  out = join(folder.path, 'dir', 'file');
  expect(await run(folder.write('a.jsonl', lines(1)))).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/OutputUnusable: .*dir\/file/),
  });
  // Node's recursive mkdir would loop there forever.
  out = '/proc/replay-results';
  expect(await run(folder.write('a.jsonl', lines(1)))).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/OutputUnusable: .*ENOENT/),
  });
  expect(endpoint.arrivals.count).toBe(0);
});

test('reads window times without an offset as UTC, like captured times', async () => {
  const file = folder.chats(4, (i) => i);
  for (const [from, to] of [
    ['2026-11-20T10:00:01', '2026-11-20T10:00:03'],
    ['2026-11-20T12:00:01+02:00', '2026-11-20T10:00:03Z'],
  ] as const) {
    const args = ['replay', file, '--dry-run', '--from', from, '--to', to];
    const { stdout } = await runCli(args, { TZ: 'Asia/Tokyo' });
    expect(stdout).toMatch(/^requests: 2\n/);
  }
});

test('does not count intentionally canceled requests as failures for the exit code', async () => {
  const strict = ['--max-error-rate', '0', '--request-cancellation-delay', '0.02'];
  const slow = folder.write('a.jsonl', lines(20, '[[latency 500]]'));
  const half = await run(slow, ...strict, '--request-cancellation-rate', '50');
  expect(half).toMatchObject({ code: 0, stdout: expect.stringMatching(/cancelled: [1-9]/) });
  // AIPerf's figures count them as failed.
  const summary = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8'));
  const cancelled = Number(/cancelled: (\d+)/.exec(half.stdout)?.[1]);
  expect(summary).toMatchObject({ error_request_count: { avg: cancelled }, request_count: { avg: 20 - cancelled } });
  // No threshold counts a failure.
  const before = join(folder.path, 'before');
  renameSync(out, before);
  expect((await run(slow, ...strict, '--compare', '--request-cancellation-rate', '0')).code).toBe(0);
  const gates = ['error_rate:60', 'newly_failing:60'].flatMap((gate) => ['--threshold', gate]);
  const compare = ['compare', out, before, '--no-report', ...gates];
  const compared = await runCli(compare);
  expect(compared).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`0 failed, ${cancelled} canceled on purpose`),
  });
  // Even on a busy machine, no reply arrives before the cancellation.
  const silent = folder.write('silent.jsonl', lines(20, '[[latency 600000]]'));
  expect(await run(silent, ...strict, '--request-cancellation-rate', '100')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('cancelled: 20'),
  });
  // None of the other requests succeeded.
  const bad = folder.write('b.jsonl', lines(20, '[[latency 500]] [[status 500]]'));
  const args = ['--request-cancellation-delay', '0.02', '--request-cancellation-rate', '50'];
  expect(await run(bad, ...args)).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/failed: 20\ncancelled: [1-9]/),
  });
});

test('stops on Ctrl-C during the warm-up', async () => {
  const file = folder.write('a.jsonl', lines(20, '[[latency 60000]]'));
  const args = ['replay', file, '--url', endpoint.url, '--warmup', '20', '--quiet', '--no-report', '-o', out];
  const running = startCli(args);
  while (endpoint.arrivals.count < 8) await new Promise((resolve) => setTimeout(resolve, 20));
  process.kill(running.pid, 'SIGINT');
  expect(await running.done).toMatchObject({ code: 130, stdout: expect.stringContaining('sent: 0') });
  expect(endpoint.arrivals.count).toBe(8);
  expect(existsSync(join(out, 'profile_export_aiperf.json'))).toBe(true);
});

test('removes control characters of the target from the terminal output', async () => {
  const talking = await startMisbehavingServer({
    rule: () => ({ kind: 'reply', status: 500, body: '\u001b[2J\u001b]0;owned\u0007 \u009b31m sorry' }),
  });
  try {
    const args = ['replay', folder.write('a.jsonl', lines(1)), '--url', talking.url, '--no-report', '-o', out];
    const { code, stdout, stderr } = await runCli(args);
    expect(code).toBe(1);
    expect(stdout).toContain('sorry');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
    expect(stdout + stderr).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
  } finally {
    await talking.stop();
  }
});

test('a header of the command line replaces one of the file, ignoring case', async () => {
  const recording = await startStandInEndpoint({ latencyMs: 1, record: true });
  try {
    const headers = folder.write('headers.txt', ['# ours', 'Authorization: Bearer of-the-file', 'X-Team: a']);
    const args = ['replay', folder.write('a.jsonl', lines(1)), '--url', recording.url, '--quiet', '--no-report'];
    const given = ['--headers-file', headers, '--header', 'authorization: Bearer of-the-line', '-o', out];
    expect((await runCli([...args, ...given])).code).toBe(0);
    expect(recording.requests[0]?.headers).toMatchObject({ authorization: 'Bearer of-the-line', 'x-team': 'a' });
  } finally {
    await recording.close();
  }
});
