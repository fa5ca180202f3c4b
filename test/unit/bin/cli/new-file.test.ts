/** Files that commands write. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withNewFile } from '../../../../bin/cli/new-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'new-file-'));
const path = join(folder, 'lines.jsonl');
const nothing = async (): Promise<void> => {};
afterEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
});
afterAll(() => rmSync(folder, { recursive: true }));

test('a file has its name once it is complete', async () => {
  await withNewFile(path, async (write) => {
    await write(Buffer.from('a'));
    await write(Buffer.from('b'));
    expect(readdirSync(folder)).toEqual(['lines.jsonl.part']);
  });
  expect(readdirSync(folder)).toEqual(['lines.jsonl']);
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
  expect(readdirSync(folder)).toEqual([]);
  const late = withNewFile(path, async () => writeFileSync(path, 'precious'));
  await expect(late).rejects.toThrow('The file exists');
  await expect(withNewFile(path, nothing)).rejects.toThrow('The file exists');
  expect(readdirSync(folder)).toEqual(['lines.jsonl']);
  expect(readFileSync(path, 'utf8')).toBe('precious');
});
