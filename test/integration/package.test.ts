/** The package, installed in an empty folder: what is in it, how large it is, and that it does what a clone does. */
import * as fs from 'node:fs';
import { copyFileSync, existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { REQUIRE } from '../../lib/bundle-functions.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { captureSurroundings, clientsIn } from '../helpers/capture-surroundings.ts';
import { RUNNABLE, synthApp, writeApps } from '../helpers/construct-app.ts';
import { installPackage, nodeOf, run } from '../helpers/package.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

let folder: string;
let modules: string;
let own: string;

beforeAll(async () => {
  folder = temporaryFolder('package-');
  await installPackage(folder);
  modules = join(folder, 'node_modules');
  own = join(modules, 'sagemaker-inference-monitor');
  // What the applications of the tests have beside it. A symbolic link leads to the clone, which has all that they import.
  for (const name of ['@aws-sdk', 'aws-cdk-lib', 'constructs']) {
    fs.symlinkSync(packagePath('node_modules', name), join(modules, name));
  }
  writeApps(folder);
});

const installed = (...words: string[]) => run(join(modules, '.bin', 'inference-monitor'), words, { cwd: folder });
const cloned = (...words: string[]) =>
  run(process.execPath, ['bin/inference-monitor.js', ...words], { cwd: packagePath() });

test('is small, needs no other package, and has no sources', () => {
  const files = globSync('**', { cwd: own, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  expect(bytes).toBeLessThan(15 * 1024 * 1024);
  const { packages } = JSON.parse(readFileSync(join(modules, '.package-lock.json'), 'utf8')) as { packages: object };
  expect(Object.keys(packages)).toEqual(['node_modules/sagemaker-inference-monitor']);
  const names = files.map(({ parentPath, name }) => join(parentPath, name));
  expect(names.filter((name) => /\.ts$/.test(name) && !name.endsWith('.d.ts'))).toEqual([]);
  const others = ['docs/commands.md', 'examples/captures/README.md', 'examples/rollback/deployment-config.json'];
  for (const file of ['LICENSE', 'README.md', '.env.example', 'dist/THIRD-PARTY-NOTICES', ...others]) {
    expect(existsSync(join(own, file))).toBe(true);
  }
});

test('has both commands, which npm has made executable', async () => {
  for (const name of ['inference-monitor', 'sagemaker-inference-monitor']) {
    fs.accessSync(join(modules, '.bin', name), fs.constants.X_OK);
  }
  const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));
  expect((await installed('--version')).stdout).toBe(`${version}\n`);
});

test('has a zip of each function, whose bytes depend on the sources alone', () => {
  const zips = globSync('*.zip', { cwd: join(own, 'dist', 'functions') });
  expect(zips.sort()).toEqual(
    globSync('*/handler.ts', { cwd: packagePath('lambda') })
      .map((file) => file.replace('/handler.ts', '.zip'))
      .sort(),
  );
  for (const zip of zips) {
    const bytes = readFileSync(join(own, 'dist', 'functions', zip));
    // Midnight of 1 January 1980, and a file that everybody may read.
    expect(bytes.readUInt32LE(10)).toBe(0x00210000);
    const central = bytes.lastIndexOf('PK\x01\x02');
    expect(bytes.readUInt32LE(central + 38) >>> 16).toBe(0o100644);
  }
});

test('does what a clone does', async () => {
  expect((await installed('--help')).stdout).toBe((await cloned('--help')).stdout);
  const captures = packagePath('examples', 'replay');
  const words = ['replay', captures, '--dry-run', '--json'];
  expect((await installed(...words)).stdout).toBe((await cloned(...words)).stdout);
  // The anchor set is a file of the package. Without a judge, the command ends before it asks anybody.
  const calibration = installed('calibrate', '--anchors', '--judge-model', 'vendor.new-model');
  await expect(calibration).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining('JudgePriceUnknown') });
});

