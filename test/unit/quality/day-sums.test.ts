/** The counts of the endpoint from the ledger: whatever a merge is killed between, each capture and verdict counts once. */
import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describeError } from '../../../local/machine/describe-error.ts';
import { ledgerKeys } from '../../../src/core/contract/work-keys.ts';
import { appendRows, listFiles } from '../../../src/ledger/files.ts';
import { precedenceOf, type Ranked } from '../../../src/ledger/precedence.ts';
import { type LedgerRows, noRows, type Row } from '../../../src/ledger/tables.ts';
import { cellsOf, countedDays, readWindow, sumOfCells } from '../../../src/quality/counts-store.ts';
import { mergeHourly, mergeLedger } from '../../../src/quality/merge-ledger.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const DAY = '2026-11-20';
const DAY_MS = Date.parse(DAY);
const HOUR_MS = 3_600_000;
const WINDOW = { fromMs: DAY_MS - 7 * 24 * HOUR_MS, toMs: DAY_MS + 7 * 24 * HOUR_MS };

/** S3 that is cut off after this number of writes, as for a function that is killed. */
class Bucket extends MemoryStorage {
  writesLeft = Number.POSITIVE_INFINITY;
  nowMs = DAY_MS;
  #write(key: string): void {
    this.writesLeft -= 1;
    if (this.writesLeft < 0) throw new Error('killed');
    this.writtenMs.set(key, this.nowMs);
  }
  override async putBytes(bucket: string, key: string, content: { body: Buffer }): Promise<void> {
    this.#write(key);
    await super.putBytes(bucket, key, content);
  }
  override readonly s3 = {
    send: async ({ input }: { input: { Key: string } }): Promise<void> => {
      this.#write(input.Key);
      this.objects.delete(input.Key);
    },
  };
  under(pattern: RegExp): number {
    return [...this.objects.keys()].filter((key) => pattern.test(key)).length;
  }
  /** Of all captures, in all hours. */
  async total() {
    const all = sumOfCells(cellsOf(await readWindow(this.work, WINDOW)));
    const { captures = 0, scorers = {}, judgeUsd = 0, quarantined = {} } = all;
    const values = scorers.safety?.['1']?.values ?? {};
    return { captures, values, usd: Math.round(judgeUsd * 100) / 100, quarantined };
  }
  /** Days that could not be merged, and why. */
  readonly skipped: Record<string, string> = {};
  settings(nowMs: number) {
    const skipped = (day: string, error: unknown) => {
      this.skipped[day] = describeError(error);
    };
    return { measures: [], nowMs, hasTime: () => true, skipped };
  }
  merge(nowMs: number) {
    this.nowMs = nowMs;
    return mergeLedger(this.work, this.settings(nowMs));
  }
}

interface Line {
  trace: number;
  run?: string;
  outcome?: Ranked;
  revision?: number;
  value?: string;
  hour?: string;
  attempt?: number;
  more?: Row<'captures'>;
}

/** Returns the rows of a line that was judged. */
function rowsOf({ trace, run = 'r', outcome = 'traced', revision = 1, value = 'yes', more, ...at }: Line) {
  const place = { run, key: 'file', start: trace, variant: 'Blue', serving: true, traceId: `tr-${trace}` };
  const event = { attempt: 0, hour: `${DAY}T10`, ...place, ...at };
  const evaluated = { judgeable: ['safety'], strata: ['1'], evaluated: true };
  const precedence = precedenceOf(outcome, true, revision, `${run} ${trace}`);
  const given = { scorer: 'safety', state: 'given', value, stratum: '1', usd: 0.01 };
  const ofVerdict = precedenceOf('given', true, revision, `${run} ${trace} safety`);
  return {
    captures: [{ ...event, ...evaluated, outcome, precedence, ...more }],
    verdicts: [{ ...event, ...given, precedence: ofVerdict }],
  };
}

const allRows = (lines: readonly Line[]): LedgerRows => {
  const all = lines.map(rowsOf);
  return {
    ...noRows(),
    captures: all.flatMap(({ captures }) => captures),
    verdicts: all.flatMap(({ verdicts }) => verdicts),
  };
};

const append = (bucket: Bucket, lines: readonly Line[]) => appendRows(bucket.work, allRows(lines));
const linesFrom = (first: number, count: number, more: Omit<Line, 'trace'> = {}): Line[] =>
  Array.from({ length: count }, (_, at) => ({ trace: first + at, ...more }));

test('what runs say of the same capture counts once: the last evaluation’s verdict, and the dollars of both', async () => {
  const bucket = new Bucket();
  await append(bucket, linesFrom(0, 10));
  // The same file again: its traces are there. Then a re-evaluation, of which one attempt failed after its rows.
  await append(bucket, linesFrom(0, 10, { run: 'again', outcome: 'alreadyThere', value: 'yes' }));
  for (const attempt of [0, 1])
    await append(bucket, linesFrom(0, 4, { run: 'later', outcome: 'alreadyThere', revision: 2, value: 'no', attempt }));
  const usd = 0.24;
  expect(await bucket.total()).toEqual({ captures: 10, values: { yes: 6, no: 4 }, usd, quarantined: {} });
});

