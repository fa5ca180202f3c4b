/** The construct from the package, with the oldest CDK that it supports, and its types. */
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { RUNNABLE, synthApp, TYPED, writeApps } from '../helpers/construct-app.ts';
import { installPackage, run } from '../helpers/package.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

let folder: string;

beforeEach(async () => {
  folder = temporaryFolder('construct-');
  await installPackage(folder);
  writeApps(folder);
});

test('works with the oldest CDK', async () => {
  const { peerDependencies } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as {
    peerDependencies: Record<string, string>;
  };
  const oldest = peerDependencies['aws-cdk-lib']?.replace('^', '');
  await run('npm', ['install', '--no-audit', '--no-fund', `aws-cdk-lib@${oldest}`, 'constructs'], { cwd: folder });
  const [first, second] = await Promise.all(RUNNABLE.map((name) => synthApp(folder, name)));
  expect(first).toEqual(second);
  expect(Object.values(first?.Resources ?? {}).length).toBeGreaterThan(80);
});

test('has types that an app compiles with, and that find a wrong prop', async () => {
  for (const name of ['aws-cdk-lib', 'constructs', '@types']) {
    symlinkSync(packagePath('node_modules', name), join(folder, 'node_modules', name));
  }
  const tsc = packagePath('node_modules', 'typescript', 'bin', 'tsc');
  const target = ['--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
  const options = ['--ignoreConfig', '--noEmit', '--strict', ...target];
  await run(process.execPath, [tsc, ...options, ...TYPED], { cwd: folder });
  const wrong = readFileSync(join(folder, 'app.mts'), 'utf8').replace(
    'evaluationSampleRate: 0.05',
    "evaluationSampleRate: '5%'",
  );
  writeFileSync(join(folder, 'wrong.mts'), wrong);
  await expect(run(process.execPath, [tsc, ...options, 'wrong.mts'], { cwd: folder })).rejects.toMatchObject({
    stdout: expect.stringMatching(/Type 'string' is not assignable to type 'number'/),
  });
});
