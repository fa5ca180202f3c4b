/** The counts in the work bucket: whatever SummarizeRun is killed between, each run counts once. */
import { gzipSync } from 'node:zlib';
import type { QualityCounts } from '../../../src/core/contract/quality.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { logger } from '../../../src/core/process/logging.ts';
import { addTree } from '../../../src/quality/count-tree.ts';
import { cellsOf, readCounts, readWindow, sumOfCells, writeCounts } from '../../../src/quality/counts-store.ts';
import { daysWithCounts } from '../../../src/quality/day-objects.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

// Merges that fail are warned of.
beforeEach(() => void jest.spyOn(logger, 'warn').mockImplementation());

const DAY = '2026-11-20';
const OTHER_DAY = '2026-11-21';
const captures = (count: number, day = DAY): QualityCounts => ({ [`${day}T10`]: { Blue: { captures: count } } });

/** S3 that is cut off after this number of writes, as for a function that is killed. */
class Killed extends MemoryStorage {
  writesLeft = Number.POSITIVE_INFINITY;
  #write(): void {
    this.writesLeft -= 1;
    if (this.writesLeft < 0) throw new Error('killed');
  }
  override async putJson(bucket: string, key: string, value: object): Promise<void> {
    this.#write();
    await super.putJson(bucket, key, value);
  }
  override async putIf(bucket: string, key: string, content: { body: Buffer }, replaces?: string) {
    this.#write();
    return super.putIf(bucket, key, content, replaces);
  }
  override async putBytes(bucket: string, key: string, content: { body: Buffer }): Promise<void> {
    this.#write();
    await super.putBytes(bucket, key, content);
  }
  override readonly s3 = {
    send: async ({ input }: { input: { Key: string } }): Promise<void> => {
      this.#write();
      this.objects.delete(input.Key);
    },
  };
  under(prefix: string): number {
    return [...this.objects.keys()].filter((key) => key.startsWith(prefix)).length;
  }
  get small(): number {
    return this.under(workKeys.newCountsPrefix);
  }
}

const namesOfDays = async ({ storage }: MemoryStorage) => (await daysWithCounts(storage, 'w')).map(({ day }) => day);

async function total(memory: MemoryStorage, days?: string[]): Promise<{ captures: number; runs: number }> {
  const counts: QualityCounts = {};
  let runs = 0;
  for await (const { hours } of readCounts(memory.storage, 'w', days ?? (await namesOfDays(memory)))) {
    addTree(counts, hours);
    runs += 1;
  }
  const cells = Object.values(counts).flatMap((hour) => Object.values(hour));
  return { captures: cells.reduce((sum, cell) => sum + (cell.captures ?? 0), 0), runs };
}

/** The same, as the commands read it. */
async function windowTotal(memory: MemoryStorage): Promise<number> {
  const window = { fromMs: Date.parse(DAY), toMs: Date.parse('2026-11-28') };
  const counts = await readWindow(memory.storage, 'w', await daysWithCounts(memory.storage, 'w'), window);
  return cellsOf(counts).reduce((sum, { cell }) => sum + (cell.captures ?? 0), 0);
}

/** Of two writes within a millisecond, none would be the later one. */
let nowMs = Date.parse(DAY);
const write = (memory: MemoryStorage, run: string, counts: QualityCounts, days?: string[]) => {
  nowMs += 1;
  return writeCounts(memory.storage, 'w', run, counts, days, nowMs);
};

/** Two days after the end of `DAY`. */
const LATER = '2026-11-24';
const later = (memory: MemoryStorage, run: string, counts: QualityCounts) =>
  writeCounts(memory.storage, 'w', run, counts, [], Date.parse(LATER) + nowMs - Date.parse(DAY));

