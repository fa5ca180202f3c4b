/** The folder of the package: a clone's, or where npm has installed it. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the path of a file of the package, wherever this code is: in its source, or in a chunk of the bundle. */
export function packagePath(...parts: string[]): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder);
  return join(folder, ...parts);
}
