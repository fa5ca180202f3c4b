/** Thresholds, and the gate file: what it accepts, how it names mistakes, and the schema that editors read. */
import { readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { gateSchema, parseGateFile, readGateFile } from '../../../../src/replay/gate/gate-file.ts';
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';

const SCHEMA = `${__dirname}/../../../../docs/gate.schema.json`;

const mistakesIn = (text: string): string[] => {
  try {
    parseGateFile(text, 'gate.yaml');
  } catch (error) {
    expect(error).toMatchObject({ name: 'InvalidGateFile' });
    return (error as Error).message.split('\n');
  }
  throw new Error('the file was accepted');
};

test('reads thresholds and settings', () => {
  const text = `
# A release may be a little slower, but must not fail.
thresholds:
  - request_latency:p95:10%
  - 'time_to_first_token:p50:50'
  - newly_failing:0
errorsTogether: 10
judge: { model: my-judge, budgetUsd: 5 }
`;
  expect(parseGateFile(text, 'gate.yaml')).toEqual({
    thresholds: [
      expect.objectContaining({ metric: 'request_latency', statistic: 'p95', relative: true, limit: 10 }),
      expect.objectContaining({ metric: 'time_to_first_token', statistic: 'p50', relative: false, limit: 50 }),
      expect.objectContaining({ share: 'newly_failing', limit: 0 }),
    ],
    errorsTogether: 10,
    judge: { model: 'my-judge', budgetUsd: 5 },
  });
  expect(parseGateFile('thresholds: [error_rate:1]\njudge: {}', 'gate.yaml')).toMatchObject({ judge: {} });
});

test.each([
  ['', /is missing; expected: a mapping with thresholds; where: gate.yaml, line 1, column 1$/],
  ['- error_rate:1', /got: \["error_rate:1"\]; expected: a mapping with thresholds; where/],
  ['errorsTogether: 1', /thresholds is missing; expected: a list of thresholds such as .*; where: gate.yaml, line 1/],
  ['thresholds: []', /got: \[\]; expected: at least one threshold; where: gate.yaml, line 1, column 13$/],
  ['thresholds:\n', /got: null; expected: a list of thresholds/],
  ['thresholds: error_rate:1', /got: error_rate:1; expected: a list of thresholds/],
  ['thresholds: [1]', /got: 1; expected: a text such as request_latency:p95:10%/],
  ['thresholds:\n  - error_rate: 1', /such as .*, without spaces; where: gate.yaml, line 2, column 5$/],
  ['thresholds: [request_latency:p96:10%]', /got: request_latency:p96:10%; expected: .*p95.*; where: .*, column 14$/],
  [
    'treshholds: [error_rate:1]\nthresholds: [error_rate:1]',
    /got: treshholds; expected: .*; did you mean thresholds\?/,
  ],
  ['thresholds: [error_rate:1]\nx: 1', /got: x; expected: thresholds, errorsTogether, judge; where: gate.yaml, line 2/],
  [
    'thresholds: [error_rate:1]\njudge:\n  budget_usd: 3',
    /did you mean budgetUsd\?; where: gate.yaml, line 3, column 15$/,
  ],
  ['thresholds: [error_rate:1]\njudge:', /judge is not valid; got: null; expected: .*\{\} for the defaults/],
  ['thresholds: [error_rate:1]\njudge: {budgetUsd: -1}', /judge.budgetUsd is not valid; got: -1; expected: US dollars/],
  ['thresholds: [error_rate:1]\nerrorsTogether: 1%', /got: 1%; expected: a whole number from 1 on/],
  ['thresholds: [error_rate:1]\nerrorsTogether: 0', /got: 0; expected: a whole number from 1 on/],
  ['thresholds: [error_rate:0]', /at most 0 by any number of requests; got: error_rate:0; .*; where: .*, column 14$/],
  ['thresholds: [eror_rate:1]', /did you mean error_rate:1\?; where: gate.yaml, line 1, column 14$/],
  ['thresholds: [Request_latncy:95:10%]', /did you mean request_latency:p95:10%\?;/],
  ['thresholds: [something:1]', /valid_json, pii_detected, .*; where/],
  [
    'thresholds: [error_rate:1]\nthresholds: [error_rate:2]',
    /keys must be unique; where: gate.yaml, line 2, column 1$/,
  ],
  ['thresholds: [', /not valid YAML: .*; where: gate.yaml, line 1/],
  ['thresholds: *other', /not valid YAML: .*alias.*; where: gate.yaml, line 1/],
  ['thresholds: !!set [error_rate:1]', /not valid YAML: /],
  ['thresholds: [error_rate:1]\n---\nthresholds: [error_rate:2]', /more than one document; where: gate.yaml, line 2/],
])('names the mistake in %j', (text, expected) => {
  const mistakes = mistakesIn(text);
  expect(mistakes).toHaveLength(1);
  expect(mistakes[0]).toMatch(expected);
});

test('names all mistakes at once, in the order of their lines', () => {
  const mistakes = mistakesIn('errorsTogether: no\nthresholds:\n  - error_rate:1\n  - error_rate:x\n  - y:1\nz: 1');
  expect(mistakes.map((mistake) => mistake.match(/line \d+/)?.[0])).toEqual(['line 1', 'line 4', 'line 5', 'line 6']);
});

test('aliases cannot multiply the size of the file', () => {
  const levels = Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i}, `.repeat(9)}]`);
  expect(mistakesIn(`a0: &a0 [x]\n${levels.join('\n')}`)[0]).toContain('Excessive alias count');
});