test('a window that ends in the first hour of a day has that hour', async () => {
  const memory = new MemoryStorage();
  await write(memory, 'one', { [`${DAY}T00`]: { Blue: { captures: 7 } } });
  const window = { fromMs: Date.parse(DAY) - 7 * 86_400_000, toMs: Date.parse(DAY) + 60_000 };
  const counts = await readWindow(memory.storage, 'w', await daysWithCounts(memory.storage, 'w'), window);
  expect(counts).toEqual({ [`${DAY}T00`]: { Blue: { captures: 7 } } });
});

test('a day that has ended is read as one line, until a run of it is summarized again, and is then summed again', async () => {
  const memory = new Killed();
  for (let n = 0; n < 70; n += 1) await write(memory, `run-${n}`, captures(1));
  await later(memory, 'next', captures(1, LATER));
  expect([memory.small, memory.under(workKeys.daySumsPrefix)]).toEqual([1, 1]);
  memory.getBytes = async function (this: Killed, bucket, key) {
    if (key === workKeys.dayCounts(DAY)) throw new Error('The lines of the runs were read');
    return Killed.prototype.getBytes.call(this, bucket, key);
  };
  expect(await windowTotal(memory)).toBe(71);
  Reflect.deleteProperty(memory, 'getBytes');
  // It is killed before it merges. Its counts are replaced, and not added to the sum.
  memory.writesLeft = 1;
  await later(memory, 'run-3', captures(10)).catch(() => undefined);
  memory.writesLeft = Number.POSITIVE_INFINITY;
  expect([await windowTotal(memory), (await total(memory)).captures]).toEqual([80, 80]);
  await later(memory, 'run-4', { ...captures(5), ...captures(1, LATER) });
  expect([await windowTotal(memory), await total(memory)]).toEqual([85, { captures: 85, runs: 72 }]);
  expect([memory.under(workKeys.newCountsOf(DAY)), memory.under(workKeys.daySumsPrefix)]).toEqual([0, 1]);
});

test('a kill after any write of a run that sums days loses nothing, and the next run sums them', async () => {
  for (let writes = 1; writes <= 60; writes += 1) {
    const memory = new Killed();
    for (let n = 0; n < 30; n += 1) await write(memory, `run-${n}`, captures(1));
    for (let n = 0; n < 20; n += 1) await write(memory, `run-${n}`, captures(1, OTHER_DAY));
    memory.writesLeft = writes;
    await later(memory, 'run-7', captures(2)).catch(() => undefined);
    memory.writesLeft = Number.POSITIVE_INFINITY;
    expect(await windowTotal(memory)).toBe(51);
    await Promise.all([later(memory, 'next', captures(1, LATER)), later(memory, 'run-8', captures(2))]);
    expect([await windowTotal(memory), (await total(memory)).captures]).toEqual([53, 53]);
    await later(memory, 'last', captures(1, '2026-11-25'));
    expect(memory.under(workKeys.newCountsOf(DAY)) + memory.under(workKeys.newCountsOf(OTHER_DAY))).toBe(0);
    expect(await windowTotal(memory)).toBe(54);
  }
});

test('many runs of a day are merged, also a second time, and a run that is summarized again replaces its own counts', async () => {
  const memory = new Killed();
  for (let n = 0; n < 120; n += 1) await write(memory, `run-${n}`, captures(1));
  expect(memory.small).toBe(20);
  expect(await total(memory)).toEqual({ captures: 120, runs: 120 });
  // Of a run that is merged, and of one that is not; the same twice changes nothing.
  for (const run of ['run-3', 'run-119', 'run-119']) await write(memory, run, captures(10));
  expect(await total(memory)).toEqual({ captures: 138, runs: 120 });
  for (let n = 0; n < 60; n += 1) await write(memory, `late-${n}`, captures(1));
  expect(await total(memory)).toEqual({ captures: 198, runs: 180 });
});

