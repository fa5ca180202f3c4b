/** Which predictions of a capture are kept, under which ids and hours, and what of it can be read again. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { decodeLine } from '../../../src/captures/decode.ts';
import type { Capture, DecodeOptions } from '../../../src/captures/types.ts';
import type { PredictionRow } from '../../../src/core/contract/ground-truth.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { kindOfCounts } from '../../../src/ground-truth/measure/kind.ts';
import { ChunkPredictions } from '../../../src/ground-truth/predictions/chunk-predictions.ts';
import { predictionRows } from '../../../src/ground-truth/predictions/predictions.ts';
import { textHashes } from '../../../src/ground-truth/texts.ts';
import { readFiles } from '../../../src/ledger/files.ts';
import { foldRows } from '../../../src/quality/fold.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { anyText } from '../../helpers/any-text.ts';
import { corpusFiles, expectationsOf, linesOf } from '../../helpers/corpus.ts';
import { index, prediction, tracedRow } from '../../helpers/ground-truth.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';
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
const chatOf = (content: string): object =>
  json({ messages: [{ role: 'user', content: 'Fern?' }] }, { choices: [{ message: { role: 'assistant', content } }] });

const rowsOf = (capture: Capture, given: object = {}, key = KEY): PredictionRow[] =>
  predictionRows(capture, 'tr-1', { key, endpointName: 'own' }, groundTruthSchema.parse(given));

/** The replies of 60 captures, from 0 to 59, as they are counted. */
test.each<[string, string, (i: number) => string]>([
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
])('counted predictions are %s: they %s', (kind, why, reply) => {
  const counts = [0, 30].map((days) => {
    const predictions = new ChunkPredictions(testEnvironment({ GROUND_TRUTH: JSON.stringify({ days }) }));
    const captures = Array.from({ length: 60 }, (_, i) => ({ ...tracedRow(traceOf(String(i))), serving: true }));
    for (const [i, { traceId = '' }] of captures.entries()) {
      expect(predictions.add(decoded(csv('1,2\n', `${reply(i)}\n`)), traceId, PLACE)).toBe(1);
    }
    const inferences = predictions.counted(captures);
    // Two runs know each of them, and one has been merged.
    const all = [...inferences, ...inferences, ...inferences.map((row) => ({ ...row, value: 'old', precedence: 0n }))];
    const cell = Object.values(foldRows({ captures, verdicts: [], inferences: all }, { measures: [] }))[0]?.[''];
    expect(kindOfCounts(cell?.predictions ?? {})).toEqual({ kind, why: `predictions ${why}` });
    return cell;
  });
  expect(counts[0]).toEqual(counts[1]);
});

