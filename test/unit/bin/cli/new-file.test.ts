/** Files that commands write. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NewFile } from '../../../../bin/cli/new-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'new-file-'));
const path = join(folder, 'lines.jsonl');
afterEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
});
afterAll(() => rmSync(folder, { recursive: true }));

test('a file has its name once it is complete', async () => {
  const file = await NewFile.open(path);
  await file.write(Buffer.from('a'));
  await file.write(Buffer.from('b'));
  expect(readdirSync(folder)).toEqual(['lines.jsonl.part']);
  await file.keep();
  expect(readdirSync(folder)).toEqual(['lines.jsonl']);
  expect(readFileSync(path, 'utf8')).toBe('a\nb\n');
});

test('nothing is left of one that is discarded, and no file is overwritten', async () => {
  const file = await NewFile.open(path);
  await expect(NewFile.open(path)).rejects.toThrow('lines.jsonl.part');
  await file.discard();
  expect(readdirSync(folder)).toEqual([]);
  const late = await NewFile.open(path);
  writeFileSync(path, 'precious');
  await expect(late.keep()).rejects.toThrow('The file exists');
  await late.discard();
  await expect(NewFile.open(path)).rejects.toThrow('The file exists');
  expect(readFileSync(path, 'utf8')).toBe('precious');
});
