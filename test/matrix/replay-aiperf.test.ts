/** Checks the result files with AIPerf: its models parse them, its plots draw them. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parse } from 'csv-parse/sync';
import { type Aiperf, aiperf, profileArgs } from '../../bench/replay-support/aiperf.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { recordSchema } from '../helpers/aiperf-files.ts';
import { chromiumProgram } from '../helpers/chromium.ts';
import { inBrowser } from '../helpers/in-browser.ts';
import {
  captureLine,
  chatLine,
  type Replayed,
  ReplayFolder,
  type ReplayRecord,
  readLines,
  replay,
} from '../helpers/replay.ts';
import { CloudReplays } from '../helpers/replay-cloud.ts';
import { serve } from '../helpers/serve.ts';

type Json = Record<string, unknown>;

const isMetric = (value: unknown): value is Json => typeof value === 'object' && value !== null && 'unit' in value;

/** Returns `tag` of each key, `tag.statistic` of each metric, and `tag [unit]`. */
function summaryKeys(summary: Json): Set<string> {
  const keys = new Set<string>();
  for (const [tag, value] of Object.entries(summary)) {
    keys.add(tag);
    if (!isMetric(value)) continue;
    keys.add(`${tag} [${value.unit}]`);
    for (const statistic of Object.keys(value)) keys.add(`${tag}.${statistic}`);
  }
  return keys;
}

const recordKeys = (lines: readonly Json[]): Set<string> =>
  new Set(
    lines.flatMap((line) =>
      ['metadata', 'metrics', 'error'].flatMap((part) =>
        Object.entries((line[part] ?? {}) as Json).flatMap(([key, value]) => [
          `${part}.${key}`,
          ...(isMetric(value) ? [`${part}.${key} [${value.unit}]`] : []),
        ]),
      ),
    ),
  );

function keysOf(directory: string): Record<string, Set<string>> {
  const path = (name: string): string => join(directory, name);
  const json = (name: string): Json => JSON.parse(readFileSync(path(name), 'utf8')) as Json;
  const cells = (name: string, column: number): Set<string> =>
    new Set(
      (parse(readFileSync(path(name)), { relax_column_count: true, skip_empty_lines: true }) as string[][]).map(
        (row) => row[column] ?? '',
      ),
    );
  return {
    summary: summaryKeys(json('profile_export_aiperf.json')),
    csv: cells('profile_export_aiperf.csv', 0),
    records: recordKeys(readLines(path('profile_export.jsonl'))),
  };
}

