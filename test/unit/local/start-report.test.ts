/** The report that `npm start` prints. */

import { exitCode, type Report, reportLines } from '../../../local/start/start-report.ts';
import type { StackOutputs } from '../../../src/contract/names.ts';
import { type RunSummary, SummaryBuilder } from '../../../src/monitoring/summary.ts';
import type { ReasonWithLines } from '../../../src/operate/quarantine-report.ts';

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

function report(more: Partial<Report>): string {
  const environment = {
    ministack: { env: { AWS_ENDPOINT_URL: 'http://aws' } },
    mlflowUrl: 'http://mlflow',
    judge: { url: 'http://judge' },
  };
  const outputs = { captureBucket: 'captures', workBucket: 'work' } as StackOutputs;
  const files = [{ path: '/home/me/captures/a.jsonl', key: 'my-endpoint/a.jsonl', bytes: 1 }];
  return reportLines({
    environment: environment as unknown as Report['environment'],
    deployed: [{ endpoint: 'my-endpoint', prefix: 'local', files, outputs }],
    runs: [run],
    summaries: new Map([['run-1', summary({ planned: 3, traced: 2, quarantined: 1 })]]),
    experiments: [{ name: 'my-endpoint', id: '1' }],
    seconds: 1,
    quarantine: [],
    options: { exit: false },
    settings: {},
    endpointUrl: 'http://endpoint',
    ...more,
  }).join('\n');
}

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

  test('are on one line, truncated, and without control characters', () => {
    const text = report({ quarantine: [notJson(1, `it is “\u001b[2J\nx” ${'y'.repeat(1_000)}`)] });
    expect(text).not.toContain('\u001b');
    expect(/^ {2}\/home.*a\.jsonl:3: it is “ \[2J x” y+…$/m.exec(text)?.[0].length).toBeLessThan(400);
  });

  test('are shown with --exit too, without addresses of stopped servers', () => {
    const text = report({ quarantine: [notJson(1, 'the line is cut off')], options: { exit: true } });
    expect(text).toContain('a.jsonl:3: the line is cut off');
    expect(text).not.toMatch(/s3:\/\/|http:|export /);
  });
});

test('prints the variables for the judge’s commands and for the smoke test', () => {
  const text = report({ settings: { JUDGE_BASE_URL: 'http://judge/v1' } });
  expect(text.split('\n')).toEqual(
    expect.arrayContaining([
      'export AWS_ENDPOINT_URL_BEDROCK_RUNTIME=http://judge',
      'export AWS_ENDPOINT_URL_BEDROCK=http://judge',
      'export AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME=http://endpoint',
      'export JUDGE_BASE_URL=http://judge/v1',
      'export JUDGE_SECRET_ARN=',
      'export MLFLOW_EXPERIMENT_NAME=my-endpoint',
      'export WORK_BUCKET=work',
    ]),
  );
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
