/** The project's folder. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const PACKAGE_NAME = 'sagemaker-inference-monitor';

function isProject(directory: string): boolean {
  const manifest = join(directory, 'package.json');
  if (!existsSync(manifest)) return false;
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { name?: string }).name === PACKAGE_NAME;
}

function upwardsFrom(start: string): string | undefined {
  for (let directory = resolve(start); ; directory = dirname(directory)) {
    if (isProject(directory)) return directory;
    if (dirname(directory) === directory) return undefined;
  }
}

/**
 * Finds the project's folder at or above the working directory, else at or above the started script. It does not use
 * `import.meta`, because the tests run these files as CommonJS.
 */
export function projectRoot(): string {
  const found = upwardsFrom(process.cwd()) ?? (process.argv[1] && upwardsFrom(dirname(process.argv[1])));
  if (found) return found;
  throw new Error(
    `The folder of ${PACKAGE_NAME} was not found; got: working directory ${process.cwd()}; expected: the project's package.json in it or in a folder above it`,
  );
}

/** Returns an absolute path inside the project. */
export const projectPath = (...parts: string[]): string => join(projectRoot(), ...parts);
