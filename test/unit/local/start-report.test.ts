/** The report that `npm start` prints. */
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ReasonWithLines } from '../../../bin/operate/run-summaries.ts';
import { writeEnvFile } from '../../../local/start/env-file.ts';
import { exitCode, type Report, reportPage } from '../../../local/start/start-report.ts';
import type { StackOutputs } from '../../../src/core/contract/names.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { type RunSummary, SummaryBuilder } from '../../../src/monitoring/summary.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

const run = { name: 'run-1', arn: 'arn', keys: ['my-endpoint/a.jsonl'], status: 'SUCCEEDED' };

function summary(lines: Partial<RunSummary['lines']>): RunSummary {
  const draft = new SummaryBuilder({ name: 'run-1', startTime: '2026-11-20T10:00:00Z' }).build();
  Object.assign(draft.lines, lines);
  return draft;
}

const notJson = (lines: number, message: string): ReasonWithLines => ({
  reason: 'NotJson',
  count: lines,
  lines: [{ key: 'my-endpoint/a.jsonl', line: 3, reason: { name: 'NotJson', message } }],
});

const environment = {
  ministack: { env: { AWS_ENDPOINT_URL: 'http://aws' } },
  mlflowUrl: 'http://mlflow',
  judge: { url: 'http://judge' },
} as unknown as Report['environment'];
const outputs = { captureBucket: 'captures', workBucket: 'work' } as StackOutputs;
const files = [{ path: '/home/me/captures/a.jsonl', key: 'my-endpoint/a.jsonl', bytes: 1 }];
const of = (...summaries: RunSummary[]) => [{ endpoint: 'my-endpoint', prefix: 'local', files, outputs, summaries }];
const deployed = of(summary({ planned: 3, traced: 2, quarantined: 1 }));

function report(more: Partial<Report>): string {
  return pageText(
    reportPage({
      environment,
      deployed,
      runs: [run],
      summaries: new Map([['run-1', summary({ planned: 3, traced: 2, quarantined: 1 })]]),
      active: [],
      SHADOW_VARIANTS: [],
      experiments: [{ name: 'my-endpoint', id: '1' }],
      seconds: 1,
      quarantine: [],
      worst: [],
      options: { exit: false },
      envFile: packagePath('.local', 'env'),
      ...more,
    }),
  );
}

test('shadow variants count only where variants are compared', () => {
  const counted = summary({ planned: 80, traced: 80 });
  const variants = { A: { captures: 40 }, Next: { captures: 40, errorReplies: 40 } };
  Object.assign(counted, { status: 'succeeded', counted: { first: '2026-11-20T10', variants } });
  const text = report({ deployed: of(counted), summaries: new Map([['run-1', counted]]), SHADOW_VARIANTS: ['Next'] });
  expect(text).toContain('✓ 40 new captures');
  expect(text).toContain('! shadow variant Next is worse than A: error replies 100 points');
  expect(text).toContain('· 0.0% (99.86%: 0.0% to 16.6%) of the captures are error replies');
});

test('several endpoints have a state each, with the stack in the command to run next, and no common figure', () => {
  const [first = { ...deployed[0] }] = deployed;
  const cut = summary({ planned: 40, traced: 39, quarantined: 1 });
  Object.assign(cut, { status: 'succeeded', counted: { first: '2026-11-20T10', variants: { A: { captures: 39 } } } });
  Object.assign(cut, { quarantineReasons: { NotJson: 1 }, verdictsByScorer: { safety: { yes: 39 } } });
  const both = [first, { ...first, endpoint: 'churn', prefix: 'local-2', summaries: [cut] }];
  const text = report({ deployed: both as Report['deployed'], quarantine: [notJson(1, 'cut')] });
  expect(text).toMatch(
    /^· churn: too little to tell: no scorer is asked of half of the captures; 1 line in quarantine \(NotJson 1\)$/m,
  );
  expect(text).toContain('churn has a separate stack: --stack local-2');
  expect(text).not.toContain('── Verdicts');
  expect(text.match(/aws s3 ls/g)).toHaveLength(2);
});

