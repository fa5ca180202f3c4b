/** Which predictions of a capture the index keeps, under which ids and hours, and what of it can be read again. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { decodeLine } from '../../../src/captures/decode.ts';
import type { Capture, DecodeOptions } from '../../../src/captures/types.ts';
import type { PredictionRow } from '../../../src/core/contract/ground-truth.ts';
import type { QualityCell } from '../../../src/core/contract/quality.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { PredictionIndex } from '../../../src/ground-truth/index/prediction-index.ts';
import { predictionRows } from '../../../src/ground-truth/index/predictions.ts';
import { kindOfCounts } from '../../../src/ground-truth/measure/kind.ts';
import { textHashes } from '../../../src/ground-truth/texts.ts';
import { addCell } from '../../../src/quality/cell.ts';
import { hourOf } from '../../../src/quality/tally.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { anyText } from '../../helpers/any-text.ts';
import { corpusFiles, expectationsOf, linesOf } from '../../helpers/corpus.ts';
import { index, LATE_SECOND, prediction } from '../../helpers/ground-truth.ts';
import { indexRows } from '../../helpers/index-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { captureOf, decodedOf, jsonRecord, jsonSide, lineOf, sideOf } from '../captures/arbitraries.ts';

const KEY = 'captures/fern-house/blue/2026/03/04/05/file.jsonl';
const PLACE = { bucket: 'b', key: KEY, etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 };
const traceOf = (name: string): string => `tr-${createHash('md5').update(name).digest('hex')}`;

function decoded(record: object, options: DecodeOptions = {}): Capture {
  return decodedOf(lineOf(record), options);
}

const csv = (request: string, reply: string): object =>
  captureOf(sideOf('INPUT', request, 'text/csv', 'plain'), sideOf('OUTPUT', reply, 'text/csv', 'plain'));
const json = (request: unknown, reply: unknown): object => jsonRecord(request, reply);

const rowsOf = (capture: Capture, given: object = {}, key = KEY): PredictionRow[] =>
  predictionRows(capture, 'tr-1', { key, endpointName: 'own' }, groundTruthSchema.parse(given));

/** The replies of 60 captures, from 0 to 59, as they are counted. */
test.each<[string, string, (i: number) => string, object?]>([
  ['numbers', 'are numbers that are not whole', (i) => (i / 60).toFixed(6)],
  ['numbers', 'are numbers that are not whole', (i) => (0.05 * (i % 5)).toFixed(2)],
  ['numbers', 'are more than 20 different numbers', String],
  ['numbers', 'are more than 20 different numbers', (i) => `${i}%`],
  ['numbers', 'are more than 20 different numbers', (i) => (i < 3 ? 'n/a' : String(i))],
  ['classes', 'have 2 different values', (i) => String(i % 2)],
  ['classes', 'have 2 different values', (i) => `${i % 2}.0`],
  ['classes', 'have 3 different values', (i) => (i === 0 ? '0.5' : String(i % 2))],
  ['classes', 'are words, more than 20 different', (i) => String(i).padStart(3, '0')],
  ['classes', 'are words, more than 20 different', (i) => (i % 2 ? `A${i}` : String(i))],
  ['classes', 'are words, 2 different', (i) => (i % 2 ? 'yes' : 'no')],
  ['classes', 'are words, more than 20 different', (i) => (i / 60).toFixed(6), { kind: 'classes' }],
])('counted predictions are %s: they %s', (kind, why, reply, truth = {}) => {
  const counted = new PredictionIndex(testEnvironment({ GROUND_TRUTH: JSON.stringify(truth) }));
  const cell: QualityCell = {};
  for (let i = 0; i < 60; i += 1) {
    const predictions = counted.add(decoded(csv('1,2\n', `${reply(i)}\n`)), traceOf(String(i)), PLACE);
    addCell(cell, { predictions });
  }
  expect(kindOfCounts(cell.predictions ?? {})).toEqual({ kind, why: `predictions ${why}` });
});

