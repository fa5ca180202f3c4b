/** Folders that are gone after the tests of a file, or at the end of a benchmark. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const made: string[] = [];
const remove = (): void => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
};
if (typeof afterAll === 'function') afterAll(remove);
else process.once('exit', remove);

/** Makes an empty folder, whose name begins with this. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), name));
  made.push(folder);
  return folder;
}