test('a kill after any write loses nothing and counts nothing twice', async () => {
  for (let writes = 1; writes <= 52; writes += 1) {
    const memory = new Killed();
    for (let n = 0; n < 49; n += 1) await write(memory, `run-${n}`, captures(1));
    memory.writesLeft = writes;
    await write(memory, 'last', captures(1)).catch(() => undefined);
    memory.writesLeft = Number.POSITIVE_INFINITY;
    expect(await total(memory)).toEqual({ captures: 50, runs: 50 });
    // SummarizeRun is repeated.
    await write(memory, 'last', captures(1));
    expect(await total(memory)).toEqual({ captures: 50, runs: 50 });
  }
});

test('two runs that merge a day at the same time: one of them wins, and no counts are lost', async () => {
  const memory = new Killed();
  for (let n = 0; n < 48; n += 1) await write(memory, `run-${n}`, captures(1));
  await Promise.all([
    write(memory, 'a', captures(1)),
    write(memory, 'b', captures(1)),
    write(memory, 'c', captures(1)),
  ]);
  expect(await total(memory)).toEqual({ captures: 51, runs: 51 });
  expect(memory.small).toBeLessThan(48);
});

test('a day that is merged while it is read is read once, whole', async () => {
  for (let reads = 0; reads < 50; reads += 1) {
    const memory = new Killed();
    for (let n = 0; n < 49; n += 1) await write(memory, `run-${n}`, captures(1));
    const { getJson } = Killed.prototype;
    let left = reads;
    memory.getJson = async function (this: Killed, ...args: Parameters<typeof getJson>) {
      left -= 1;
      if (left === 0) {
        memory.getJson = getJson;
        await write(memory, 'last', captures(1));
      }
      return getJson.apply(this, args) as never;
    };
    const { captures: counted, runs } = await total(memory, [DAY]);
    expect([49, 50]).toContain(counted);
    expect(runs).toBe(counted);
  }
});

test.each([
  ['merges the day itself', Number.POSITIVE_INFINITY],
  ['is killed before it merges', 1],
])('counts that change while they are merged are not lost, when the other run %s', async (_, writes) => {
  const memory = new Killed();
  for (let n = 0; n < 49; n += 1) await write(memory, `run-${n}`, captures(1));
  const { putIf } = Killed.prototype;
  memory.putIf = async function (this: Killed, ...args: Parameters<typeof putIf>) {
    memory.putIf = putIf;
    memory.writesLeft = writes;
    await write(memory, 'run-0', captures(100));
    await write(memory, 'other', captures(7)).catch(() => undefined);
    memory.writesLeft = Number.POSITIVE_INFINITY;
    return putIf.apply(this, args);
  };
  await write(memory, 'last', captures(1));
  const others = writes === 1 ? 0 : 7;
  expect((await total(memory)).captures).toBe(149 + others);
});

test('a day that is merged for the first time while the days are listed is among them', async () => {
  const memory = new Killed();
  for (let n = 0; n < 49; n += 1) await write(memory, `run-${n}`, captures(1));
  const { list } = Killed.prototype;
  let listings = 0;
  memory.list = async function* (this: Killed, ...args: Parameters<typeof list>) {
    listings += 1;
    if (listings === 2) {
      memory.list = list;
      await write(memory, 'last', captures(1));
    }
    yield* list.apply(this, args);
  };
  expect(await namesOfDays(memory)).toEqual([DAY]);
});

test('counts that a run writes again while its older ones are merged are its counts', async () => {
  const memory = new Killed();
  for (let n = 0; n < 47; n += 1) await write(memory, `run-${n}`, captures(1));
  await write(memory, 'again', captures(1));
  await write(memory, 'again', captures(9));
  const { putIf } = Killed.prototype;
  memory.putIf = async function (this: Killed, ...args: Parameters<typeof putIf>) {
    memory.putIf = putIf;
    const written = await putIf.apply(this, args);
    // It writes, and is killed before it merges.
    memory.writesLeft = 1;
    await write(memory, 'again', captures(1));
    memory.writesLeft = Number.POSITIVE_INFINITY;
    return written;
  };
  await write(memory, 'last', captures(1));
  expect(await total(memory)).toEqual({ captures: 49, runs: 49 });
});

