/** The label files of a run: which are read, and what is said of those that are not. */
import type { LabelFileReport, TruthInput } from '../../../src/core/contract/ground-truth.ts';
import { areaOf } from '../../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../../src/core/errors/errors.ts';
import { logger } from '../../../src/core/process/logging.ts';
import { readLabelFiles } from '../../../src/ground-truth/labels/read-files.ts';
import { listSegments } from '../../../src/ground-truth/labels/waiting.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { index, prediction, readAndJoin, stepsOn, truthFacts } from '../../helpers/ground-truth.ts';

let memory: MemoryStorage;
let warn: jest.SpyInstance;
beforeEach(() => {
  memory = new MemoryStorage();
  jest.spyOn(logger, 'info').mockImplementation();
  warn = jest.spyOn(logger, 'warn').mockImplementation();
});
afterEach(() => void jest.restoreAllMocks());

const LINE = '{"id":"a","label":1}\n';
async function read(input: TruthInput): Promise<LabelFileReport[]> {
  const { files, cursor } = await readLabelFiles(input, null, stepsOn(memory.storage));
  expect(cursor).toBeNull();
  return files.map((key) => JSON.parse(memory.objects.get(key)?.toString() ?? '') as LabelFileReport);
}

test('all label files under a prefix are read, in the layout of Model Monitor too, and other objects are named', async () => {
  for (const key of ['l/2026/11/20/10/a.jsonl', 'l/b.csv.gz.tmp', 'l/c.JSON', 'l/_SUCCESS', 'm/d.jsonl'])
    memory.put(key, LINE);
  expect((await read({ bucket: 'b', prefix: 'l/' })).map(({ key }) => key)).toEqual([
    'l/2026/11/20/10/a.jsonl',
    'l/c.JSON',
  ]);
  expect(warn.mock.calls).toEqual([
    [expect.any(String), { objects: 2, first: ['s3://b/l/_SUCCESS', 's3://b/l/b.csv.gz.tmp'] }],
  ]);
});

test('the files of a list are read in their versions, and labels that wait need none', async () => {
  memory.put('a.jsonl', LINE);
  const head = jest.spyOn(memory, 'head');
  const files = [
    { bucket: 'b', key: 'a.jsonl', etag: 'older', versionId: 'v2' },
    { bucket: 'b', key: 'gone.csv', etag: 'e' },
  ];
  memory.put('starts/s.jsonl', files.map((file) => `${JSON.stringify(file)}\n`).join(''));
  const reports = await read({ files: { key: 'starts/s.jsonl' } });
  expect(head).toHaveBeenCalledWith('b', 'a.jsonl', 'v2');
  expect(reports).toMatchObject([
    { key: 'a.jsonl', counts: { lines: 1, waiting: 1 } },
    { key: 'gone.csv', etag: 'e', counts: { lines: 0 }, error: { name: 'LabelFileMissing' } },
  ]);
  expect(await read({})).toEqual([]);
  expect(await read({ waiting: true })).toEqual([]);
});

test('one file that is none is refused', async () => {
  await expect(read({ bucket: 'b', key: 'labels.xlsx' })).rejects.toMatchObject({ name: 'NotALabelFile' });
});

test('a file that cannot be used says why, counts nothing, and costs no other', async () => {
  memory.put('l/1.csv', 'date,label\n1,2\n');
  memory.put('l/2.jsonl.gz', 'no gzip');
  memory.put('l/3.jsonl', LINE);
  memory.put('l/4.jsonl', '');
  expect(await read({ bucket: 'b', prefix: 'l/' })).toMatchObject([
    { counts: { lines: 0 }, error: { name: 'NoIdColumn', message: expect.stringContaining('where: l/1.csv') } },
    { counts: { lines: 0 }, error: { name: 'NotGzip' } },
    { counts: { lines: 1, waiting: 1 } },
    { counts: { lines: 0 }, reasons: {} },
  ]);
});

