/** The npm commands: missing packages, invalid options, and checks before a local run. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { numberFlag, readFlags } from '../../../bench/support/flags.ts';
import { startProgress } from '../../../bin/cli/progress.ts';
import { describeError } from '../../../local/machine/describe-error.ts';
import { checkSettings } from '../../../local/settings/person-settings.ts';
import { forecastLines, measureFiles } from '../../../local/start/forecast.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder('commands-');
});

test('a command names the remedy if the packages are missing', () => {
  mkdirSync(join(folder, 'bin'));
  cpSync(packagePath('bin', 'ready.js'), join(folder, 'bin', 'ready.js'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const { status, stderr } = spawnSync(process.execPath, ['--import', './bin/ready.js', 'local/start/start.ts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([2, 'The packages of this project are missing; run: npm ci\n']);
});

describe('options of the benchmarks and of the soak test', () => {
  const kinds = { records: 'number', only: 'texts', served: 'switch' } as const;

  test.each(['--records 5 --only a --only b --served', '--records=5 --only=a --only=b --served'])('%s', (text) => {
    const flags = readFlags(text.split(' '), kinds);
    expect(flags).toEqual(['--records=5', '--only=a', '--only=b', '--served']);
    expect([numberFlag(flags, 'records', 1), numberFlag(flags, 'rounds', 3)]).toEqual([5, 3]);
  });

  test.each([
    ['--recrods 5', /invalid; got: Unknown option '--recrods'; expected: --records N, --only TEXT, --served/],
    ['--records many', /got: --records many, which is not a whole number of at least 1/],
    ['--records', /got: /],
    ['5', /got: /],
  ])('refuses %s', (text, message) => {
    expect(() => readFlags(text.split(' '), kinds)).toThrow(message);
  });
});

describe('before a local run', () => {
  test('announces the number of files and lines, and the estimated and maximum cost of the real judge', async () => {
    const path = join(folder, 'a.jsonl');
    writeFileSync(path, `${'{}\n\n'.repeat(3)}{}`);
    const sizes = await measureFiles([
      { path, bytes: 1_000 },
      { path, bytes: 2_000 },
    ]);
    expect(sizes).toEqual({ files: 2, lines: 8, bytes: 3_000 });
    const settings = checkSettings({ EVALUATION_BUDGET_USD: '5' });
    expect(forecastLines(sizes, settings, false)).toEqual(['captures: 2 files, 8 lines, 3,000 bytes']);
    expect(forecastLines(sizes, settings, true)[1]).toMatch(
      /^--bedrock costs money: about 8 calls of \S+claude-sonnet-5-5, an estimated 0\.\d\d dollars from .*, and no more than 5 dollars/,
    );
  });
});

describe('the progress line', () => {
  let text: string;
  const started = (isTTY: boolean) => {
    text = '';
    const write = (part: string): boolean => {
      text += part;
      return true;
    };
    return startProgress({ isTTY, columns: 80, write } as never);
  };

  test('shows nothing after the last line', () => {
    const progress = started(true);
    progress.show('Starting …');
    progress.close('Stopping …');
    progress.show('Deploying …');
    progress.log('MLflow: http://127.0.0.1');
    progress.end();
    expect(text).toMatch(/Stopping …\n$/);
  });

  test.each([
    [true, /^\r\S+Waiting for MLflow …\r\S+Waiting for MLflow … 1 s\r.*Waiting for MLflow … 7 s\r\S+$/s],
    [false, /^Waiting for MLflow …\nWaiting for MLflow … 5 s\n$/],
  ])('shows the elapsed seconds of a wait; on a terminal: %s', (isTTY, shown) => {
    jest.useFakeTimers();
    const progress = started(isTTY);
    progress.show('Waiting for MLflow …');
    jest.advanceTimersByTime(7_000);
    progress.end();
    jest.advanceTimersByTime(7_000);
    jest.useRealTimers();
    expect(text).toMatch(shown);
  });
});

test('reports a missing AWS region without a stack', () => {
  const said = /^The AWS region is missing\n {2}got: .*\n {2}expected: AWS_REGION/;
  expect(describeError(new Error('Region is missing'))).toMatch(said);
});

/** `npm run test:unit -- test/unit/limits` runs the tests of one room; so does each other script of a level. */
const { scripts } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

test('each script of a level ends its levels in the same way', () => {
  const levels = Object.keys(scripts).filter((name) => /^test(:|$)/.test(name));
  expect(levels.length).toBeGreaterThan(7);
  const rests = levels.map((name) => scripts[name]?.replace(/^jest --selectProjects( \w+)+/, ''));
  expect(new Set(rests)).toEqual(new Set([' --config=jest.config.js']));
});

test('a path after a script is a path', () => {
  const jest = [packagePath('node_modules/jest/bin/jest.js'), ...(scripts.test ?? '').split(' ').slice(1)];
  const listed = execFileSync(process.execPath, [...jest, 'test/unit/limits', '--listTests', '--json'], {
    cwd: packagePath(),
    encoding: 'utf8',
    stdio: 'pipe',
  });
  const room = readdirSync(packagePath('test/unit/limits')).filter((name) => name.endsWith('.test.ts'));
  const paths = room.map((name) => packagePath('test/unit/limits', name));
  expect((JSON.parse(listed) as string[]).toSorted()).toEqual(paths.toSorted());
});