test('a backfill of several days is counted on each, and only days that have counts are read', async () => {
  const memory = new MemoryStorage();
  await write(memory, 'backfill', { ...captures(3), ...captures(4, OTHER_DAY) });
  expect(await namesOfDays(memory)).toEqual([DAY, OTHER_DAY]);
  expect(await total(memory, [OTHER_DAY])).toEqual({ captures: 4, runs: 1 });
  await write(memory, 'backfill', captures(3), [OTHER_DAY]);
  expect(await total(memory)).toMatchObject({ captures: 3 });
});

test('a merged object that is damaged is named, and a run is counted all the same', async () => {
  const memory = new MemoryStorage();
  memory.put(workKeys.dayCounts(DAY), 'no gzip');
  for (let n = 0; n < 51; n += 1) await write(memory, `run-${n}`, captures(1));
  await expect(total(memory)).rejects.toMatchObject({ name: 'StorageUnavailable' });
  memory.objects.set(
    workKeys.dayCounts(DAY),
    gzipSync('{"run":"old","at":"","hours":{"2026-11-20T10":{"Blue":{"captures":9}}}}\n'),
  );
  expect(await total(memory)).toEqual({ captures: 60, runs: 52 });
});

test('a run counts a bounded number of hours, continues where an invocation stopped, and says what is missing', () => {
  const sums = new RunSums();
  const hour = (n: number) => new Date(Date.UTC(2000, 0, 1) + n * 3_600_000).toISOString().slice(0, 13);
  for (let n = 0; n < 50_000; n += 1) sums.add({ [hour(n)]: { Blue: { captures: 1 } } });
  expect(Object.keys(sums.counts)).toHaveLength(20_000);
  const next = new RunSums();
  next.restore(JSON.parse(JSON.stringify(sums)));
  next.add({ [hour(50_000)]: { Blue: { captures: 1 } }, [hour(0)]: { Blue: { captures: 1 } } });
  expect(next.counts[hour(0)]).toEqual({ Blue: { captures: 2 } });
  expect(next.warnings()).toEqual([expect.stringMatching(/^30001 captures are in no counts/)]);
  const days = new RunSums();
  for (let n = 0; n < 2_000; n += 1) days.add({ [hour(24 * n)]: { Blue: { captures: 1 } } });
  expect(Object.keys(days.counts)).toHaveLength(1_100);
});

test('adds cells up to a sum that is bounded, whatever captures say in each hour', () => {
  const names = (n: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${n} ${at}`, 1]));
  const cells = Array.from({ length: 48 }, (_, n) => ({ cell: { errorKinds: names(n) } }));
  const { errorKinds = {} } = sumOfCells(cells);
  expect(Object.keys(errorKinds)).toHaveLength(50);
  expect(errorKinds['(other)']).toBe(48 * 50 - 49);
});

test('a run whose captures make up very many names keeps few of each kind from then on, and loses no count', () => {
  const sums = new RunSums();
  const hourAt = (index: number): string => new Date(index * 3_600_000).toISOString().slice(0, 13);
  const namesOf = (index: number) =>
    Object.fromEntries(Array.from({ length: 50 }, (_, name) => [`${index}-${name}`, 1]));
  for (let index = 0; index < 10_100; index += 1) {
    sums.add({ [hourAt(index)]: { A: { captures: 50, errorKinds: namesOf(index) } } });
  }
  const kindsAt = (index: number) => Object.values(sums.counts[hourAt(index)]?.A?.errorKinds ?? {});
  expect(kindsAt(0)).toHaveLength(50);
  expect(kindsAt(10_099)).toHaveLength(10);
  expect(kindsAt(10_099).reduce((total, count) => total + count, 0)).toBe(50);
});