test.each([
  ['CaptureChanged', 'LabelFileChanged'],
  ['CaptureMissing', 'LabelFileMissing'],
  ['CaptureArchived', 'LabelFileArchived'],
] as const)('%s is said as of a label file, and labels that were read before do not count', async (thrown, name) => {
  const labels = Array.from({ length: 60_000 }, (_, n) => `{"id":"${n}","label":1}\n`).join('');
  memory.put('f.jsonl', labels);
  const broken = async function* () {
    yield Buffer.from(labels);
    throw new PermanentError(thrown, 'The capture file …');
  };
  jest.spyOn(memory, 'read').mockImplementation(async () => broken() as never);
  const input = { bucket: 'b', key: 'f.jsonl' };
  const [report] = await read(input);
  expect(report).toMatchObject({ counts: { lines: 0 }, parts: [], error: { name } });
  expect(report?.error?.message).not.toContain('capture');
  await index(memory.storage, [prediction('7')]);
  await readAndJoin(stepsOn(memory.storage), input);
  expect((await truthFacts(memory.storage)).rows).toEqual([]);
  expect([...memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthWaiting')))).toEqual([]);
});

test('what S3 refuses for all files fails the run', async () => {
  memory.put('f.jsonl', LINE);
  jest.spyOn(memory, 'read').mockRejectedValue(new PermanentError('StorageAccessDenied', 'no'));
  await expect(read({ bucket: 'b', key: 'f.jsonl' })).rejects.toMatchObject({ name: 'StorageAccessDenied' });
  expect((await truthFacts(memory.storage)).reports).toEqual([]);
});

test.each(['prefix', 'list'])(
  'when time is over, the next invocation resumes after the last file of a %s',
  async (kind) => {
    const keys = ['l/1.jsonl', 'l/2.jsonl', 'l/3.txt', 'l/4.jsonl', 'l/5.jsonl'];
    for (const key of keys) memory.put(key, LINE);
    memory.put('starts/s.jsonl', keys.map((key) => `{"bucket":"b","key":"${key}"}\n`).join(''));
    const input = kind === 'prefix' ? { bucket: 'b', prefix: 'l/' } : { files: { key: 'starts/s.jsonl' } };
    const read = jest.spyOn(memory, 'read');
    const reports = () => [...memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthFiles'))).length;
    const files: string[] = [];
    let [cursor, invocations]: [string | null, number] = [null, 0];
    do {
      const before = reports();
      const deps = stepsOn(memory.storage, {}, () => (reports() === before ? 900_000 : 1_000));
      const result = await readLabelFiles(input, cursor, deps);
      files.push(...result.files);
      ({ cursor } = result);
      invocations += 1;
    } while (cursor !== null);
    expect(invocations).toBe(4);
    expect(new Set(files).size).toBe(4);
    expect(read.mock.calls.map(([{ key }]) => key)).toEqual(keys.filter((key) => key.endsWith('.jsonl')));
  },
);

test('a rewritten file replaces earlier labels; concurrent reads of one file count once', async () => {
  memory.put('f.jsonl', LINE);
  const input = { bucket: 'b', key: 'f.jsonl' };
  const [first, again] = await Promise.all([read(input), read(input)]);
  expect(again).toEqual(first);
  memory.writtenMs.set('f.jsonl', 60_000);
  expect(await read(input)).toHaveLength(1);
  expect((await truthFacts(memory.storage)).reports).toHaveLength(2);
});

test('the labels of a large file are in parts, and their report counts all lines and names the first faults', async () => {
  const lines = Array.from({ length: 120_000 }, (_, n) => (n % 1_000 === 0 ? 'x' : `{"id":"${n}","label":1}`));
  memory.put('f.jsonl', lines.join('\n'));
  const [report] = await read({ bucket: 'b', key: 'f.jsonl' });
  expect(report?.counts).toMatchObject({ lines: 120_000, waiting: 119_880, invalid: 120 });
  expect(report?.parts.map(({ lines: own }) => own)).toEqual([25_000, 25_000, 25_000, 25_000, 19_880]);
  expect(report?.reasons).toEqual({ NotALabel: 120 });
  expect(report?.faults).toHaveLength(100);
  expect(await Array.fromAsync(listSegments(memory.work))).toHaveLength(5);
});

test('a part that a slow second read writes after its labels were joined is no labels', async () => {
  const { key } = memory.put('f.jsonl', LINE);
  const deps = stepsOn(memory.storage, { GROUND_TRUTH: '{"days":1}' });
  await readLabelFiles({ bucket: 'b', key }, null, deps);
  const [waiting] = [...memory.objects].filter(([name]) => name.startsWith(areaOf('truthWaiting')));
  // They are older than a day, so none of them waits on.
  await readAndJoin(deps, {});
  const before = await truthFacts(memory.storage);
  expect(before.reports).toMatchObject([{ counts: { lines: 1, unknown: 1, waiting: 0 } }]);
  memory.objects.set(...(waiting as [string, Buffer]));
  await readAndJoin(deps, {});
  expect(await truthFacts(memory.storage)).toEqual(before);
  expect(memory.objects.has((waiting as [string, Buffer])[0])).toBe(false);
});

test('a file for which the time is too short is the first of the next invocation, and is named if that is too short too', async () => {
  memory.put('l/a.jsonl', LINE);
  memory.put('l/b.jsonl', LINE.repeat(30_000));
  const input = { bucket: 'b', prefix: 'l/' };
  let leftMs = 0;
  // A look at the clock takes some milliseconds.
  const deps = stepsOn(memory.storage, {}, () => (leftMs -= 4));
  leftMs = 50_000;
  const first = await readLabelFiles(input, null, deps);
  expect(first).toMatchObject({ cursor: 'l/a.jsonl', files: [expect.any(String)] });
  leftMs = 900_000;
  const reportIn = ({ files }: { files: string[] }) => JSON.parse(String(memory.objects.get(files[0] ?? '')));
  const enough = await readLabelFiles(input, first.cursor, deps);
  expect(reportIn(enough)).toMatchObject({ counts: { lines: 30_000, waiting: 30_000 } });
  memory.put('l/c.jsonl', LINE.repeat(60_000));
  leftMs = 200_000;
  const never = await readLabelFiles(input, 'l/b.jsonl', deps);
  expect(never.cursor).toBeNull();
  expect(reportIn(never)).toMatchObject({ counts: { lines: 0 }, error: { name: 'LabelFileTooLarge' } });
});
