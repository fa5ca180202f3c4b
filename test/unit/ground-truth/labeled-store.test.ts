/** The labeled predictions of an hour: changes at the same time are all kept, and nothing is written where nothing changed. */
import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import type { LabeledRow } from '../../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../../src/core/contract/work-keys.ts';
import {
  type HourDraft,
  labeledHours,
  readLabeled,
  rewriteHour,
} from '../../../src/ground-truth/join/labeled-store.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const HOUR = '2026-11-20T10';
const row = (id: string, more: Partial<LabeledRow> = {}): LabeledRow => ({
  ...{ id, endpoint: 'e', variant: 'v', second: Date.parse(`${HOUR}:00:00Z`) / 1000, traceId: `tr-${id}` },
  ...{ prediction: { value: 1 }, label: 1, timeMs: 5, line: 1, ...more },
});
const adding = (...rows: LabeledRow[]) =>
  async function* (draft: HourDraft) {
    yield* draft.rows;
    yield* rows;
    draft.changed = true;
  };

async function stored(memory: MemoryStorage, hours = [HOUR]): Promise<LabeledRow[]> {
  return Array.fromAsync(readLabeled(memory.work, hours));
}

test('rows are as they were written, whatever their texts contain', async () => {
  const memory = new MemoryStorage();
  const rows = [row('a\n"b'), row('c', { label: 'line\r\nbreak \u2028', was: false, scorer: 'safety', noted: false })];
  expect(await rewriteHour(memory.work, HOUR, adding(...rows))).toMatch(/^[0-9a-f]{32}$/);
  expect(await stored(memory)).toEqual(rows);
  expect(await stored(memory, ['2026-11-20T11'])).toEqual([]);
});

test('of changes at the same time, none is lost', async () => {
  const memory = new MemoryStorage();
  const ids = ['a', 'b', 'c', 'd'];
  await Promise.all(ids.map((id) => rewriteHour(memory.work, HOUR, adding(row(id)))));
  expect((await stored(memory)).map(({ id }) => id).toSorted()).toEqual(ids);
});

test('an unchanged hour is not written, and its ETag is returned', async () => {
  const memory = new MemoryStorage();
  const same = async function* ({ rows }: HourDraft) {
    yield* rows;
  };
  expect(await rewriteHour(memory.work, HOUR, same)).toBeUndefined();
  const etag = await rewriteHour(memory.work, HOUR, adding(row('a')));
  const putIf = jest.spyOn(memory, 'putIf');
  expect(await rewriteHour(memory.work, HOUR, same)).toBe(etag);
  expect(putIf).not.toHaveBeenCalled();
});

test('which labels of a part were settled is kept while labels of the part wait', async () => {
  const memory = new MemoryStorage();
  memory.put(truthKeys.waiting('d-1'), 'labels');
  memory.put(truthKeys.waiting('d-2'), 'labels');
  let seen: unknown;
  const settling = async function* (draft: HourDraft) {
    seen = structuredClone(draft.settled);
    yield* draft.rows;
    draft.settled['d-1'] ??= { 3: 'joined' };
    draft.settled['d-2'] ??= { 4: 'outdated' };
    draft.changed = true;
  };
  await rewriteHour(memory.work, HOUR, settling);
  memory.objects.delete(truthKeys.waiting('d-1'));
  await rewriteHour(memory.work, HOUR, adding());
  expect(seen).toEqual({});
  await rewriteHour(memory.work, HOUR, settling);
  expect(seen).toEqual({ 'd-2': { 4: 'outdated' } });
});

test('a window of hours or of days', async () => {
  const memory = new MemoryStorage();
  const hours = ['2026-11-19T23', '2026-11-20T00', HOUR, '2026-11-21T00'];
  for (const hour of hours) await rewriteHour(memory.work, hour, adding(row('a')));
  expect(await labeledHours(memory.work)).toEqual(hours);
  expect(await labeledHours(memory.work, { from: '2026-11-20', to: '2026-11-21' })).toEqual(hours.slice(1, 3));
  expect(await labeledHours(memory.work, { from: HOUR, to: HOUR })).toEqual([]);
  expect(await labeledHours(memory.work, { from: HOUR })).toEqual(hours.slice(2));
});

test('an hour that changes between its facts and its bytes is read again; one that keeps changing is named', async () => {
  const memory = new MemoryStorage();
  await rewriteHour(memory.work, HOUR, adding(row('a')));
  const read = memory.read.bind(memory);
  const meanwhile = jest.spyOn(memory, 'read').mockImplementationOnce(async (object) => {
    await rewriteHour(memory.work, HOUR, adding(row('b')));
    return read(object);
  });
  expect((await stored(memory)).map(({ id }) => id)).toEqual(['a', 'b']);
  meanwhile.mockRestore();
  jest.spyOn(memory, 'putIf').mockResolvedValue(undefined);
  jest.spyOn(Math, 'random').mockReturnValue(0);
  const written = rewriteHour(memory.work, HOUR, adding(row('c')));
  await expect(written).rejects.toMatchObject({ name: 'StorageUnavailable' });
  jest.restoreAllMocks();
});

/** Random bytes, so that the first line survives the cut. */
const CUT = `{"settled":{}}\n{"id":"${randomBytes(9_000).toString('base64')}"}`;

test.each([
  ['not gzip', Buffer.from('rows'), 'NotGzip'],
  ['cut off', gzipSync(CUT).subarray(0, 6_000), 'NotGzip'],
  ['not JSON', gzipSync('{"settled":{}}\n<html>\n'), 'StorageUnavailable'],
])('an object that is %s is no empty hour', async (_, bytes, name) => {
  const memory = new MemoryStorage();
  memory.objects.set(truthKeys.labeled(HOUR), bytes);
  await expect(stored(memory)).rejects.toMatchObject({ name });
});
