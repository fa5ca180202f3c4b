/**
 * Measures how long the hourly counts take to read, and the memory: 30 days of a run a minute, with 18 scorers and 3 variants, in an
 * emulated S3. Days that have ended are summed by the product; the days of the present are a line for each run.
 *
 * `--runs N` a day (1,440).
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { build } from 'esbuild';
import { destroyClients } from '../bin/operate/aws-clients.ts';
import { projectPath } from '../local/project-root.ts';
import type { Log } from '../local/python/python-environment.ts';
import { emulatedClients } from '../local/servers/emulated-clients.ts';
import { startMiniStack } from '../local/servers/ministack.ts';
import { Storage } from '../src/core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../src/core/contract/quality.ts';
import { workKeys } from '../src/core/contract/work-keys.ts';
import { Random } from '../src/core/values/random.ts';
import { addCell, numberCounts } from '../src/quality/cell.ts';
import { writeCounts } from '../src/quality/counts-store.ts';
import { closeDays, daysWithCounts, isClosed } from '../src/quality/day-objects.ts';
import type { ReadReport } from './counts-support/read.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, machine, round } from './support/result.ts';

const BUCKET = 'bench-counts';
const DAYS = 30;
const DAY_MS = 86_400_000;
const VARIANTS = ['Blue', 'Green', 'Canary'];
/** Of a variant in a run. */
const CAPTURES = 7;
const SCORERS = Array.from({ length: 18 }, (_, n) => `scorer_${n}`);
/** The last ones answer with numbers. */
const NUMBERS = 3;
/** Runs of a day that are not merged when it ends. */
const NOT_MERGED = 10;
const [MOST_SECONDS, MOST_MB] = [5, 300];

/** What a run counts of an hour and a variant. */
function cellOf(random: Random): QualityCell {
  const cell: QualityCell = {};
  for (let n = 0; n < CAPTURES; n += 1) {
    const tokens = random.below(2_000);
    addCell(cell, { captures: 1, inputTokens: 900, outputTokens: tokens, replyTokens: numberCounts(tokens) });
    if (random.below(50) === 0) addCell(cell, { errorReplies: 1, errorKinds: { [500 + random.below(5)]: 1 } });
    for (const [index, scorer] of SCORERS.entries()) {
      const isNumber = index >= SCORERS.length - NUMBERS;
      const value = isNumber
        ? { numbers: numberCounts(random.below(800)) }
        : { values: { [random.below(20) === 0 ? 'no' : 'yes']: 1 } };
      addCell(cell, {
        judgeUsd: 0.0001,
        scorers: { [scorer]: { [isNumber ? 'all' : '0.5']: { captures: 1, ...value } } },
      });
    }
  }
  return cell;
}

/** As many different cells as an hour has runs are enough. */
const POOL = 300;

type MakeRun = (hour: string) => QualityCounts;

function maker(random: Random): MakeRun {
  const cells = Array.from({ length: POOL }, () => cellOf(random));
  const any = (): QualityCell => cells[random.below(POOL)] ?? {};
  return (hour) => ({ [hour]: Object.fromEntries(VARIANTS.map((variant) => [variant, any()])) });
}

/** Writes the counts of a day: all but the last runs merged, as the product merges them. */
async function writeDay(storage: Storage, startMs: number, runs: number, make: MakeRun): Promise<number> {
  const day = new Date(startMs).toISOString().slice(0, 10);
  const hourAt = (n: number): string => new Date(startMs + (n / runs) * DAY_MS).toISOString().slice(0, 13);
  const merged = runs - NOT_MERGED;
  const lines = Array.from({ length: merged }, (_, n) =>
    JSON.stringify({ run: `files-${day}-${n}`, at: new Date(startMs).toISOString(), hours: make(hourAt(n)) }),
  );
  const text = `${lines.join('\n')}\n`;
  await storage.putBytes(BUCKET, workKeys.dayCounts(day), {
    body: await promisify(gzip)(text),
    type: 'application/gzip',
  });
  for (let n = merged; n < runs; n += 1) {
    // As of a time at which no day is closed, so that the seconds of closing are known.
    await writeCounts(storage, BUCKET, `files-${day}-${n}`, make(hourAt(n)), [], 0);
  }
  return text.length;
}

export default async function bench(log: Log, flags: string[] = []): Promise<BenchResult> {
  const runs = numberFlag(flags, 'runs', 1440);
  const folder = mkdtempSync(join(tmpdir(), 'counts-'));
  const aws = await startMiniStack({ log });
  const clients = emulatedClients(aws);
  try {
    await clients.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const storage = new Storage(clients.s3);
    const toMs = Date.parse('2026-11-27T00:00:00Z');
    const fromMs = toMs - DAYS * DAY_MS;
    const make = maker(new Random(7));
    let bytes = 0;
    for (let ms = fromMs; ms < toMs; ms += DAY_MS) bytes = await writeDay(storage, ms, runs, make);
    log(`${DAYS} days of ${runs} runs are written, ${round(bytes / 1e6)} MB each; closing`);
    const closingAt = performance.now();
    const open = async () =>
      (await daysWithCounts(storage, BUCKET)).filter((day) => isClosed(day.day, toMs) && day.sum === undefined).length;
    const closed = await open();
    while ((await open()) > 0) await closeDays(storage, BUCKET, toMs);
    const closeSeconds = (performance.now() - closingAt) / 1000 / closed;
    // In one file, as the command line is: to compile TypeScript takes memory too.
    const side = join(folder, 'read.mjs');
    await build({
      ...{ entryPoints: [projectPath('bench', 'counts-support', 'read.ts')], outfile: side },
      ...{ bundle: true, platform: 'node', format: 'esm' },
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    const read = async (from: number): Promise<ReadReport> => {
      const env = { ...process.env, ...aws.env };
      const { stdout } = await promisify(execFile)(process.execPath, [side, BUCKET, String(from), String(toMs)], {
        env,
      });
      return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    };
    const [day, month] = [await read(toMs - DAY_MS), await read(fromMs)];
    const expected = DAYS * runs * VARIANTS.length * CAPTURES;
    return {
      name: 'counts',
      ratio: round(MOST_SECONDS / month.readSeconds),
      ours: {
        '24 hours, s': round(day.readSeconds),
        '30 days, s': round(month.readSeconds),
        'rates of 30 days by day and by variant, s': round(month.ratesSeconds),
        '30 days, peak MB': round(month.peakMb, 0),
        'hours × variants': month.cells,
        'to sum a day, s': round(closeSeconds),
      },
      peer: { 's at most': MOST_SECONDS, 'MB at most': MOST_MB },
      machine: machine(),
      versions: { node: process.version },
      checks: [
        atMost('captures that are missing or counted twice', Math.abs(month.captures - expected), 0),
        atMost('24 hours: seconds', day.readSeconds + day.ratesSeconds, MOST_SECONDS),
        atMost('30 days: seconds', month.readSeconds + month.ratesSeconds, MOST_SECONDS),
        atMost('30 days: peak memory of the process, MB', month.peakMb, MOST_MB),
      ],
      notes: [
        `${runs} runs a day, ${CAPTURES} captures of each of ${VARIANTS.length} variants a run, ${SCORERS.length} scorers`,
      ],
    };
  } finally {
    destroyClients(clients);
    await aws.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
