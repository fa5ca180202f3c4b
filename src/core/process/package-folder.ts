/** The folder of the package: a clone's, or where npm has installed it. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the path of a file of the package, from the source or from a chunk of the bundle. */
export function packagePath(...parts: string[]): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder);
  return join(folder, ...parts);
}

/** Whether the package is a clone, with its sources. */
export const isClone = (): boolean => existsSync(packagePath('bin', 'app.ts'));

/** Returns the path of a file that work on this machine keeps: in the clone, or in the working directory, since npm replaces a package. */
export const keptPath = (...parts: string[]): string => join(isClone() ? packagePath() : process.cwd(), ...parts);

/**
 * Returns Node's arguments for running a program of the package: its source in a clone, else the built file. @param
 * built its name in `dist/`
 */
export const programArgs = (source: string, built: string): string[] =>
  isClone() ? ['--import', packagePath('bin', 'ready.js'), packagePath(source)] : [packagePath('dist', `${built}.js`)];
