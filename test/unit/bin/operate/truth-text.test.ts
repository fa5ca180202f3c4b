/** The outcome of label files, in pipes and on terminals of several widths. */

import { truthReportPage } from '../../../../bin/commands/ground-truth.ts';
import type { LabelFileState, TruthReport } from '../../../../bin/operate/truth-run.ts';
import type { LabelCounts } from '../../../../src/core/contract/ground-truth.ts';
import { pageText } from '../../../../src/core/text/page.ts';

const counts = (some: Partial<LabelCounts>): LabelCounts => ({
  ...{ lines: 0, joined: 0, repeated: 0, replaced: 0, outdated: 0, waiting: 0, unknown: 0, ambiguous: 0, invalid: 0 },
  ...some,
});

const file = (some: Partial<LabelFileState>): LabelFileState => ({
  bucket: 'my-labels',
  key: 'churn/desk.jsonl',
  etag: 'e',
  readAt: '2026-11-20T10:00:00.000Z',
  counts: counts({ lines: 1234, joined: 1234 }),
  reasons: {},
  faults: [],
  replacedLabels: [],
  ...some,
});

const letters = file({
  key: 'ground-truth/uploads/0a1b2c3d4e5f6071/2026/letters.csv',
  counts: counts({ lines: 5, joined: 2, replaced: 1, waiting: 1, invalid: 1 }),
  faults: [{ line: 4, name: 'NotALabel', message: 'it has\u001b[2J no id' }],
  replacedLabels: [{ line: 5, id: 'renewal-682b4650ce_0', from: 0, to: 1 }],
});

const report = (some: Partial<TruthReport> = {}): TruthReport => ({
  ...{ error: undefined, notedBy: undefined },
  run: 'labels-1',
  arn: 'arn',
  status: 'succeeded',
  noted: 1236,
  notNoted: { TraceMissing: 1 },
  files: [file({}), letters],
  ...some,
});

test('a report has the counts of each file and of all, without outcomes that none has, and the lines with faults', () => {
  expect(pageText(truthReportPage(report()))).toBe(
    [
      '── labels-1: succeeded ──',
      'file                             lines  joined  replaced  waiting  invalid',
      's3://my-labels/churn/desk.jsonl  1,234   1,234         0        0        0',
      '2026/letters.csv                     5       2         1        1        1',
      'all                              1,239   1,236         1        1        1',
      '2026/letters.csv:4: NotALabel: it has [2J no id',
      '2026/letters.csv:5: renewal-682b4650ce_0 was 0, and is 1 now',
      '1,236 labels were written to MLflow.',
      'Not written to MLflow: TraceMissing 1.',
      '',
    ].join('\n'),
  );
});

test('a file of which nothing could be used says why, and long lists say how many more there are', () => {
  const unusable = file({ counts: counts({}), error: { name: 'NoIdColumn', message: 'The CSV has no id column' } });
  expect(pageText(truthReportPage(report({ files: [unusable] })))).toContain(
    's3://my-labels/churn/desk.jsonl: not read: NoIdColumn: The CSV has no id column\n',
  );
  const faults = Array.from({ length: 100 }, (_, at) => ({ line: at + 1, name: 'NotALabel', message: 'it has no id' }));
  const text = pageText(
    truthReportPage(report({ files: [file({ counts: counts({ lines: 5000, invalid: 5000 }), faults })] })),
  );
  expect(text).toContain('desk.jsonl:10: NotALabel');
  expect(text).not.toContain('desk.jsonl:11: NotALabel');
  expect(text).toContain('and 4,990 more of s3://my-labels/churn/desk.jsonl\n');
});