/** Returns `tag` for `tag.statistic` and `tag [unit]`; for a record, `metrics.tag`. */
function tagOf(key: string): string {
  const name = key.replace(/ \[.*$/, '');
  return /^(metadata|metrics|error)\./.test(name) ? name : name.replace(/\..*$/, '');
}

/** Returns the sorted keys of the files in `theirs` that are missing in `ours`, by file. For a missing tag, only the tag. */
function missingKeys(theirs: string, ours: string): Record<string, string[]> {
  const found = keysOf(ours);
  return Object.fromEntries(
    Object.entries(keysOf(theirs)).map(([file, keys]) => {
      const missing = [...keys].filter((key) => !found[file]?.has(key));
      const tags = file.toLowerCase().endsWith('csv') ? missing : missing.map(tagOf);
      const whole = new Set(tags.filter((tag) => ![...(found[file] ?? [])].some((key) => tagOf(key) === tag)));
      return [file, [...whole, ...missing.filter((_, i) => !whole.has(tags[i] ?? ''))].sort()];
    }),
  );
}

/** AIPerf's environment has 840 MB, and its imports take ten seconds. */
const SETUP_MS = 15 * 60_000;
const PLOT_MS = 5 * 60_000;

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let peer: Aiperf;
let cloud: CloudReplays;

beforeAll(async () => {
  folder = new ReplayFolder();
  endpoint = await startStandInEndpoint({ latencyMs: 30, words: 8, interTokenMs: 4 });
  peer = await aiperf((line) => console.log(line));
  cloud = await CloudReplays.start();
}, SETUP_MS);
afterAll(async () => {
  await cloud?.stop();
  await endpoint.close();
});

const execute = promisify(execFile);

async function readByAiperf(directory: string): Promise<Record<string, number | boolean | null>> {
  const script = packagePath('test', 'helpers', 'aiperf_files.py');
  const { stdout } = await execute(peer.environment.python, [script, directory], {
    env: peer.command([], folder.path).env,
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}');
}

async function plot(directories: string[], output: string): Promise<void> {
  const { command, args, env } = peer.command(['plot', ...directories, '--output', output], folder.path);
  const { executablePath, env: own } = await chromiumProgram();
  await execute(command, [...args], { env: { ...own, ...env, BROWSER_PATH: executablePath } });
}

const plain = (): string[] => Array.from({ length: 30 }, (_, i) => chatLine(`e${i}`, i % 4, `[#${i}] hello`));
const difficult = (): string[] => [
  ...Array.from({ length: 24 }, (_, i) =>
    chatLine(`s${i}`, i % 4, `[#${i}] hello`, 'x', { stream: true, stream_options: { include_usage: true } }),
  ),
  chatLine('429', 1, '[[status 429]]'),
  chatLine('500', 2, '[[status 500]]'),
  chatLine('gone', 2, '[[disconnect]]'),
  captureLine('csv', 3, { data: '1,2\n', encoding: 'CSV', contentType: 'text/csv' }),
  captureLine('image', 3, { data: 'AAEC/w==', encoding: 'BASE64', contentType: 'application/x-image' }),
];

async function replayed(name: string, lines: string[], options: object): Promise<Replayed> {
  const file = folder.write(`${name}.jsonl`, lines);
  return replay(file, endpoint.url, join(folder.path, name), options);
}

/** Options that produce every kind of result line. */
const cancelled = { requestCancellationRate: 20, requestCancellationDelay: 0.01, randomSeed: 2 };
const EVERY_KIND = { ...cancelled, goodput: 'request_latency:200 time_to_first_token:100' };
/** Enough time to plan on a busy machine before the shards start. */
const IN_TIME_MS = 10_000;

/** Replays in the cloud, with two windows of two seconds and several stripes each. @returns the folder of the copied files */
async function replayedInCloud(name: string, lines: string[], options: object): Promise<string> {
  await cloud.put(`${name}/00`, lines);
  const run = cloud.run({
    source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` },
    target: { url: endpoint.url },
    compare: true,
    shard: { seconds: 2, requestsPerSecond: 5 },
    ...options,
  });
  expect(await run.all(IN_TIME_MS)).toMatchObject({ error: '', ok: true });
  const { shards } = await run.json<{ shards: object }>('replay.json');
  expect(shards).toMatchObject({ lost: [], incomplete: [] });
  return run.download(join(folder.path, `cloud-${name}`));
}

/** Returns the values that AIPerf must find in the files of a replay with these records. */
function found(records: readonly ReplayRecord[]): Record<string, unknown> {
  const failed = records.filter(({ error }) => error).length;
  return {
    records: records.length,
    failed,
    cancelled: records.filter(({ metadata }) => metadata.was_cancelled).length,
    withLatency: records.length - failed,
    withInputs: records.length,
    requestCount: records.length - failed,
    csvRequestCount: records.length - failed,
    csvLatencyError: false,
    latencyCount: records.length - failed,
    goodRequests: null,
    errors: failed,
    wasCancelled: false,
    plotRequests: records.length,
  };
}

test(
  'AIPerf parses every line of a local replay',
  async () => {
    const runs = [await replayed('plain', plain(), {}), await replayed('difficult', difficult(), EVERY_KIND)];
    for (const { directory, results, records } of runs) {
      const { stats } = results;
      expect(await readByAiperf(directory)).toEqual({
        ...found(records),
        failed: stats.failed,
        cancelled: stats.cancelled,
        goodRequests: stats.withObjectives ? stats.good : null,
      });
    }
    expect(runs[1]?.results.stats.cancelled).toBeGreaterThan(0);
  },
  PLOT_MS,
);

test(
  'AIPerf parses every line of a cloud replay, merged from its shards',
  async () => {
    const lines = { plain: plain(), difficult: difficult() };
    const directories = {
      plain: await replayedInCloud('plain', lines.plain, {}),
      difficult: await replayedInCloud('difficult', lines.difficult, EVERY_KIND),
    };
    for (const name of ['plain', 'difficult'] as const) {
      const directory = directories[name];
      const records = readLines<ReplayRecord>(join(directory, 'profile_export.jsonl'));
      for (const record of records) recordSchema.parse(record);
      expect(records).toHaveLength(lines[name].length);
      expect(new Set(records.map(({ metadata }) => metadata.worker_id)).size).toBeGreaterThanOrEqual(4);
      const good = records.filter(({ metrics }) => metrics.good_request_count?.value === 1).length;
      const expected = found(records);
      expect(await readByAiperf(directory)).toEqual({ ...expected, goodRequests: name === 'plain' ? null : good });
      if (name === 'difficult') expect(expected.cancelled).toBeGreaterThan(0);
    }
  },
  PLOT_MS,
);

const AGENTS = ['metadata.agent_depth', 'metadata.context_overflow_skip', 'metadata.root_correlation_id'];
/** Keys that AIPerf's files have and ours do not, see docs/replay.md. */
const LEFT_OUT: Record<string, string[]> = {
  summary: ['aiperf_version', 'telemetry_data'],
  csv: ['Endpoint'],
  records: AGENTS,
};
/** Concurrency over time, of which our files contain only the mean over the run, `effective_concurrency.avg`; the lag of the schedule; the HTTP client's own; and what follows from other figures. */
const NOT_OURS =
  /^((metrics\.)?(active_|adj_|replay_sched_|http_req_|usage_|total_|decode_duration|prefill_|error_isl|output_token_count|reasoning_token_count|good_request_fraction|input_token_throughput)|HTTP |tokens_in_flight|effective_(decode|prefill|total)_|effective_concurrency\.(?!avg)|(Active|Replay Schedule|Effective (Decode|Prefill|Total)|Tokens In Flight|Usage|Total|Decode Duration|Prefill|Error Input|Output Token Count|Reasoning Token Count|GoodRequestFraction|Input Token Throughput)\b|.*\(error-adjusted\))/;

test.each(['plain', 'streamed'])(
  'the files have all keys and units of AIPerf’s files, except the documented ones: %s',
  async (kind) => {
    const streamed = kind === 'streamed';
    const stream = streamed ? { stream: true, stream_options: { include_usage: true } } : {};
    const lines = [
      ...Array.from({ length: 30 }, (_, i) => chatLine(`k${i}`, i % 3, `[#${i}] hello`, 'Fine.', stream)),
      chatLine('400', 1, '[[status 400]]', 'x', stream),
    ];
    const goodput = streamed ? 'request_latency:200 time_to_first_token:100' : 'request_latency:200';
    const ours = await replayed(`keys-${kind}`, lines, { goodput });
    const theirs = join(folder.path, `aiperf-${kind}`);
    const { command, args, env } = peer.command(
      [
        ...profileArgs(join(folder.path, `keys-${kind}.jsonl`), endpoint.url, theirs),
        ...['--goodput', goodput],
        ...(streamed ? ['--streaming'] : []),
      ],
      folder.path,
    );
    await execute(command, [...args], { env, cwd: folder.path, maxBuffer: 64 * 1024 * 1024 });
    for (const [file, keys] of Object.entries(missingKeys(theirs, ours.directory))) {
      const left = keys.filter((key) => !NOT_OURS.test(key)).map((key) => key.replace(/ \(.*\)$/, ''));
      expect({ file, left }).toEqual({ file, left: [...(LEFT_OUT[file] ?? [])].sort() });
    }
    const counts = (directory: string): object[] => {
      const summary = JSON.parse(readFileSync(join(directory, 'profile_export_aiperf.json'), 'utf8'));
      return [summary.osl_mismatch_count, summary.context_overflow_count];
    };
    expect(counts(ours.directory)).toEqual(counts(theirs));
  },
  PLOT_MS,
);

/** Headers at once, then a comment and the role; the words much later, then a late end with a trailer. */
async function answerOddly(response: ServerResponse): Promise<void> {
  const event = (data: object): boolean =>
    response.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', ...data })}\n\n`);
  const piece = (delta: object): boolean => event({ choices: [{ index: 0, delta }] });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  await wait(100);
  response.write(': keep-alive\n\n');
  piece({ role: 'assistant', content: '' });
  await wait(300);
  for (const word of ['Ferns', ' have', ' no', ' flowers.']) {
    piece({ content: word });
    await wait(60);
  }
  event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 } });
  await wait(200);
  response.write('data: [DONE]\n\n');
  response.addTrailers({ 'x-done': 'yes' });
  response.end();
}

