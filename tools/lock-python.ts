/** Writes the lock files of the Python environments: `node tools/lock-python.ts`. Requires `uv`. */
import { spawnSync } from 'node:child_process';
import { LOCKED, lockFileOf } from '../local/python/python-presets.ts';
import { packagePath } from '../src/core/process/package-folder.ts';

for (const [name, { packages, bounds = [] }] of Object.entries(LOCKED)) {
  const lockFile = lockFileOf(name);
  const requirements = [...Object.entries(packages).map(([name, version]) => `${name}==${version}`), ...bounds];
  const result = spawnSync(
    'uv',
    [
      ...['pip', 'compile', '-', '--universal', '--python-version', '3.10', '--upgrade', '--quiet'],
      ...['--no-annotate', '--custom-compile-command', 'node tools/lock-python.ts', '--output-file', lockFile],
    ],
    { cwd: packagePath(), input: requirements.join('\n'), encoding: 'utf8' },
  );
  if (result.status !== 0) {
    throw new Error(
      `uv could not pin ${requirements.join(', ')}; got: ${result.error?.message ?? result.stderr}; expected: uv on the PATH and a reachable package index`,
    );
  }
  process.stdout.write(`${lockFile}\n`);
}