test('a file that cannot be read is named', async () => {
  expect(() => readGateFile('/none/gate.yaml')).toThrow(
    expect.objectContaining({ name: 'FileUnreadable', message: expect.stringContaining('/none/gate.yaml') }),
  );
});

/** `UPDATE_SCHEMA=1` writes it. */
test('the published schema is that of the code', () => {
  const schema = z.toJSONSchema(gateSchema, { io: 'input' });
  if (process.env.UPDATE_SCHEMA) writeFileSync(SCHEMA, `${JSON.stringify(schema, null, 2)}\n`);
  expect(JSON.parse(readFileSync(SCHEMA, 'utf8'))).toEqual(schema);
});

test('parses metrics and shares', () => {
  expect(parseThreshold('request_latency:p95:10%')).toEqual({
    kind: 'metric',
    text: 'request_latency:p95:10%',
    metric: 'request_latency',
    statistic: 'p95',
    relative: true,
    limit: 10,
  });
  const latency = { statistic: 'mean', relative: false, limit: 50 };
  expect(parseThreshold('time_to_first_token:mean:50')).toMatchObject(latency);
  const share = { kind: 'share', text: 'error_rate:1', share: 'error_rate', limit: 1 };
  expect(parseThreshold('error_rate:1')).toEqual(share);
  expect(parseThreshold('newly_failing:0')).toMatchObject({ share: 'newly_failing', limit: 0 });
});

test('parses the share of replies that newly fail a free scorer', () => {
  const found = { kind: 'share', share: 'new_failures', scorer: 'cut_off', limit: 2 };
  expect(parseThreshold('new_failures:cut_off:2')).toMatchObject(found);
  expect(() => parseThreshold('new_failures:cut_of:2')).toThrow('did you mean new_failures:cut_off:2?');
});

test.each([
  'new_failures:2',
  'new_failures:response_words:2',
  'request_latency',
  'request_latency:p42:1',
  'speed:p50:1',
  'error_rate:',
  'error_rate: ',
  'error_rate:%',
  'error_rate:-1',
  'regressed:x',
  'regressed:1:2',
])('refuses %j', (text) => {
  const expected = expect.objectContaining({
    name: 'InvalidThreshold',
    message: expect.stringContaining(`got: ${text}`),
  });
  expect(() => parseThreshold(text)).toThrow(expected);
});

test.each(['request_latency:p95:0%', 'request_latency:mean:0', 'error_rate:0'])(
  'refuses %j: no number of requests could pass it',
  (text) => {
    expect(() => parseThreshold(text)).toThrow(/InvalidThreshold|cannot be shown to be at most 0/);
    expect(() => parseThreshold(text)).toThrow(
      'only regressed, newly_failing, new_refusals, judged_worse, new_harm may have',
    );
  },
);

const THROUGHPUT = 'output_token_throughput_per_user';
test.each([
  `${THROUGHPUT}:p50:100%`,
  `${THROUGHPUT}:mean:250%`,
  'error_rate:100',
  'newly_failing:100',
  'regressed:100%',
])('refuses %j: it would always pass', (text) => {
  expect(() => parseThreshold(text)).toThrow(`got: ${text}; expected: a limit below 100%`);
});

test.each([`${THROUGHPUT}:p50:99.9%`, `${THROUGHPUT}:p50:100`, 'request_latency:p95:100%', 'judged_worse:99'])(
  'accepts %j, which can fail',
  (text) => {
    expect(parseThreshold(text)).toMatchObject({ text });
  },
);
