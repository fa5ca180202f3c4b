/**
 * The browser of the tests of pages and of the README's pictures: the Chromium of the npm package `@sparticuz/chromium`,
 * and on a machine that cannot run it the system's.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, renameSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';
import { makeOwnFolder, removeFolder } from '../../local/machine/own-folder.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The package unpacks into the folder for temporary files alone. Left out: the graphics library, which only WebGL needs. */
const UNPACK = `
  import { inflate } from '@sparticuz/chromium';
  const bin = 'node_modules/@sparticuz/chromium/bin/';
  await Promise.all(['chromium.br', 'al2023.tar.br', 'fonts.tar.br'].map((name) => inflate(bin + name)));`;

/** A busy machine is slow to start a browser. */
const START_MS = 180_000;

interface ChromiumProgram {
  executablePath: string;
  /** The variables of its process. */
  env: NodeJS.ProcessEnv;
}

/** Whether the package's Chromium runs on this machine. */
export const packageRuns = process.platform === 'linux' && process.arch === 'x64';

export const hasChromium = (): boolean => packageRuns || systemChromium() !== undefined;

/** Starts a browser. */
export const launchChromium = async (): Promise<Browser> =>
  chromium.launch({
    ...(await chromiumProgram()),
    // Containers have no sandbox and little shared memory.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    timeout: START_MS,
  });

/** Returns how to start Chromium. Throws if this machine has none. */
export async function chromiumProgram(): Promise<ChromiumProgram> {
  if (packageRuns) return packageProgram(await unpackChromium());
  const executablePath = systemChromium();
  if (executablePath) return { executablePath, env: process.env };
  throw new Error('There is no Chromium; expected: one on the PATH, or CHROMIUM_PATH');
}

/**
 * Unpacks the package's Chromium if nobody has yet. Several processes may do so at once: each unpacks into a folder of its
 * own, and the first to finish renames it, so no process sees a half-written program.
 *
 * @param parent where its folder is, which is named by the version
 * @returns its folder
 */
export async function unpackChromium(parent = packagePath('.local')): Promise<string> {
  const manifest = packagePath('node_modules', '@sparticuz', 'chromium', 'package.json');
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  const folder = join(parent, `chromium-${version}`);
  if (existsSync(folder)) return folder;
  const own = makeOwnFolder('chromium', parent);
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', UNPACK], {
    cwd: packagePath(),
    env: { ...process.env, TMPDIR: own },
  });
  try {
    renameSync(own, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
    removeFolder(own);
  }
  return folder;
}

/**
 * Its libraries are the package's. So are its fonts where the machine has none, and they lack signs such as ✓.
 *
 * @param folder from `unpackChromium`
 */
export const packageProgram = (folder: string): ChromiumProgram => ({
  executablePath: join(folder, 'chromium'),
  env: { ...process.env, LD_LIBRARY_PATH: join(folder, 'al2023', 'lib'), XDG_DATA_HOME: join(folder, 'fonts') },
});

/** Returns `CHROMIUM_PATH`, else the first Chromium on the PATH; `undefined` if neither exists. */
function systemChromium(): string | undefined {
  const given = process.env.CHROMIUM_PATH;
  if (given) return given;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isExecutable);
}

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};