describe('the rows of a capture', () => {
  test('are one per inference, with the id that a label names, and one for the call if it has one inference', () => {
    const second = Date.UTC(2026, 2, 4, 5, 6, 7) / 1000;
    const facts = { endpoint: 'fern-house', variant: 'blue', second, traceId: 'tr-1' };
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
    expect(rowsOf(withHeader, { groups }).map((row) => `${row.groups}`)).toEqual(['30,Leeds', '40,']);
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
    expect(rowsOf(decoded(chatOf('Yes.')))).toMatchObject([{ id: 'event', prediction: { text: textHashes('Yes.') } }]);
    expect(rowsOf(decoded(chatOf('Yes.')), { kind: 'classes' })).toMatchObject([{ prediction: { value: 'Yes.' } }]);
    const batch = json({ inputs: ['a?', 'b?'] }, [{ generated_text: 'a!' }, { generated_text: 'b!' }]);
    expect(rowsOf(decoded(batch))).toMatchObject([
      { id: 'event_0', row: 0, prediction: { text: textHashes('a!') } },
      { id: 'event_1', row: 1, prediction: { text: textHashes('b!') } },
    ]);
    expect(rowsOf(decoded(chatOf(' {"class":"spam","why":"…"}')), { prediction: 'class' })).toMatchObject([
      { prediction: { value: 'spam' } },
    ]);
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

/** Writes the predictions of captures, of which some are not traced after all. */
async function written(
  storage: MemoryStorage,
  captures: readonly [name: string, capture: Capture][],
  given: object = {},
  refused = new Set<string>(),
): Promise<void> {
  const predictions = new ChunkPredictions(environment(given));
  for (const [name, capture] of captures) predictions.add(capture, traceOf(name), PLACE);
  const traced = captures.map(([name, { inferenceTimeMs }]) => tracedRow(traceOf(name), KEY, inferenceTimeMs));
  const rows = traced.map((row) => (refused.has(row.traceId ?? '') ? { ...row, outcome: 'refused' } : row));
  await predictions.write(storage.work, rows);
}

const allRows = (storage: MemoryStorage) => storedPredictions(storage.storage);
const keysOf = ({ objects }: MemoryStorage) =>
  [...objects.keys()].map((key) => key.replace(/-\w+\.part/, '')).toSorted();

/** A capture with a number as its reply. */
const numbered = (id: string, value = 1, inferenceTime = '2026-03-04T05:06:07Z'): [string, Capture] => [
  id,
  decoded({ ...csv('1,2\n', `${value}\n`), eventMetadata: { eventId: id, inferenceTime } }),
];

describe('the rows of a chunk', () => {
  test('are in a file for each table and day, by the hour of the line', async () => {
    const storage = new MemoryStorage();
    await written(storage, [numbered('a'), numbered('b', 2, '2026-03-03T23:59:59Z'), numbered('c', 3)]);
    expect(keysOf(storage)).toEqual(
      ['ids/inferences', 'inferences'].flatMap((table) => [
        `ledger/${table}/dt=2026-03-03/23-23.parquet`,
        `ledger/${table}/dt=2026-03-04/05-05.parquet`,
      ]),
    );
    expect(await allRows(storage)).toMatchObject([
      { id: 'b', traceId: traceOf('b'), variant: 'blue', prediction: { value: 2 } },
      { id: 'a' },
      { id: 'c' },
    ]);
  });

  test('leave out untraced captures, and no file is without rows', async () => {
    const storage = new MemoryStorage();
    await written(storage, [numbered('a'), numbered('b')], {}, new Set([traceOf('a')]));
    expect(await allRows(storage)).toMatchObject([{ id: 'b' }]);
    const empty = new MemoryStorage();
    await written(empty, [numbered('a')], {}, new Set([traceOf('a')]));
    await written(empty, []);
    expect(empty.objects.size).toBe(0);
  });

  test('have neither ids nor hashes, scores and groups with 0 days, but what is counted', async () => {
    const storage = new MemoryStorage();
    const likeliest = json({ instances: [{ x: 1 }] }, { predictions: [[0.1, 0.7, 0.2]] });
    const captures = [csv('1,2\n', '0.5\n'), csv('1,2\n', `"${'long '.repeat(20)}"\n`), chatOf('Yes.'), likeliest];
    const named = captures.map((record, at): [string, Capture] => [String(at), decoded(record)]);
    await written(storage, named, { days: 0, groups: ['0'] });
    expect(keysOf(storage)).toEqual(['ledger/inferences/dt=2026-03-04/05-05.parquet']);
    const rows = await Array.fromAsync(readFiles(storage.work, 'inferences', storage.objects.keys()));
    const called = { endpoint: 'fern-house', variant: 'blue', hour: '2026-03-04T05', precedence: 1n, isCounted: true };
    const time = Date.UTC(2026, 2, 4, 5, 6, 7);
    expect(rows.flat()).toEqual([
      { ...called, time, traceId: traceOf('0'), value: '0.5', number: 0.5 },
      { ...called, time, traceId: traceOf('3'), value: '1', number: 1 },
    ]);
  });

  test('lack a capture that cannot be read, and no other', async () => {
    const storage = new MemoryStorage();
    const [, hostile] = numbered('hostile');
    const inferences = new Proxy([], {
      get: () => {
        throw new TypeError('hostile');
      },
    });
    await written(storage, [numbered('a'), ['hostile', { ...hostile, inferences }], numbered('b')]);
    expect(await allRows(storage)).toMatchObject([{ id: 'a' }, { id: 'b' }]);
  });

  test('of calls may be ten thousand each, in several files', async () => {
    const storage = new MemoryStorage();
    const lines = Array.from({ length: 10_000 }, (_, row) => `${row}`).join('\n');
    const names = ['a', 'b', 'c'];
    const captures = names.map((name): [string, Capture] => [name, decoded(csv(lines, lines))]);
    await written(storage, captures);
    expect(storage.objects.size).toBe(4);
    const rows = await allRows(storage);
    expect(rows.map(({ id, row }) => [id, row])).toEqual(
      rows.map(({ prediction }) => [`event_${prediction.value}`, prediction.value]),
    );
    expect(new Set(rows.map(({ traceId, row }) => `${traceId} ${row}`)).size).toBe(30_000);
  });
});

test('predictions are read as they were written, whatever ids callers choose', async () => {
  const id = anyText({ minLength: 1, maxLength: 20 });
  const unique = fc.uniqueArray(fc.oneof(id, fc.constantFrom('__proto__', '"', '\\"', '\n', '{"id":"')));
  await fc.assert(
    fc.asyncProperty(unique, async (ids) => {
      const storage = new MemoryStorage();
      const rows = ids.map((each) => prediction(each));
      await index(storage.storage, rows);
      expect(await allRows(storage)).toEqual(rows);
    }),
  );
});