describe('the rows of a capture', () => {
  test('are one per inference, with the id that a label names, and one for the call if it has one inference', () => {
    const facts = {
      endpoint: 'fern-house',
      variant: 'blue',
      second: Date.UTC(2026, 2, 4, 5, 6, 7) / 1000,
      traceId: 'tr-1',
    };
    expect(rowsOf(decoded(csv('1,2\n3,4\n', '0.1\n0.9\n')))).toEqual([
      { id: 'event_0', ...facts, row: 0, prediction: { value: 0.1 } },
      { id: 'event_1', ...facts, row: 1, prediction: { value: 0.9 } },
    ]);
    expect(rowsOf(decoded(csv('1,2\n', '0.1\n')))).toEqual([{ id: 'event', ...facts, prediction: { value: 0.1 } }]);
    expect(rowsOf(decoded(csv('1,2\n', '0.1\n')), {}, 'a.jsonl')).toMatchObject([{ endpoint: 'own', variant: '' }]);
  });

  test('name the inference id before the event id', () => {
    const record = csv('1,2\n', '0.1\n') as { eventMetadata: object };
    const named = decoded({ ...record, eventMetadata: { ...record.eventMetadata, inferenceId: 'mine' } });
    expect(rowsOf(named)).toMatchObject([{ id: 'mine' }]);
  });

  test('have the groups that the settings name: by header, by feature name, by key, by position', () => {
    const groups = ['age', 'town'];
    const withHeader = decoded(csv('age,town\n30,Leeds\n40,\n', '1\n0\n'), { csvHeader: true });
    expect(rowsOf(withHeader, { groups }).map((row) => row.groups)).toEqual([
      ['30', 'Leeds'],
      ['40', null],
    ]);
    const byName = decoded(csv('30,Leeds\n', '1\n'), { featureNames: groups });
    expect(rowsOf(byName, { groups })).toMatchObject([{ groups: ['30', 'Leeds'] }]);
    const byKey = decoded(json({ instances: [{ age: 30, town: 'x'.repeat(100) }] }, { predictions: [1] }));
    expect(rowsOf(byKey, { groups })).toMatchObject([{ groups: ['30', expect.stringMatching(/^x{63}…$/)] }]);
    const hostile = decoded(json({ instances: [{ age: {}, constructor: 1 }] }, { predictions: [1] }));
    expect(rowsOf(hostile, { groups: ['age', 'toString', '__proto__'] })).toMatchObject([
      { groups: [null, null, null] },
    ]);
    expect(rowsOf(decoded(csv('30,Leeds\n', '1\n')), { groups: ['1'] })).toMatchObject([{ groups: ['Leeds'] }]);
  });

  test('of a conversation are its first reply as hashes', () => {
    const chat = json(
      { messages: [{ role: 'user', content: 'Fern?' }] },
      { choices: [{ message: { role: 'assistant', content: 'Yes.' } }] },
    );
    expect(rowsOf(decoded(chat))).toMatchObject([{ id: 'event', prediction: { text: textHashes('Yes.') } }]);
    expect(rowsOf(decoded(chat), { kind: 'classes' })).toMatchObject([{ prediction: { value: 'Yes.' } }]);
    const batch = json({ inputs: ['a?', 'b?'] }, [{ generated_text: 'a!' }, { generated_text: 'b!' }]);
    expect(rowsOf(decoded(batch))).toMatchObject([
      { id: 'event_0', row: 0, prediction: { text: textHashes('a!') } },
      { id: 'event_1', row: 1, prediction: { text: textHashes('b!') } },
    ]);
    const answer = { role: 'assistant', content: ' {"class":"spam","why":"…"}' };
    const structured = json({ messages: [{ role: 'user', content: 'x' }] }, { choices: [{ message: answer }] });
    expect(rowsOf(decoded(structured), { prediction: 'class' })).toMatchObject([{ prediction: { value: 'spam' } }]);
  });

  test('are none where there is nothing to compare, or nothing to find it by', () => {
    expect(rowsOf(decoded(captureOf(jsonSide('INPUT', { instances: [[1]] }, 'plain'), undefined)))).toEqual([]);
    const error = jsonRecord({ instances: [[1]] }, { error: 'x' });
    expect(decoded(error).error).toBeDefined();
    expect(rowsOf(decoded(error))).toEqual([]);
    const record = csv('1,2\n', '0.1\n') as { eventMetadata: object };
    const withMetadata = (eventMetadata: object): Capture => decoded({ ...record, eventMetadata });
    expect(rowsOf(withMetadata({ inferenceTime: '2026-03-04T05:06:07Z' }))).toEqual([]);
    expect(rowsOf(withMetadata({ eventId: 'x'.repeat(1024 ** 2) }))).toEqual([]);
    expect(rowsOf(withMetadata({ eventId: '__proto__' }))).toMatchObject([{ id: '__proto__' }]);
    expect(rowsOf({ ...withMetadata({ eventId: 'e' }), inferenceTimeMs: 9e15 })).toEqual([]);
  });
});

test('no capture of the corpus makes it throw, and most have rows', async () => {
  let rows = 0;
  for (const file of corpusFiles()) {
    const expectations = expectationsOf(file);
    for (const [index, raw] of (await linesOf(file)).entries()) {
      const line = decodeLine(raw, expectations[index]?.options);
      if (line.kind === 'capture') rows += rowsOf(line.capture, { groups: ['a'] }).length;
    }
  }
  expect(rows).toBeGreaterThan(200);
});

