/** Writes the lock files of the Python environments: `node tools/lock-python.ts`. Requires `uv`. */
import { spawnSync } from 'node:child_process';
import { projectPath } from '../local/project-root.ts';
import { MLFLOW_ENVIRONMENTS } from '../local/python/python-presets.ts';
import {
  AWS_CHECKS_ENVIRONMENT,
  PPI_ENVIRONMENT,
  SAGEMAKER_PLUGIN_ENVIRONMENT,
} from '../test/helpers/check-environments.ts';

const further = [SAGEMAKER_PLUGIN_ENVIRONMENT, AWS_CHECKS_ENVIRONMENT, PPI_ENVIRONMENT];
for (const { lockFile, packages, bounds } of [...MLFLOW_ENVIRONMENTS.values(), ...further]) {
  const requirements = [...Object.entries(packages).map(([name, version]) => `${name}==${version}`), ...bounds];
  const result = spawnSync(
    'uv',
    [
      ...['pip', 'compile', '-', '--universal', '--python-version', '3.10', '--upgrade', '--quiet'],
      ...['--no-annotate', '--custom-compile-command', 'node tools/lock-python.ts', '--output-file', lockFile],
    ],
    { cwd: projectPath(), input: requirements.join('\n'), encoding: 'utf8' },
  );
  if (result.status !== 0) {
    throw new Error(
      `uv could not pin ${requirements.join(', ')}; got: ${result.error?.message ?? result.stderr}; expected: uv on the PATH and a reachable package index`,
    );
  }
  process.stdout.write(`${lockFile}\n`);
}