/** Of the schedule and of the whole run, which docs/replay.md defines otherwise. */
const DEFINED_OTHERWISE =
  /^(credit_to_start|replay_sched|benchmark_duration|effective_concurrency|.*throughput$|goodput)/;

test(
  'what both files have means the same, on a server that streams oddly',
  async () => {
    const server = await serve((message, response) => message.resume().on('end', () => void answerOddly(response)));
    try {
      const { url } = server;
      const stream = { stream: true, stream_options: { include_usage: true } };
      const lines = Array.from({ length: 20 }, (_, i) => chatLine(`o${i}`, i % 5, `[#${i}] hello`, 'x', stream));
      const file = folder.write('odd.jsonl', lines);
      const ours = await replay(file, url, join(folder.path, 'odd'), {});
      const theirs = join(folder.path, 'odd-aiperf');
      const asked = [...profileArgs(file, url, theirs), '--streaming', '--use-server-token-count'];
      const { command, args, env } = peer.command(asked, folder.path);
      await execute(command, [...args], { env, cwd: folder.path, maxBuffer: 64 * 1024 * 1024 });
      const [mine, other] = [ours.directory, theirs].map((directory) =>
        JSON.parse(readFileSync(join(directory, 'profile_export_aiperf.json'), 'utf8')),
      );
      const tags = Object.keys(mine).filter((tag) => mine[tag]?.unit && other[tag]?.unit);
      const compared = tags.filter((tag) => !DEFINED_OTHERWISE.test(tag));
      expect(compared).toEqual(
        expect.arrayContaining(['time_to_first_token', 'request_latency', 'inter_token_latency']),
      );
      // A busy machine delays either by some of this; a time of something else is further off.
      const apart = compared.flatMap((tag) => {
        const [a, b] = [mine[tag], other[tag]].map(({ p50, avg }) => Number(p50 ?? avg));
        const isNear =
          Math.abs(Number(a) - Number(b)) <= 0.2 * Math.abs(Number(b)) + (mine[tag].unit === 'ms' ? 20 : 0);
        return isNear && mine[tag].unit === other[tag].unit ? [] : [{ tag, a, b }];
      });
      expect(apart).toEqual([]);
    } finally {
      await server.close();
    }
  },
  PLOT_MS,
);

inBrowser('with a browser', () => {
  test(
    'AIPerf plots a local run, a cloud run, and several runs',
    async () => {
      const one = await replayed('one', difficult(), {});
      const two = await replayed('two', difficult(), { speedup: 2 });
      const cloudy = await replayedInCloud('drawn', difficult(), {});
      for (const [i, directory] of [one.directory, cloudy].entries()) {
        const plots = join(folder.path, `plots-${i}`);
        await plot([directory], plots);
        for (const name of ['ttft_over_time', 'ttft_timeline']) {
          expect(existsSync(join(plots, `${name}.png`))).toBe(true);
          expect(statSync(join(plots, `${name}.png`)).size).toBeGreaterThan(10_000);
        }
      }
      const all = join(folder.path, 'all');
      await plot([one.directory, two.directory, cloudy], all);
      expect(existsSync(join(all, 'ttft_vs_throughput.png'))).toBe(true);
    },
    PLOT_MS,
  );
});
