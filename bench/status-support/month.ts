/** Weeks of a ledger in an emulated S3: a run a minute, 18 scorers, 3 variants; and a process that reads them. */
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import type { Log } from '../../local/python/python-environment.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { startMiniStack } from '../../local/servers/ministack.ts';
import { Storage, type Work } from '../../src/core/aws/storage.ts';
import type { QualityCounts } from '../../src/core/contract/quality.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { Random } from '../../src/core/values/random.ts';
import { appendRows, writeFile } from '../../src/ledger/files.ts';
import { precedenceOf } from '../../src/ledger/precedence.ts';
import { type LedgerRows, LINE_TABLES, noRows, type Row } from '../../src/ledger/tables.ts';
import { writeSum } from '../../src/quality/day-sums.ts';
import { foldRows } from '../../src/quality/fold.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { runBundled } from '../support/bundled.ts';

const BUCKET = 'bench-counts';
const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const VARIANTS = ['Blue', 'Green', 'Canary'];
/** Of a variant in a run. */
export const CAPTURES = 7;
export const SCORERS = Array.from({ length: 18 }, (_, n) => `scorer_${n}`);
/** The last ones answer with numbers. */
const NUMBERS = 3;
/** The end of the weeks: a moment at which all days have ended. */
export const TO_MS = Date.parse('2026-11-27T00:00:00Z');
/** Parts that no merge has taken, since they are younger than an hour or its run has not begun. */
const OPEN_MS = 2 * HOUR_MS;
const AT_ONCE = 8;

const hex = (random: Random): string =>
  random
    .below(2 ** 32)
    .toString(16)
    .padStart(8, '0');

/** Returns the rows of a run: its captures, each with a verdict of each scorer. */
function runRows(random: Random, ms: number, captures = CAPTURES, scorers = SCORERS): LedgerRows {
  const rows = noRows();
  const run = `files-${ms}`;
  for (let line = 0; line < captures * VARIANTS.length; line += 1) {
    const event: Row<'captures'> = {
      ...{ hour: hourOf(ms), variant: VARIANTS[line % VARIANTS.length], serving: true },
      ...{ run, chain: run, chunk: 0, attempt: 0 },
      ...{ key: `chat/Blue/2026/11/20/10/${ms}.jsonl`, start: line * 3_000 },
      traceId: `tr-${hex(random)}${hex(random)}${hex(random)}${hex(random)}`,
    };
    const name = `${run} ${line}`;
    rows.captures.push({
      ...event,
      ...{ experimentId: '1', endpoint: 'chat', time: ms, bucket: 'captures', etag: run, end: line * 3_000 + 2_900 },
      ...{ outcome: 'traced', format: 'chat', inputTokens: 900, outputTokens: random.below(2_000), replyForm: 'words' },
      ...(random.below(50) === 0 && { errorKind: String(500 + random.below(5)) }),
      ...{ digests: [hex(random), hex(random)], evaluated: true, judgeable: scorers, strata: scorers.map(() => '0.5') },
      precedence: precedenceOf('traced', true, ms, name),
    });
    for (const [index, scorer] of scorers.entries()) {
      const isNumber = index >= SCORERS.length - NUMBERS;
      rows.verdicts.push({
        ...event,
        ...{ scorer, state: 'given', stratum: '0.5', usd: 0.0001, judge: 'bedrock:/model', version: 'abcd1234' },
        ...(isNumber ? { number: random.below(800), isCode: true } : { value: random.below(20) === 0 ? 'no' : 'yes' }),
        precedence: precedenceOf('given', true, ms, `${name} ${scorer}`),
      });
    }
  }
  return rows;
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Writes a day as merges leave it: a file an hour and table, and the sum that names them. */
async function writeMerged(work: Work, startMs: number, runs: number, random: Random): Promise<void> {
  const day = dayOf(startMs);
  // As many different hours as a day has are enough, and their captures are in the sum only.
  const hour = foldRows(mergedRows(random, startMs, Math.ceil(runs / 24)), { measures: [] });
  const hours: QualityCounts = {};
  const files: string[] = [];
  await forEachConcurrently(AT_ONCE, Array.from({ length: 24 }).keys(), async (n) => {
    const at = hourOf(startMs + n * HOUR_MS);
    hours[at] = hour[hourOf(startMs)] ?? {};
    for (const table of ['captures', 'verdicts'] as const) {
      const { key = '' } = (await writeFile(work, table, day, [{ hour: at }], [`part of ${at}`])) ?? {};
      files.push(key);
    }
  });
  await writeSum(work, day, { files, excluded: [], hours });
}

function mergedRows(random: Random, ms: number, runs: number): LedgerRows {
  const all = Array.from({ length: runs }, (_, n) => runRows(random, ms + n));
  const rows = noRows();
  for (const table of LINE_TABLES) rows[table] = all.flatMap((one): Row<typeof table>[] => one[table]) as never;
  return rows;
}

export interface Month {
  /** Runs a program with the bucket and these arguments: see `runBundled`. */
  run<T>(program: string, ...args: (string | number)[]): Promise<T>;
  /** Writes a day of captures whose sum is gone, of which each is judged by `FEW` scorers. @returns when it begins */
  writeFolded(captures: number): Promise<number>;
}

/** A million captures of 18 scorers would take the emulator an hour to write. */
const FEW = SCORERS.slice(0, 5);

async function writeUnsummed(work: Work, captures: number, random: Random): Promise<number> {
  const startMs = TO_MS + 10 * DAY_MS;
  for (let hour = 0, left = captures; hour < 24; hour += 1) {
    const count = Math.min(left, Math.ceil(captures / 24));
    left -= count;
    const rows = runRows(random, startMs + hour * HOUR_MS, Math.ceil(count / VARIANTS.length), FEW);
    const own = rows.captures.splice(count).map(({ traceId }) => traceId);
    rows.verdicts = rows.verdicts.filter(({ traceId }) => !own.includes(traceId));
    for (const table of ['captures', 'verdicts'] as const) {
      await writeFile(work, table, dayOf(startMs), rows[table], [`part of ${hour}`]);
    }
  }
  return startMs;
}

/** Writes the ledger, and does the work while the emulator runs. @param days before `TO_MS` */
export async function withMonth<T>(
  log: Log,
  days: number,
  runs: number,
  work: (month: Month) => Promise<T>,
): Promise<T> {
  const aws = await startMiniStack({ log });
  const clients = emulatedClients(aws);
  try {
    await clients.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const to = { storage: new Storage(clients.s3), workBucket: BUCKET };
    const random = new Random(7);
    for (let ms = TO_MS - days * DAY_MS; ms < TO_MS; ms += DAY_MS) await writeMerged(to, ms, runs, random);
    const minutes = Array.from(
      { length: Math.floor((runs * OPEN_MS) / DAY_MS) },
      (_, n) => TO_MS - (n + 1) * (DAY_MS / runs),
    );
    await forEachConcurrently(AT_ONCE, minutes, (ms) => appendRows(to, runRows(random, Math.floor(ms))));
    log(`${days} days of ${runs} runs are written`);
    return await work({
      run: (program, ...args) => runBundled(program, [BUCKET, ...args.map(String)], aws.env),
      writeFolded: (captures) => writeUnsummed(to, captures, random),
    });
  } finally {
    await aws.stop();
  }
}
