/** Our result files in the hands of AIPerf itself: its models parse them, its plots draw them. */
import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Aiperf, aiperf } from '../../bench/replay-support/aiperf.ts';
import { projectPath } from '../../local/project-root.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../../local/stand-in-endpoint.ts';
import { findChromium } from '../helpers/chromium.ts';
import { captureLine, chatLine, type Replayed, ReplayFolder, replay } from '../helpers/replay.ts';

/** AIPerf's environment has 840 MB, and its imports take ten seconds. */
const SETUP_MS = 15 * 60_000;
const PLOT_MS = 5 * 60_000;

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let peer: Aiperf;

beforeAll(async () => {
  folder = new ReplayFolder();
  endpoint = await startStandInEndpoint({ latencyMs: 30, words: 8, interTokenMs: 4 });
  peer = await aiperf((line) => console.log(line));
}, SETUP_MS);
afterAll(async () => {
  await endpoint.close();
  folder.delete();
});

const execute = promisify(execFile);

async function readByAiperf(directory: string): Promise<Record<string, number | boolean | null>> {
  const script = projectPath('test', 'helpers', 'aiperf_files.py');
  const { stdout } = await execute(peer.environment.python, [script, directory], {
    env: peer.command([], folder.path).env,
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as Record<string, number | boolean | null>;
}

async function plot(directories: string[], output: string): Promise<void> {
  const { command, args, env } = peer.command(['plot', ...directories, '--output', output], folder.path);
  const chromium = findChromium();
  await execute(command, [...args], { env: { ...env, ...(chromium ? { BROWSER_PATH: chromium } : {}) } });
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
  return replay(file, endpoint.url, join(folder.path, name), { sliceDuration: 1, ...options }, { raw: true });
}

test(
  'are parsed, every line of them',
  async () => {
    const runs = [
      await replayed('plain', plain(), {}),
      await replayed('difficult', difficult(), {
        goodput: 'request_latency:200 time_to_first_token:100',
        cancellationRate: 20,
        cancellationDelay: 0.01,
        randomSeed: 2,
      }),
    ];
    for (const { directory, results, records } of runs) {
      const { stats } = results;
      expect(await readByAiperf(directory)).toEqual({
        records: records.length,
        failed: stats.failed,
        cancelled: stats.cancelled,
        withLatency: stats.succeeded,
        withInputs: records.length,
        raw: records.length,
        responses: expect.any(Number),
        requestCount: stats.succeeded,
        latencyCount: stats.succeeded,
        goodRequests: stats.withObjectives ? stats.good : null,
        errors: stats.failed,
        wasCancelled: false,
        slices: 4,
        plotRequests: records.length,
        plotSlices: 4,
      });
    }
    expect(runs[1]?.results.stats.cancelled).toBeGreaterThan(0);
  },
  PLOT_MS,
);

const drawn = findChromium() === undefined ? test.skip : test;

drawn(
  'are drawn, one run and two',
  async () => {
    const one = await replayed('one', difficult(), {});
    const two = await replayed('two', difficult(), { speedup: 2 });
    const plots = join(folder.path, 'plots');
    await plot([one.directory], plots);
    for (const name of ['ttft_over_time', 'ttft_timeline', 'timeslices_ttft', 'timeslices_itl']) {
      expect(existsSync(join(plots, `${name}.png`))).toBe(true);
      expect(statSync(join(plots, `${name}.png`)).size).toBeGreaterThan(10_000);
    }
    const both = join(folder.path, 'both');
    await plot([one.directory, two.directory], both);
    expect(existsSync(join(both, 'ttft_vs_throughput.png'))).toBe(true);
  },
  PLOT_MS,
);
