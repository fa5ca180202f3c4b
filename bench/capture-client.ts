/**
 * What the capture clients cost an application: bare and captured requests alternate, in Node and Python. Times to the first byte, also
 * of other requests while a body of 1 MB is encoded, and while S3 is down, slow or full; and memory.
 *
 * `--requests N` sets the number of requests of each scenario.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Log } from '../local/python/python-environment.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { S3Wire } from '../test/doubles/s3-wire.ts';
import { LANGUAGES, side } from './capture-client-support/sides.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, type Check, median, round } from './support/result.ts';

const DEFAULT_REQUESTS = 10_000;
const WORKERS = 4;
const LARGE_EVERY_MS = 250;
const MOST_ADDED_MS = 1;
const MOST_MB = 64;
const SCENARIOS = ['as ever', 'a body of 1 MB is encoded', 'S3 is down', 'S3 is slow', 'S3 is full'] as const;

const p99 = (times: readonly number[] = []): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const requests = numberFlag(flags, 'requests', DEFAULT_REQUESTS);
  const endpoint = spawn(
    process.execPath,
    ['--import', packagePath('bin', 'ready.js'), packagePath('local', 'stand-in-endpoint', 'main.ts')].concat(
      ...[
        ['--latency', '5'],
        ['--words', '4'],
        ['--inter-token', '2'],
      ],
    ),
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const url =
    String((await once(endpoint.stdout, 'data'))[0])
      .split(' ')
      .at(-1)
      ?.trim() ?? '';
  const s3 = await S3Wire.start();
  // It takes requests, and never answers.
  const slow = createServer(() => {}).listen(0, '127.0.0.1');
  await once(slow, 'listening');
  const slowUrl = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const checks: Check[] = [];
  const ours: BenchResult['ours'] = {};
  const peer: BenchResult['peer'] = {};
  const ratios: number[] = [];
  try {
    for (const language of LANGUAGES) {
      for (const scenario of SCENARIOS) {
        s3.fault = () => (scenario === 'S3 is full' ? { kind: 'error', status: 503, code: 'SlowDown' } : undefined);
        const options = {
          ...{ endpoint: url, workers: WORKERS, requests, series: ['bare', 'captured', 'again'] },
          s3: scenario === 'S3 is down' ? 'http://127.0.0.1:9' : scenario === 'S3 is slow' ? slowUrl : s3.url,
          largeEveryMs: scenario === 'a body of 1 MB is encoded' ? LARGE_EVERY_MS : 0,
        };
        const { times, failed } = await side(language, options);
        const [bare, captured, again] = options.series.map((name) => p99(times[name])) as [number, number, number];
        const name = `${language}, ${scenario}`;
        ours[`${name}, p99 ms`] = round(captured);
        peer[`${name}, p99 ms`] = round(median([bare, again]));
        ratios.push(bare / captured);
        const allowed = Math.max(MOST_ADDED_MS, round(Math.abs(bare - again)));
        checks.push(atMost(`${name}: added to the first byte's p99, ms`, captured - median([bare, again]), allowed));
        checks.push(atMost(`${name}: requests that failed`, failed, 0));
        log(
          `${name}: p99 bare ${round(bare)} and ${round(again)} ms, captured ${round(captured)} ms, ${failed} failed`,
        );
      }
      const memory = { endpoint: url, s3: slowUrl, workers: WORKERS, requests, largeEveryMs: LARGE_EVERY_MS };
      const captured = await side(language, { ...memory, series: ['captured'] });
      const bare = await side(language, { ...memory, series: ['bare'] });
      const added = (captured.peakBytes - bare.peakBytes) / 1e6;
      checks.push(atMost(`${language}: memory above the bare client while S3 is slow, MB`, added, MOST_MB));
      log(`${language}: peak ${round(captured.peakBytes / 1e6)} MB, bare ${round(bare.peakBytes / 1e6)} MB`);
    }
  } finally {
    endpoint.kill();
    slow.closeAllConnections();
    slow.close();
    await s3.stop();
  }
  const notes = ['peer: the same client without captures, by turns with the captured one; the median of two series'];
  return { ratio: median(ratios), ours, peer, checks, notes };
}
