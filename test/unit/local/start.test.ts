/** What `npm start` leaves for other commands, and when it fails. */
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { writeEnvFile } from '../../../local/start/env-file.ts';
import { hasFailed } from '../../../local/start/process-captures.ts';
import { asTyped } from '../../../local/start/start.ts';
import { SummaryBuilder } from '../../../src/monitoring/summary.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

describe('the file with the variables', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('env-');
  });
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