test('a line in quarantine is its place until a retry settles it, and a deleted or repeated line is no capture', async () => {
  const bucket = new Bucket();
  const place = { bucket: 'b', key: 'file', start: 7, hour: `${DAY}T10`, variant: 'Blue', serving: true, run: 'r' };
  const precedence = precedenceOf('quarantined', false, 0, 'q');
  const quarantined = { ...place, outcome: 'quarantined', reason: 'NotJson', precedence };
  const only = (captures: Row<'captures'>[]) => ({ ...noRows(), captures });
  await appendRows(bucket.work, only([quarantined]));
  expect(await bucket.total()).toMatchObject({ captures: 0, quarantined: { NotJson: 1 } });
  const retried = { ...place, run: 'retry', outcome: 'retried', precedence: precedenceOf('retried', false, 0, 'r') };
  await appendRows(bucket.work, only([retried]));
  await append(bucket, [{ trace: 7, run: 'retry' }]);
  for (const [trace, outcome] of [
    [8, 'missing'],
    [9, 'duplicate'],
    [7, 'duplicate'],
  ] as const) {
    const { captures } = rowsOf({ trace, run: 'third', outcome, revision: 9 });
    await appendRows(bucket.work, only(captures));
  }
  expect(await bucket.total()).toMatchObject({ captures: 1, values: { yes: 1 }, quarantined: {} });
});

test('a kill between any two writes of a merge loses nothing and counts nothing twice, also while another one merges', async () => {
  for (let writes = 0; writes <= 14; writes += 1) {
    const bucket = new Bucket();
    for (let run = 0; run < 6; run += 1) {
      const hour = `${DAY}T${10 + run}`;
      await append(bucket, linesFrom(10 * run, 10, { run: `r${run}`, hour }));
      await append(bucket, linesFrom(10 * run, 10, { run: `s${run}`, outcome: 'alreadyThere', hour }));
    }
    const expected = { captures: 60, values: { yes: 60 }, usd: 1.2, quarantined: {} };
    for (let day = 1; day <= 3; day += 1) {
      bucket.writesLeft = writes;
      const merges = [bucket.merge(DAY_MS + day * 25 * HOUR_MS), bucket.merge(DAY_MS + day * 25 * HOUR_MS)];
      await Promise.allSettled(day === 2 ? merges : merges.slice(0, 1));
      await Promise.allSettled(merges);
      bucket.writesLeft = Number.POSITIVE_INFINITY;
      expect(await bucket.total()).toEqual(expected);
    }
    await bucket.merge(DAY_MS + 100 * HOUR_MS);
    await bucket.merge(DAY_MS + 200 * HOUR_MS);
    expect([await bucket.total(), bucket.under(/\.part\.parquet$/)]).toEqual([expected, 0]);
    // A sum is a cache.
    for (const key of bucket.objects.keys()) if (key.startsWith(ledgerKeys.sumsPrefix)) bucket.objects.delete(key);
    expect(await bucket.total()).toEqual(expected);
  }
});

test('an hour whose files do not fit into memory at a time is folded in parts, with the same counts', async () => {
  const bucket = new Bucket();
  // Keys that cannot be compressed, since the files must be larger than a part.
  const key = () => randomBytes(2_000).toString('base64');
  const rows = allRows([
    ...linesFrom(0, 900),
    ...linesFrom(300, 900, { run: 'again', outcome: 'alreadyThere', revision: 2, value: 'no' }),
    ...linesFrom(5_000, 50, { run: 'replay', more: { serving: false } }),
    ...linesFrom(9_000, 9, { outcome: 'quarantined', more: { reason: 'NotJson', traceId: undefined } }),
  ]);
  for (const row of [...rows.captures, ...rows.verdicts]) row.key = key();
  await appendRows(bucket.work, rows);
  const files = await Array.fromAsync(listFiles(bucket.work, 'captures'));
  expect(files[0]?.size).toBeGreaterThan(3 * 1024 * 1024);
  const values = { yes: 300, no: 900 };
  expect(await bucket.total()).toEqual({ captures: 1_200, values, usd: 18.59, quarantined: { NotJson: 9 } });
});

test('hours that no newer file touches are read from the sum, the others from the files', async () => {
  const bucket = new Bucket();
  await append(bucket, [...linesFrom(0, 10), ...linesFrom(50, 5, { hour: `${DAY}T23` })]);
  await bucket.merge(DAY_MS + 2 * HOUR_MS);
  await append(bucket, linesFrom(8, 4, { run: 'late', outcome: 'alreadyThere', revision: 3, value: 'no' }));
  const counts = await readWindow(bucket.work, WINDOW);
  expect(Object.entries(counts).map(([hour, { Blue }]) => [hour, Blue?.captures])).toEqual([
    [`${DAY}T23`, 5],
    [`${DAY}T10`, 12],
  ]);
  expect(await bucket.total()).toMatchObject({ captures: 17, values: { yes: 13, no: 4 } });
  const merged = await Array.fromAsync(listFiles(bucket.work, 'captures'));
  expect(merged.map(({ isMerged, first, last }) => [isMerged, first.slice(-2), last.slice(-2)])).toEqual([
    [false, '10', '10'],
    [false, '10', '23'],
    [true, '10', '23'],
  ]);
  for (const { key } of merged.filter(({ last }) => last.endsWith('23')))
    bucket.objects.set(key, Buffer.from('no Parquet'));
  const window = { fromMs: DAY_MS + 23 * HOUR_MS, toMs: DAY_MS + 24 * HOUR_MS };
  expect((await readWindow(bucket.work, window))[`${DAY}T23`]?.Blue?.captures).toBe(5);
  await expect(bucket.total()).rejects.toMatchObject({ name: 'StorageUnavailable' });
});

