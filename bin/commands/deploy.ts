/** `inference-monitor deploy`: deploys the stack with the CDK, from the package or from a clone. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { assertOneEnvironment } from '../../src/core/settings/dotenv-file.ts';
import { argument, command, type FlagsOf, options } from '../cli/options.ts';
import { EXIT } from '../cli/output.ts';

const OPTIONS = options(argument('[options...]', 'options of cdk deploy'));

export default () => command('deploy', OPTIONS, deploy)().allowUnknownOption();

/** Where packages are looked for: beside this package, then in the project of the working directory. */
const PLACES = [packagePath('package.json'), join(process.cwd(), 'package.json')];

/**
 * Finds a file of a package that is installed beside this one, or in the working directory's project.
 *
 * @throws PermanentError `CdkMissing`
 */
function deployFile(file: string, places: readonly string[] = PLACES): string {
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

/** The CDK takes off quotes that are around the whole text. */
const quoted = (word: string): string => (/\s/.test(word) ? `"${word}"` : word);

async function deploy({ options: passedOn }: FlagsOf<typeof OPTIONS>): Promise<void> {
  assertOneEnvironment();
  const cdk = deployFile('aws-cdk/bin/cdk');
  // The app imports these from where it is.
  for (const file of ['aws-cdk-lib/package.json', 'constructs/package.json']) deployFile(file, PLACES.slice(0, 1));
  const sources = packagePath('bin', 'app.ts');
  const app = existsSync(sources)
    ? ['--import', packagePath('bin', 'ready.js'), sources]
    : [packagePath('dist', 'app.js')];
  const { context } = JSON.parse(readFileSync(packagePath('cdk.json'), 'utf8')) as { context: Record<string, boolean> };
  const args = [
    ...['deploy', '--app', [process.execPath, ...app].map(quoted).join(' ')],
    ...Object.entries(context).flatMap(([name, value]) => ['--context', `${name}=${value}`]),
    ...passedOn,
  ];
  // Ctrl-C reaches the CDK, too: it ends the deployment, and then this command ends.
  process.on('SIGINT', () => {});
  const [code] = await once(spawn(process.execPath, [cdk, ...args], { stdio: 'inherit' }), 'exit');
  process.exitCode = code === 0 ? EXIT.done : code === null ? EXIT.interrupted : EXIT.notDone;
}
