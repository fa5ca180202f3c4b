/** The package as people install it: built, packed, and installed without the network. */
import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { withFileLock } from '../../local/machine/file-lock.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

export const run = promisify(execFile);

/** What decides the package. */
const SOURCES = '{bin,lambda,lib,local,test/aws,tools/package,src,docs,schemas,clients}/**/*.*';

/** Makes the tarball, unless it is newer than the sources: one for all tests. @returns its path */
export async function packedTarball(): Promise<string> {
  const folder = packagePath('.local', 'package');
  mkdirSync(folder, { recursive: true });
  const sources = globSync([SOURCES, 'package.json', 'package-lock.json', '.env.example'], { cwd: packagePath() });
  const changed = Math.max(...sources.map((file) => statSync(packagePath(file)).mtimeMs));
  const name = join(folder, 'name');
  return withFileLock(join(folder, 'lock'), async () => {
    const made = statSync(name, { throwIfNoEntry: false });
    if (made === undefined || made.mtimeMs < changed) {
      const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: packagePath() });
      const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [{ filename: string }];
      writeFileSync(name, filename);
    }
    return join(folder, readFileSync(name, 'utf8'));
  });
}

/** Installs the package in an empty folder, without the network. */
export async function installPackage(folder: string): Promise<void> {
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', await packedTarball()], { cwd: folder });
}

/** Installs a Node from its npm package, once. @returns the program */
export async function nodeOf(version: string): Promise<string> {
  const place = packagePath('.local', `node-${version}`);
  const program = join(place, 'node_modules', 'node', 'bin', 'node');
  if (existsSync(program)) return program;
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), '{"private":true}');
  await run('npm', ['install', '--no-audit', '--no-fund', `node@${version}`], { cwd: place });
  return program;
}
