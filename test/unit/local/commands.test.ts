/** The npm commands: missing packages, invalid options, checks before a local run, what it leaves for others, and when it fails. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { numberFlag, readFlags } from '../../../bench/support/flags.ts';
import { startProgress } from '../../../bin/cli/progress.ts';
import { describeError } from '../../../local/machine/describe-error.ts';
import { checkSettings } from '../../../local/settings/person-settings.ts';
import { writeEnvFile } from '../../../local/start/env-file.ts';
import { forecastLines, hasFailed, measureFiles } from '../../../local/start/process-captures.ts';
import { asTyped } from '../../../local/start/start.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { SummaryBuilder } from '../../../src/monitoring/summary.ts';
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

test('before a local run announces the number of files and lines, and the estimated and maximum cost of the real judge', async () => {
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

describe('the file with the variables', () => {
  const facts = ((mlflowUrl = 'http://mlflow') => ({
    environment: { ministack: { env: { AWS_ENDPOINT_URL: 'http://aws' } }, mlflowUrl, judge: { url: 'http://judge' } },
    deployed: [{ prefix: 'local', outputs: { workBucket: 'work' } }],
    settings: { JUDGE_BASE_URL: 'http://judge/v1' },
    endpointUrl: 'http://endpoint',
  })) as unknown as (mlflowUrl?: string) => Parameters<typeof writeEnvFile>[0];
  const sourced = (path: string, ...names: string[]): string[] =>
    execFileSync('sh', ['-c', `. ${path}; printf '%s\\n' ${names.map((name) => `"$${name}"`).join(' ')}`], {
      encoding: 'utf8',
      env: { AWS_PROFILE: 'production' },
    })
      .trimEnd()
      .split('\n');

  test('has the variables of the commands and the smoke test, readable by its owner alone, until it is removed', () => {
    const mlflow = `http://mlflow/it's $HOME`;
    const written = writeEnvFile(facts(mlflow), join(folder, 'env'));
    expect(written.path).toBe(join(folder, 'env'));
    expect(statSync(written.path).mode & 0o777).toBe(0o600);
    const endpoints = ['BEDROCK', 'SAGEMAKER'].map((name) => `AWS_ENDPOINT_URL_${name}_RUNTIME`);
    const names = [...endpoints, 'JUDGE_BASE_URL', 'WORK_BUCKET'];
    expect(sourced(written.path, ...names)).toEqual(['http://judge', 'http://endpoint', 'http://judge/v1', 'work']);
    expect(sourced(written.path, 'STACK_PREFIX', 'MLFLOW_TRACKING_URI', 'AWS_PROFILE')).toEqual(['local', mlflow]);
    written.remove();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('of another local environment that runs stays; that of a killed one is replaced', () => {
    const file = join(folder, 'env');
    writeFileSync(file, `# npm start, process ${process.ppid}\n`);
    const beside = writeEnvFile(facts(), file);
    expect(beside.path).toBe(`${file}-${process.pid}`);
    beside.remove();
    expect(readdirSync(folder)).toEqual(['env']);
    writeFileSync(file, '# npm start, process 999999999\n');
    expect(writeEnvFile(facts(), file).path).toBe(file);
  });
});

test.each([
  ['all is well', 'succeeded', { planned: 3, traced: 3 }, false],
  ['some lines are in quarantine', 'succeeded', { planned: 3, traced: 2, quarantined: 1 }, false],
  ['there were no lines', 'succeeded', { planned: 0 }, false],
  ['all lines are in quarantine', 'succeeded', { planned: 3, traced: 0, quarantined: 3 }, true],
  ['a run failed', 'failed', { planned: 3, traced: 3 }, true],
] as const)('when %s, it has failed', (_, status, lines, failed) => {
  const summary = new SummaryBuilder({ name: 'run-1', startTime: '2026-11-20T10:00:00Z' }).build();
  Object.assign(summary.lines, lines);
  expect(hasFailed({ status, summary })).toBe(failed);
});

test('a path is of the folder where npm was called', () => {
  const { INIT_CWD = '' } = process.env;
  process.env.INIT_CWD = '/somewhere/else';
  expect([asTyped('../captures'), asTyped('/absolute')]).toEqual([resolve('/somewhere/captures'), '/absolute']);
  process.env.INIT_CWD = INIT_CWD;
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