test('what is a replay’s once is no traffic, and one merge an hour is made', async () => {
  const bucket = new Bucket();
  await append(bucket, linesFrom(0, 3));
  await append(bucket, [{ trace: 1, run: 'replay', more: { serving: false } }]);
  expect(await bucket.total()).toMatchObject({ captures: 2, values: { yes: 2 } });
  const merge = bucket.settings(DAY_MS + 2 * HOUR_MS);
  await mergeHourly(bucket.work, merge);
  await append(bucket, linesFrom(20, 1));
  await mergeHourly(bucket.work, { ...merge, nowMs: merge.nowMs + HOUR_MS - 1 });
  expect(bucket.under(/captures.*merged/)).toBe(1);
  await mergeHourly(bucket.work, { ...merge, nowMs: merge.nowMs + HOUR_MS });
  expect(bucket.under(/captures.*merged/)).toBe(2);
  expect(await countedDays(bucket.work)).toEqual({ first: DAY, last: DAY });
});

const FOREIGN: [string, (own: Buffer) => Buffer][] = [
  ['an empty file', () => Buffer.alloc(0)],
  ['a text', () => Buffer.from('PAR1, it says')],
  ['the first half', (own) => own.subarray(0, own.length / 2)],
  [
    'a file whose pages are lost',
    (own) => Buffer.concat([Buffer.from('PAR1'), Buffer.alloc(own.length - 600), own.subarray(-596)]),
  ],
  ['the counts of a day', () => gzipSync('{"files":[],"hours":{}}')],
];
const FILES = ['captures/.*part', 'verdicts/.*part', 'captures/.*merged', 'verdicts/.*merged'];

test.each(FILES.flatMap((file) => FOREIGN.map(([what, of]) => [file, what, of] as const)))(
  'a day is not merged while %s is %s, and is told; the others are',
  async (file, _, of) => {
    const bucket = new Bucket();
    const [key, later] = [new RegExp(`ledger/${file}`), '2026-11-21'];
    await append(bucket, linesFrom(0, 3));
    if (file.endsWith('merged')) await bucket.merge(DAY_MS + 2 * HOUR_MS);
    await append(bucket, [...linesFrom(20, 2), ...linesFrom(40, 5, { hour: `${later}T10` })]);
    const found = [...bucket.objects.keys()].find((one) => key.test(one) && one.includes(DAY)) ?? '';
    const whole = bucket.objects.get(found) as Buffer;
    bucket.objects.set(found, of(whole));
    await bucket.merge(DAY_MS + 50 * HOUR_MS);
    expect(bucket.skipped).toEqual({ [DAY]: expect.stringContaining(found) });
    expect(bucket.under(new RegExp(`dt=${later}/merged`))).toBe(2);
    const unreadable = { name: 'StorageUnavailable', message: expect.stringContaining(found) };
    await expect(bucket.total()).rejects.toMatchObject(unreadable);
    bucket.objects.set(found, whole);
    await bucket.merge(DAY_MS + 51 * HOUR_MS);
    expect(await bucket.total()).toMatchObject({ captures: 10, values: { yes: 10 } });
  },
);

const NO_SUMS: [string, Buffer][] = [
  ['empty', Buffer.alloc(0)],
  ['no gzip', Buffer.from('{"files":[],"hours":{}}')],
  ['half of a gzip', gzipSync('{"files":[],"hours":{}}').subarray(0, 25)],
  ...['', 'no JSON', 'null', '[]', '{}', '{"files":1,"hours":{}}', '{"files":[],"hours":null}'].map(
    (text): [string, Buffer] => [`gzip of “${text}”`, gzipSync(text)],
  ),
];

test.each(NO_SUMS)('a sum that is %s is as good as none, and a merge makes it again', async (_, body) => {
  const bucket = new Bucket();
  await append(bucket, linesFrom(0, 3));
  await bucket.merge(DAY_MS + 2 * HOUR_MS);
  bucket.objects.set(ledgerKeys.sum(DAY), body);
  expect(await bucket.total()).toMatchObject({ captures: 3, values: { yes: 3 } });
  await append(bucket, linesFrom(20, 2));
  await bucket.merge(DAY_MS + 4 * HOUR_MS);
  expect(await bucket.total()).toMatchObject({ captures: 5, values: { yes: 5 } });
  expect(bucket.skipped).toEqual({});
});