const environment = (given: object = {}) => testEnvironment({ GROUND_TRUTH: JSON.stringify(given) });

async function indexed(
  storage: MemoryStorage,
  captures: readonly [name: string, capture: Capture][],
  given: object = {},
  refused = new Set<string>(),
): Promise<void> {
  const index = new PredictionIndex(environment(given));
  for (const [name, capture] of captures) index.add(capture, traceOf(name), PLACE);
  await index.write(storage.storage, 'work', refused);
}

const allRows = (storage: MemoryStorage) => indexRows(storage.storage);

/** A capture with a number as its reply. */
const numbered = (id: string, value = 1, inferenceTime = '2026-03-04T05:06:07Z'): [string, Capture] => [
  id,
  decoded({ ...csv('1,2\n', `${value}\n`), eventMetadata: { eventId: id, inferenceTime } }),
];

describe('the index of a part', () => {
  test('has an object for each hour, by the time of the inference', async () => {
    const storage = new MemoryStorage();
    await indexed(storage, [numbered('a'), numbered('b', 2, '2026-03-04T04:59:59Z'), numbered('c', 3)]);
    expect(await allRows(storage)).toMatchObject([
      { hour: '2026-03-04T04', id: 'b', traceId: traceOf('b'), prediction: { value: 2 } },
      { hour: '2026-03-04T05', id: 'a' },
      { hour: '2026-03-04T05', id: 'c' },
    ]);
  });

  test('has at most 24 hours and those of the files, whatever times captures claim', async () => {
    const storage = new MemoryStorage();
    const captures = Array.from({ length: 100 }, (_, hour) =>
      numbered(`id-${hour}`, 1, new Date(Date.UTC(2020, 0, 1, hour)).toISOString()),
    );
    await indexed(storage, captures);
    expect([...storage.objects.keys()]).toHaveLength(25);
    const rows = await allRows(storage);
    expect(rows.filter(({ hour }) => hour === '2026-03-04T05')).toHaveLength(76);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(100);
  });

  test('leaves out untraced captures, and writes nothing without rows or with 0 days', async () => {
    const storage = new MemoryStorage();
    await indexed(storage, [numbered('a'), numbered('b')], {}, new Set([traceOf('a')]));
    expect(await allRows(storage)).toMatchObject([{ id: 'b' }]);
    const empty = new MemoryStorage();
    await indexed(empty, [numbered('a')], {}, new Set([traceOf('a')]));
    await indexed(empty, [numbered('a')], { days: 0 });
    await indexed(empty, []);
    expect(empty.objects.size).toBe(0);
  });

  test('lacks a capture that cannot be read, and no other', async () => {
    const storage = new MemoryStorage();
    const [, hostile] = numbered('hostile');
    const inferences = new Proxy([], {
      get: () => {
        throw new TypeError('hostile');
      },
    });
    await indexed(storage, [numbered('a'), ['hostile', { ...hostile, inferences }], numbered('b')]);
    expect(await allRows(storage)).toMatchObject([{ id: 'a' }, { id: 'b' }]);
  });

  test('keeps ten thousand rows of a call', async () => {
    const storage = new MemoryStorage();
    const lines = Array.from({ length: 10_000 }, (_, row) => `${row}`).join('\n');
    await indexed(storage, [['many', decoded(csv(lines, lines))]]);
    const rows = await allRows(storage);
    expect(rows.map(({ id, row, prediction }) => [id, row, prediction.value])).toEqual(
      rows.map((_, row) => [`event_${row}`, row, row]),
    );
    expect(rows).toHaveLength(10_000);
    const [body] = storage.objects.values();
    expect(body?.length).toBeLessThan(10_000 * 16);
  });
});

test('a killed attempt and its repetition write the same file', async () => {
  const storage = new MemoryStorage();
  const captures = Array.from({ length: 40 }, (_, n) => numbered(`id-${n}`, n));
  await indexed(storage, captures);
  const before = [...storage.objects.keys()];
  await indexed(storage, captures);
  expect([...storage.objects.keys()]).toEqual(before);
  expect(await allRows(storage)).toHaveLength(40);
});

test('the index is read as it was written, whatever ids callers choose', async () => {
  const id = anyText({ minLength: 1, maxLength: 20 });
  const unique = fc.uniqueArray(fc.oneof(id, fc.constantFrom('__proto__', '"', '\\"', '\n', '\ud800', '{"id":"')));
  await fc.assert(
    fc.asyncProperty(unique, async (ids) => {
      const storage = new MemoryStorage();
      const rows = ids.map((each) => prediction(each));
      await index(storage.storage, rows);
      const hour = hourOf(LATE_SECOND * 1000);
      expect(await allRows(storage)).toEqual(rows.map((row) => ({ ...row, hour })));
    }),
  );
});
