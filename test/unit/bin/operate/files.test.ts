/** The capture files at a path, and files that commands write. */
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { withNewFile } from '../../../../bin/cli/new-file.ts';
import { findCaptures } from '../../../../bin/operate/capture-files.ts';
import { temporaryFolder } from '../../../helpers/temporary-folder.ts';

const record = (time: string) => `${JSON.stringify({ captureData: {}, eventMetadata: { inferenceTime: time } })}\n`;

let root: string;
beforeEach(() => {
  root = temporaryFolder('files-');
});

describe('findCaptures', () => {
  function write(path: string, text = record('2026-11-20T10:00:00Z')): string {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  }
  const keys = async (path: string, endpoint?: string) =>
    (await findCaptures(path, endpoint)).flatMap((group) => group.files.map((file) => file.key));

  test("keeps SageMaker's layout wherever it begins in the path", async () => {
    const key = 'support-llm/variant-1/2026/11/20/09/00-00-000-ab.jsonl';
    const file = write(`downloads/bucket/prefix/${key}`);
    expect(await keys(root)).toEqual([key]);
    expect(await keys(dirname(file))).toEqual([key]);
    expect(await keys(file)).toEqual([key]);
  });

  test('puts other files under the endpoint and the hour of their first record, in UTC', async () => {
    write('today/a.jsonl', `not json\n${record('2026-02-19T01:34:30Z')}${record('2026-02-19T05:00:00Z')}`);
    expect(await keys(root)).toEqual(['my-endpoint/AllTraffic/2026/02/19/01/today-a.jsonl']);
    expect(await keys(join(root, 'today', 'a.jsonl'), 'mine')).toEqual(['mine/AllTraffic/2026/02/19/01/a.jsonl']);
    write('today/a.jsonl', record('2026-02-19T01:30:00+02:00'));
    expect(await keys(root)).toEqual(['my-endpoint/AllTraffic/2026/02/18/23/today-a.jsonl']);
  });

  const OTHER = 'my-endpoint/AllTraffic/2026/11/20/10';
  const OF_LABELS = ['labels/a.jsonl', 'labels/2026/11/20/10/b.jsonl'];
  test.each([
    ['a path that only resembles the layout', ['a/b/2026/13/20/10/x.jsonl'], [`${OTHER}/a-b-2026-13-20-10-x.jsonl`]],
    ['paths that would have the same key', ['a/b.jsonl', 'a-b.jsonl'], [`${OTHER}/a-b.jsonl`, `${OTHER}/a-b-2.jsonl`]],
    ['files of other kinds, which it ignores', ['x.jsonl', 'x.csv.gz', 'README.md'], [`${OTHER}/x.jsonl`]],
    ['labels', [...OF_LABELS, 'club/labels/2026/11/20/10/c.jsonl'], ['club/labels/2026/11/20/10/c.jsonl']],
  ])('tells the keys of %s', async (_, paths, expected) => {
    for (const path of paths) write(path);
    expect(await keys(root)).toEqual(expected);
  });

  test('puts a file without a time under the hour of its modification time', async () => {
    const file = write('a.jsonl', '');
    utimesSync(file, new Date('2025-01-02T03:04:05Z'), new Date('2025-01-02T03:04:05Z'));
    expect(await keys(root)).toEqual(['my-endpoint/AllTraffic/2025/01/02/03/a.jsonl']);
  });

  test('groups files by endpoint, and into one group with --endpoint', async () => {
    write('one/AllTraffic/2026/11/20/10/x.jsonl');
    write('two/AllTraffic/2026/11/20/10/x.jsonl');
    expect((await findCaptures(root)).map((group) => group.endpoint)).toEqual(['one', 'two']);
    expect(await keys(root, 'all')).toEqual([
      'all/AllTraffic/2026/11/20/10/x.jsonl',
      'all/AllTraffic/2026/11/20/10/x-2.jsonl',
    ]);
  });

  test('unpacks compressed files, since a stack reads none', async () => {
    const key = 'support-llm/variant-1/2026/11/20/09/00-00-000-ab.jsonl';
    const packed = write(`downloads/${key}.gz`);
    writeFileSync(packed, gzipSync(record('2026-11-20T09:00:00Z')));
    write('plain.jsonl');
    const files = (await findCaptures(root)).flatMap((group) => group.files);
    expect(files.map((file) => file.key)).toContain(key);
    const copy = files.find((file) => file.key === key);
    expect(readFileSync(copy?.path ?? '', 'utf8')).toBe(record('2026-11-20T09:00:00Z'));
    expect(copy?.bytes).toBe(record('2026-11-20T09:00:00Z').length);
  });

  test.each([
    ['a path that does not exist', 'missing', /No captures exist .*missing; expected: a capture file/],
    ['a folder without captures', '.', /no capture files; got: .*; expected: files that end with \.jsonl/],
    ['a file of another kind', 'x.csv', /x\.csv does not end in \.jsonl/],
  ])('%s is an error that names what is allowed', async (_, path, message) => {
    write('x.csv');
    await expect(findCaptures(join(root, path))).rejects.toThrow(message);
  });
});

describe('a file that a command writes', () => {
  const nothing = async (): Promise<void> => {};
  let path: string;
  beforeEach(() => {
    path = join(root, 'lines.jsonl');
  });

  test('a file has its name once it is complete', async () => {
    await withNewFile(path, async (write) => {
      await write(Buffer.from('a'));
      await write(Buffer.from('b'));
      expect(readdirSync(root)).toEqual(['lines.jsonl.part']);
    });
    expect(readdirSync(root)).toEqual(['lines.jsonl']);
    expect(readFileSync(path, 'utf8')).toBe('a\nb\n');
  });

  test('nothing is left without a line, or of work that fails, and no file is overwritten', async () => {
    const failing = withNewFile(path, async (write) => {
      await write(Buffer.from('a'));
      await expect(withNewFile(path, nothing)).rejects.toThrow('lines.jsonl.part');
      throw new Error('no more lines');
    });
    await expect(failing).rejects.toThrow('no more lines');
    await withNewFile(path, nothing);
    expect(readdirSync(root)).toEqual([]);
    const late = withNewFile(path, async () => writeFileSync(path, 'precious'));
    await expect(late).rejects.toThrow('The file exists');
    await expect(withNewFile(path, nothing)).rejects.toThrow('The file exists');
    expect(readdirSync(root)).toEqual(['lines.jsonl']);
    expect(readFileSync(path, 'utf8')).toBe('precious');
  });
});
