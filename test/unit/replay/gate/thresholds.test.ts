/** Parsing of thresholds, and which ones are refused. */
import { parseThreshold } from '../../../../src/replay/gate/thresholds.ts';

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