test('has the construct for apps that are ES modules or CommonJS, with the prebuilt functions', async () => {
  const [first, second] = await Promise.all(RUNNABLE.map((name) => synthApp(folder, name)));
  expect(first).toEqual(second);
  const sizes = (zips: string, cwd: string) => globSync(zips, { cwd }).map((zip) => statSync(join(cwd, zip)).size);
  const built = sizes('*.zip', join(own, 'dist', 'functions'));
  expect(sizes('asset.*.zip', join(folder, 'app.mjs.out')).sort()).toEqual(built.sort());
});

test('has the capture client as an ES module and as CommonJS, which work when an application is bundled into one file', async () => {
  const source = `
    import { SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
    import { captureInvocations } from 'sagemaker-inference-monitor/capture-client';
    const client = new SageMakerRuntimeClient({ region: 'eu-west-1' });
    const captures = captureInvocations(client, { bucket: 'b' });
    console.log(captureInvocations(client, { bucket: 'b' }) === captures, captures.stats().dropped);`;
  writeFileSync(join(folder, 'capture.mjs'), source);
  for (const format of ['esm', 'cjs'] as const) {
    const outfile = join(folder, `capture.${format}.${format === 'esm' ? 'mjs' : 'cjs'}`);
    const banner = { js: format === 'esm' ? REQUIRE : '' };
    const entryPoints = [join(folder, 'capture.mjs')];
    await build({ entryPoints, bundle: true, platform: 'node', format, outfile, banner });
    expect(readFileSync(outfile, 'utf8')).not.toContain('aws-cdk-lib');
    const alone = temporaryFolder('bundled-');
    copyFileSync(outfile, join(alone, basename(outfile)));
    expect((await run(process.execPath, [join(alone, basename(outfile))])).stdout).toBe('true 0\n');
  }
});

test('a reader that has seen enough is no error', async () => {
  const { stderr } = await run('bash', ['-c', 'set -o pipefail; node_modules/.bin/inference-monitor --help | true'], {
    cwd: folder,
  });
  expect(stderr).toBe('');
});

describe('on Node 20, which applications may still run on', () => {
  const here = captureSurroundings();
  const onNode20 = async (...words: string[]) => run(await nodeOf('20.20.2'), words, { cwd: folder });

  test.each(Object.entries({ mjs: 'import', cjs: 'require' }))('the capture client works in %s', async (kind, load) => {
    const place = { region: 'eu-west-1', credentials: { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' } };
    const s3 = { ...place, endpoint: here.s3.url, forcePathStyle: true };
    const source = `(async () => {
      const sdk = await ${load}('@aws-sdk/client-sagemaker-runtime');
      const { captureInvocations } = await ${load}('sagemaker-inference-monitor/capture-client');
      const client = new sdk.SageMakerRuntimeClient(${JSON.stringify({ ...place, endpoint: here.endpoint.url })});
      const captures = captureInvocations(client, ${JSON.stringify({ bucket: 'captures', s3 })});
      const input = { EndpointName: 'e', Body: '{"inputs":"a"}', ContentType: 'application/json' };
      const { Body } = await client.send(new sdk.InvokeEndpointWithResponseStreamCommand(input));
      for await (const _ of Body);
      console.log(process.version, (await captures.flush()).written);
    })();`;
    writeFileSync(join(folder, `calls.${kind}`), source);
    expect((await onNode20(`calls.${kind}`)).stdout).toBe('v20.20.2 1\n');
    expect(clientsIn(here.s3)).toEqual([expect.objectContaining({ ended: 'whole', status: 200, writer: 'node' })]);
  });

  test('the command, in a clone too, and the construct end with one line', async () => {
    const stderr = expect.stringMatching(/^NodeTooOld: .*; got: 20\.20\.2; expected: 22\.19 or newer\n$/);
    const commands = [own, packagePath()].map((place) => join(place, 'bin', 'inference-monitor.js'));
    for (const file of [...commands, ...RUNNABLE]) {
      await expect(onNode20(file, '--help')).rejects.toMatchObject({ code: 2, stdout: '', stderr });
    }
  });
});
