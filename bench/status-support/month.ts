/** A month of hourly counts in an emulated S3: a run a minute, 18 scorers, 3 variants; and a process that reads them. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { destroyClients } from '../../bin/operate/aws-clients.ts';
import type { Log } from '../../local/python/python-environment.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { startMiniStack } from '../../local/servers/ministack.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../../src/core/contract/quality.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { Random } from '../../src/core/values/random.ts';
import { addCell, numberCounts } from '../../src/quality/cell.ts';
import { writeCounts } from '../../src/quality/counts-store.ts';
import { closeDays, daysWithCounts, isClosed } from '../../src/quality/day-objects.ts';
import { runBundled } from '../support/bundled.ts';
import { round } from '../support/result.ts';

const BUCKET = 'bench-counts';
export const DAY_MS = 86_400_000;
export const VARIANTS = ['Blue', 'Green', 'Canary'];
/** Of a variant in a run. */
export const CAPTURES = 7;
export const SCORERS = Array.from({ length: 18 }, (_, n) => `scorer_${n}`);
/** The last ones answer with numbers. */
const NUMBERS = 3;
/** Runs of a day that are not merged when it ends. */
const NOT_MERGED = 10;
/** The end of the month: a moment at which all its days have ended. */
export const TO_MS = Date.parse('2026-11-27T00:00:00Z');

/** What a run counts of an hour and a variant. */
function cellOf(random: Random): QualityCell {
  const cell: QualityCell = {};
  for (let n = 0; n < CAPTURES; n += 1) {
    addCell(cell, { captures: 1, inputTokens: 900, outputTokens: random.below(2_000) });
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
    // As of a time at which no day is closed.
    await writeCounts(storage, BUCKET, `files-${day}-${n}`, make(hourAt(n)), [], 0);
  }
  return text.length;
}

/** Runs a program with the bucket and these arguments: see `runBundled`. */
type Run = <T>(program: string, ...args: (string | number)[]) => Promise<T>;

/** Writes the counts, and does the work while the emulator runs. @param days before `TO_MS` */
export async function withMonth<T>(log: Log, days: number, runs: number, work: (run: Run) => Promise<T>): Promise<T> {
  const aws = await startMiniStack({ log });
  const clients = emulatedClients(aws);
  try {
    await clients.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const storage = new Storage(clients.s3);
    const make = maker(new Random(7));
    let bytes = 0;
    for (let ms = TO_MS - days * DAY_MS; ms < TO_MS; ms += DAY_MS) bytes = await writeDay(storage, ms, runs, make);
    log(`${days} days of ${runs} runs are written, ${round(bytes / 1e6)} MB each; closing`);
    const open = async () =>
      (await daysWithCounts(storage, BUCKET)).filter((day) => isClosed(day.day, TO_MS) && day.sum === undefined).length;
    while ((await open()) > 0) await closeDays(storage, BUCKET, TO_MS);
    return await work((program, ...args) => runBundled(program, [BUCKET, ...args.map(String)], aws.env));
  } finally {
    destroyClients(clients);
    await aws.stop();
  }
}