test('captures that no scorer applies to are named, with the reason', () => {
  const tables = summary({ planned: 3, traced: 3 });
  const text = (one: RunSummary) => report({ summaries: new Map([['run-1', one]]) });
  Object.assign(tables.verdicts, { notJudgeable: 57 });
  tables.reasons = { notText: 57 };
  expect(text(tables)).toContain('Nothing is judged: no scorer applies to these captures (notText).');
  tables.verdicts.newVerdicts = 1;
  tables.spend.calls = 1;
  expect(text(tables)).not.toContain('Nothing is judged');
});

describe('the reasons of quarantined lines', () => {
  test('show the file, the line and the message, and the number of further lines', () => {
    expect(report({ quarantine: [notJson(5, 'the line is cut off')] })).toContain(
      [
        '── Quarantined ──',
        'NotJson: 5',
        '  /home/me/captures/a.jsonl:3: the line is cut off',
        '  and 4 more',
        'All of them, with their bytes (base64): aws s3 ls --recursive s3://work/quarantine/',
      ].join('\n'),
    );
  });

  test('are shown with --exit too, without addresses of stopped servers', () => {
    const text = report({ quarantine: [notJson(1, 'the line is cut off')], options: { exit: true } });
    expect(text).toContain('a.jsonl:3: the line is cut off');
    expect(text).not.toMatch(/s3:\/\/|http:|export /);
  });
});

describe('the file with the variables', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('env-');
  });
  const facts = (mlflowUrl = 'http://mlflow') => ({
    environment: { ...environment, mlflowUrl },
    deployed,
    settings: { JUDGE_BASE_URL: 'http://judge/v1' },
    endpointUrl: 'http://endpoint',
  });
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
    const names = [
      'AWS_ENDPOINT_URL_BEDROCK_RUNTIME',
      'AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME',
      'JUDGE_BASE_URL',
      'WORK_BUCKET',
    ];
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

test('the report ends with the worst verdicts, without links to servers that --exit has stopped', () => {
  const failing = {
    scorer: 'safety',
    value: 'no',
    by: 'judge' as const,
    source: 'j',
    rationale: 'Because.',
    failed: true,
    good: false,
    severity: 'harm' as const,
    degree: 1,
  };
  const trace = { traceId: 'tr-1', url: 'http://mlflow/tr-1', time: '2026-11-20T10:00:00Z', variant: 'blue' };
  const badness = { severity: 'harm' as const, causes: 1, count: 1, failing: [failing] };
  const worst = [{ ...trace, ...badness, verdicts: 3, request: 'Q', reply: 'A' }];
  expect(report({ worst })).toContain(
    [
      '── Worst verdicts (more: npm run monitor -- worst --from 2026-11-20) ──',
      '1. harm: 1 of 3 verdicts fail, 2026-11-20 10:00 UTC, blue',
      '  safety fails: Because.',
      '  request: Q',
      '  reply: A',
      '  http://mlflow/tr-1',
    ].join('\n'),
  );
  expect(report({ worst, options: { exit: true } })).not.toContain('http:');
});

test.each([
  ['all is well', 'SUCCEEDED', { planned: 3, traced: 3 }, 0],
  ['some lines are in quarantine', 'SUCCEEDED', { planned: 3, traced: 2, quarantined: 1 }, 0],
  ['there were no lines', 'SUCCEEDED', { planned: 0 }, 0],
  ['all lines are in quarantine', 'SUCCEEDED', { planned: 3, traced: 0, quarantined: 3 }, 1],
  ['a run failed', 'FAILED', { planned: 3, traced: 3 }, 1],
])('when %s the exit code is', (_, status, lines, code) => {
  expect(exitCode([{ ...run, status }], [summary(lines)])).toBe(code);
});
