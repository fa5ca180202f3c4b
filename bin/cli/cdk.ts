/** Runs the CDK, which is no part of this package, with the app of this package. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { packagePath, programArgs } from '../../src/core/process/package-folder.ts';
import { assertOneEnvironment } from '../../src/core/settings/dotenv-file.ts';
import { EXIT } from './output.ts';

/** Where packages are searched: next to this package, then in the project of the working directory. */
const PLACES = [packagePath('package.json'), join(process.cwd(), 'package.json')];

/**
 * Finds a file of a package that is installed next to this package, or in the working directory's project.
 *
 * @throws PermanentError `CdkMissing`
 */
export function cdkFile(file: string, places: readonly string[] = PLACES): string {
  for (const place of places) {
    try {
      return createRequire(place).resolve(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  const expected = 'npm install sagemaker-inference-monitor aws-cdk aws-cdk-lib constructs';
  throw new PermanentError('CdkMissing', 'The CDK is not installed', { got: `no ${file}`, expected });
}

/** The context of the app, which the CDK reads by itself only in a clone. */
export const cdkContext = (): Record<string, boolean> =>
  JSON.parse(readFileSync(packagePath('cdk.json'), 'utf8')).context;

/** The CDK takes off quotes that are around the whole text. */
const quoted = (word: string): string => (/\s/.test(word) ? `"${word}"` : word);

/** Runs a command of the CDK with the app of this package. @throws PermanentError `CdkMissing`, `MixedEnvironments` */
export async function runCdk(name: 'deploy' | 'destroy', passedOn: readonly string[]): Promise<void> {
  assertOneEnvironment();
  const cdk = cdkFile('aws-cdk/bin/cdk');
  // The app imports these from where it is.
  for (const file of ['aws-cdk-lib/package.json', 'constructs/package.json']) cdkFile(file, PLACES.slice(0, 1));
  const app = programArgs('bin/app.ts', 'app');
  const args = [
    ...[name, '--app', [process.execPath, ...app].map(quoted).join(' ')],
    ...Object.entries(cdkContext()).flatMap(([name, value]) => ['--context', `${name}=${value}`]),
    ...passedOn,
  ];
  const env = { ...process.env, DEPLOYED_AT: new Date().toISOString() };
  // Ctrl-C reaches the CDK, too: it ends the deployment, and then this command ends.
  process.on('SIGINT', () => {});
  const [code] = await once(spawn(process.execPath, [cdk, ...args], { stdio: 'inherit', env }), 'exit');
  process.exitCode = code === 0 ? EXIT.done : code === null ? EXIT.interrupted : EXIT.notDone;
}
