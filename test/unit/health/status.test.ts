/** The rules of docs/status.md: what each makes of a stack, and the exit code of `status`. */

import { readFileSync } from 'node:fs';
import { findingsPage } from '../../../bin/cli/summary-page.ts';
import { hoursOf } from '../../../bin/cli/window.ts';
import type { QualityCell } from '../../../src/core/contract/quality.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { pageText } from '../../../src/core/text/page.ts';
import type { HealthFacts } from '../../../src/health/facts.ts';
import { FINDING_NAMES, healthOf } from '../../../src/health/findings.ts';
import { readFacts } from '../../../src/health/gather.ts';
import { makePage } from '../../../src/health/make-page.ts';
import type { ReplyToRead } from '../../../src/health/page-first.ts';
import { numberCounts } from '../../../src/quality/cell.ts';
import { addTree } from '../../../src/quality/count-tree.ts';
import { hourOf } from '../../../src/quality/tally.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import {
  askedStackIn,
  type Called,
  called,
  DAY,
  factsOf,
  GOOD,
  metObjective,
  type Ran,
  type Situation,
  served,
  statusOf,
  useAskedStack,
} from '../../helpers/asked-stack.ts';
import { type Answer, NO_ANSWER } from '../../helpers/aws-answers.ts';
import { environment, HOUR_MS, NOW_MS, writeMonth } from '../../helpers/example-month.ts';
import { firstScreen, tableOf } from '../../helpers/page-reader.ts';

useAskedStack();

const with_ = (more: QualityCell): Situation => ({
  hour: (ago) => ({ blue: ago === 3 ? { ...GOOD, ...more } : GOOD }),
});
/** The same in each hour. */
const each = (more: QualityCell): Situation => ({ hour: () => ({ blue: { ...GOOD, ...more } }) });
const scored = (scorer: string, yes: number, no: number): QualityCell => ({
  scorers: { ...GOOD.scorers, [scorer]: { 0.25: { captures: 40, values: { yes, no } } } },
});
const WORST = { ...GOOD, ...scored('safety', 1, 9) };
const until =
  (hours: number): Situation['hour'] =>
  (ago) =>
    ago < hours ? {} : { blue: GOOD };
const byClient: Situation['hour'] = () => ({ blue: { ...GOOD, byClient: { calls: 40 } } });
const OLD_RUN: Ran = { name: 'files-0', status: 'SUCCEEDED', ago: 5 };
const CALLED = called({ hourly: { blue: [40] } });
const FAILED: Ran = { name: 'files-7', status: 'FAILED', ago: 6 };
const retryOf = (name: string, run: string, status: Ran['status'] = 'SUCCEEDED', ago = 4, what = 'failed'): Ran => ({
  name,
  status,
  ago,
  input: { retry: { run, what } },
});
const dryRunOf = (run: string): Ran => ({ ...retryOf('dry', run), input: { ...retryOf('', run).input, dryRun: true } });
function alarm(id: string): Situation {
  const on = { AlarmDescription: 'Something. What to do: …', StateUpdatedTimestamp: NOW_MS / 1000 };
  // The second one is of another stack, whose prefix begins with this one's.
  const names = [`test-${id}`, 'test-b-RunFailed'].map((name) => `sagemaker-monitoring-${name}`);
  const MetricAlarms = names.map((AlarmName) => ({ AlarmName, ...on }));
  return { answers: { DescribeAlarms: [200, { MetricAlarms }] } };
}
const DENIED: Situation['answers'] = { DescribeAlarms: [403, { __type: 'AccessDeniedException', message: 'no' }] };
const spent = (usd: number): Situation => ({
  answers: { GetItem: [200, { Item: { committed: { N: String(usd * 1e9) } } }] },
});
const worseVariant = (variant: string): Situation => ({
  hour: () => ({ blue: GOOD, [variant]: { ...GOOD, ...scored('fluency', 5, 5) } }),
});

test.each<[string, Situation, words: RegExp, name?: string]>([
  [
    'all is well',
    {},
    /^healthy: no scorer is 11 points worse in 24 hours, nor 7 points in three days; 960 captures; .*; 8 more$/,
  ],
  [
    'captures have stopped',
    { hour: until(4), ran: [OLD_RUN], answers: CALLED },
    /^bad: captures are missing: 40 captures of 120 invocations of variant blue from 2026-11-30 08:00 UTC to 11-30 11:00, and Data Capture takes 100%$/,
    'captures',
  ],
  ['none ever came, but calls', { hours: 0, ran: [], answers: CALLED }, /^bad: .* 0 captures of 120 inv/, 'captures'],
  [
    'the endpoint gets no calls',
    { hour: until(48), ran: [] },
    /^too little to tell: 0 captures, no captures since 2026-11-29 13:00 UTC: 0 invocations in the window/,
    'captures',
  ],
  [
    'it got no calls for hours',
    { hour: until(4), ran: [OLD_RUN] },
    /^healthy: .*; 800 captures, no captures since 2026-11-30 09:00 UTC: 0 invocations in the window/,
  ],
  [
    'CloudWatch cannot count its calls',
    {
      hour: until(4),
      ran: [OLD_RUN],
      answers: { GetMetricData: [200, { MetricDataResults: [{ Id: 'm0', StatusCode: 'InternalError' }] }] },
    },
    /^could not ask: could not ask about captures: CloudWatchInternalError$/,
    'captures',
  ],
  [
    'an old run over new captures continues',
    { hour: until(4), ran: [{ name: 'files-2', status: 'RUNNING', ago: 1.5 }], answers: CALLED },
    /^healthy/,
  ],
  ...(
    [
      ['Data Capture takes a tenth, and a tenth came', { hourly: { blue: [400] }, percent: 10 }, {}, undefined],
      [
        'less than a tenth came',
        { hourly: { blue: [600] }, percent: 10 },
        {},
        '120 captures of 1,800 invocations of variant blue .*, and Data Capture takes 10%',
      ],
      [
        'one variant lacks captures',
        { hourly: { blue: [40], green: [10] } },
        {},
        '0 captures of 30 invocations of variant green .*, and Data Capture takes 100%',
      ],
      [
        'Data Capture is off',
        { hourly: { blue: [40] }, percent: 0 },
        { hour: until(6) },
        '0 captures of 120 .*, and Data Capture is off',
      ],
      ['calls that failed may have no capture', { hourly: { blue: [900, 838, 22] } }, {}, undefined],
      ['the configuration has changed within these hours', { hourly: { blue: [900] }, since: 3 }, {}, undefined],
      ['it changed before', { hourly: { blue: [900] }, since: 5 }, {}, '120 captures of 2,700'],
      ['captures come from the client alone', { hourly: { blue: [900] }, percent: 0 }, { hour: byClient }, undefined],
      [
        'a run over later captures continues',
        { hourly: { blue: [900] } },
        { ran: [{ name: 'files-2', status: 'RUNNING', ago: 0.5 }] },
        '120 captures of 2,700',
      ],
    ] satisfies [string, Called, Situation, string | undefined][]
  ).map(([name, calls, situation, missing]): [string, Situation, RegExp, string?] => [
    `captures and calls: ${name}`,
    { ...situation, answers: called(calls) },
    missing === undefined ? /^healthy/ : new RegExp(`^bad: captures are missing: ${missing}`),
    missing && 'captures',
  ]),
  [
    'a tenth of the calls fail in the endpoint',
    { answers: called({ hourly: { blue: [100, 0, 10] }, percent: 45 }) },
    /^needs a look: 10.0% \(99.89%: 8.1% to 12.1%\) of 2,400 calls are replies of 5XX by CloudWatch$/,
    'failed-calls',
  ],
  [
    'half of them do',
    { answers: called({ hourly: { blue: [80, 0, 40] } }) },
    /^bad: 50.0% .* of 1,920 calls are replies of 5XX by CloudWatch$/,
    'failed-calls',
  ],
  ['few calls have no reply', with_({ failedCalls: { timeout: 4 } }), /^healthy/],
  [
    'there are few captures',
    { hour: (ago) => (ago === 1 ? { blue: { captures: 29 } } : {}) },
    /^too little to tell: .*29 captures, of at least 30/,
    'captures',
  ],
  [
    'few captures are judged',
    { hour: () => ({ blue: { captures: 40, scorers: { safety: { 0.01: { captures: 40, values: { yes: 1 } } } } } }) },
    /^too little to tell: .*24 captures judged, of at least 30/,
    'judged',
  ],
  [
    'a tenth of the replies are errors',
    each({ errorReplies: 4, errorKinds: { 503: 4 } }),
    /^needs a look: 10.0% \(99.89%: 7.1% to 13.5%\) of the captures are error replies \(503 96\)/,
    'error-replies',
  ],
  [
    'one of few replies is an error, and of few lines in quarantine',
    { hour: (ago) => (ago === 1 ? { blue: { captures: 10, errorReplies: 1, quarantined: { NotJson: 2 } } } : {}) },
    /^too little to tell: .*10 captures, of at least 30.*; 2 lines in quarantine, 16.7% /,
    'captures',
  ],
  ['most replies are errors', each({ errorReplies: 30 }), /^bad: 75.0% \(.*\) of the captures/, 'error-replies'],
  [
    'most replies of a variant are errors',
    { hour: () => ({ blue: { ...GOOD, captures: 400 }, green: { ...GOOD, errorReplies: 20 } }) },
    /^bad: 50.0% \(.*\) of the captures of variant green are error replies/,
    'error-replies',
  ],
  [
    'a variant is worse',
    worseVariant('green'),
    /^needs a look: variant green is worse than blue: fluency 40 points$/,
    'variant-differs',
  ],
  ['a shadow variant is', worseVariant('next'), /^needs a look: shadow variant next is worse than/, 'variant-differs'],
  ['lines are in quarantine', with_({ quarantined: { NotJson: 2 } }), /^healthy: .*; 2 lines in .* \(NotJson 2\)$/],
  [
    'a few percent of the lines are in quarantine',
    each({ quarantined: { NotJson: 2 } }),
    /^needs a look: 48 lines in quarantine, 4.8% \(99.89%: 2.9% to 7.3%\) \(NotJson 48\)$/,
    'quarantine',
  ],
  ['most lines are', each({ quarantined: { NotJson: 60 } }), /^bad: 1,440 lines in quarantine, 60.0% /, 'quarantine'],
  [
    'verdicts are held',
    with_({ notJudged: { safety: { held: 12, notSampled: 500 } } }),
    /^needs a look: 12 verdicts are missing \(held by the budget 12\)/,
    'not-judged',
  ],
  [
    'the judge failed',
    with_({ notJudged: { safety: { failed: 2 } } }),
    /^needs a look: 2 verdicts .* \(failed 2\)/,
    'not-judged',
  ],
  ['a run failed', { ran: [FAILED] }, /^bad: run files-7 failed \(RunIncomplete\)/, 'run-failed'],
  ['a retry has made it whole', { ran: [FAILED, retryOf('again', 'files-7')] }, /^healthy/],
  [
    'the retry of a retry has',
    { ran: [FAILED, retryOf('again', 'files-7', 'FAILED'), retryOf('third', 'again', 'SUCCEEDED', 3)] },
    /^healthy/,
  ],
  [
    'the second retry of the same run has',
    { ran: [FAILED, retryOf('again', 'files-7', 'FAILED'), retryOf('third', 'files-7', 'SUCCEEDED', 3)] },
    /^healthy/,
  ],
  [
    'retries of something else, and an estimate of a retry, have not',
    { ran: [FAILED, retryOf('lines', 'files-7', 'SUCCEEDED', 4, 'quarantined'), dryRunOf('files-7')] },
    /^bad: run files-7 failed/,
    'run-failed',
  ],
  [
    'one that began before the window did',
    { ran: [{ ...FAILED, ago: 30, endedAgo: 2 }] },
    /^bad: run files-7 failed/,
    'run-failed',
  ],
  [
    'a retry failed too',
    { ran: [FAILED, retryOf('again', 'files-7', 'FAILED')] },
    /^bad: run again failed .*; run files-7 failed/,
    'run-failed',
  ],
  [
    'an alarm is on',
    alarm('JudgeThrottled'),
    /^needs a look: alarm JudgeThrottled is on since 2026-11-30 12:20 UTC: Something$/,
    'alarm',
  ],
  ['events are lost', alarm('EventLost'), /^bad: alarm EventLost is on/, 'alarm'],
  [
    'the budget will end before the day does',
    spent(11.5),
    /^needs a look: \$11.50 of today's budget of \$20.00 \(UTC\): it will be used up about 2026-11-30 21:26 UTC; EVALUATION_SAMPLE_RATE=0.9 would last$/,
    'budget',
  ],
  ['it lasts for the day', spent(10), /^healthy/],
  [
    'it is used up',
    spent(20.5),
    /^needs a look: .*it is used up; EVALUATION_SAMPLE_RATE=0.5 would last, or less$/,
    'budget',
  ],
  ['alarms may not be read', { answers: DENIED }, /^could not ask: could not ask about alarms: AccessDenied/, 'alarm'],
  ['alarms may not, and something is bad', { answers: DENIED, ran: [FAILED] }, /^bad: run files-7/, 'run-failed'],
  ['alarms may not, and there is little', { answers: DENIED, hour: until(48), ran: [] }, /^could not ask/, 'alarm'],
])('%s', async (_, situation, words, ...[name]) => {
  const health = await statusOf(situation);
  expect(health.words).toMatch(words);
  expect(health.words.startsWith(`${health.state}: `)).toBe(true);
  const [first] = health.findings;
  expect(first?.state).toBe(health.state);
  if (name !== undefined) expect(first?.name).toBe(name);
  const fine = health.findings.filter((one) => one.state === 'healthy' && one.name !== 'quarantine');
  for (const { command } of fine) expect(command).toBeUndefined();
  for (const { asOf } of health.findings) expect(asOf).toMatch(/^2026-11-(29|30)T/);
});

test('the page says the same, at any minute', async () => {
  const stack = await askedStackIn(with_(scored('safety', 9, 1)));
  const status = healthOf(await readFacts(stack, { window: hoursOf('7d', undefined, NOW_MS), nowMs: NOW_MS }));
  const { health } = await makePage(stack, { window: hoursOf('30d', undefined, NOW_MS), nowMs: NOW_MS });
  expect(health).toEqual(status);
});

test.each<[string, number, sign: string, objective: string]>([
  ['0.8, which the interval is wholly above', 0.8, '✓', '✓ met'],
  ['0.89, which is within the interval', 0.89, '·', '· not clearly met'],
])(
  'a check mark agrees with its interval: an objective of %s, and default bounds',
  async (_, atLeast, sign, objective) => {
    const storage = new MemoryStorage();
    const objectives = { fluency: { said: { isMissed: false, since: 0 } } };
    storage.put(workKeys.detectors, { settledUntil: 0, objectives, tail: {}, applied: {}, horizonMs: 0, outbox: [] });
    const asked = await askedStackIn({ storage });
    const environment = { ...asked.environment, QUALITY_OBJECTIVES: [{ scorer: 'fluency', atLeast }] };
    const query = { window: hoursOf('2d', undefined, NOW_MS), nowMs: NOW_MS };
    const { html, health } = await makePage({ ...asked, environment }, query);
    const lines = pageText(findingsPage(health)).split('\n');
    expect(lines).toContainEqual(expect.stringMatching(`^${sign} fluency: 90.0%`));
    // By default, of 0.5% and 5%.
    expect(lines).toContainEqual(expect.stringMatching(/^· safety: 0.0% \(99.89%: 0.0% to 1.5%\)/));
    expect(lines).toContainEqual(expect.stringMatching(/^✓ 0.0% .* error replies$/));
    expect(tableOf(html, 'Quality').get('fluency style')?.objective?.text).toMatch(new RegExp(`^${objective}: 90.0%`));
  },
);

const HOSTILE = '<script>alert(1)</script>';
const REPLY = {
  ...{ severity: 'harm', count: 2, failing: [{ scorer: 'safety', rationale: 'No.' }], variant: HOSTILE },
  ...{ request: 'How?', reply: HOSTILE.repeat(9), time: '2026-11-30T11:20:00Z' },
};
const HARM = with_(scored('safety', 9, 1));
const FALL = (ago: number) => ({ blue: GOOD, green: ago < 30 ? { ...GOOD, ...scored('fluency', 4, 6) } : GOOD });
const FAILING = { ...with_({ errorReplies: 30, errorKinds: { [HOSTILE]: 30 } }), ran: [FAILED] };

/** A line is a heading or a card. */
test.each<[string, Situation, ReplyToRead[] | undefined, RegExp]>([
  ['all is well', {}, undefined, /^✓ healthy: no scorer is 11 points worse in 24 hours.*$/],
  [
    'no captures',
    { hours: 0 },
    undefined,
    /^· too .* tell: 2 findings .*\nFindings\n· .* 0 captures, .*\n· .* falls are .*$/,
  ],
  [
    'one variant of two has fallen',
    { hour: FALL },
    undefined,
    /^! .*\nFindings\n! .* CHART fluency: 40.0% good .* variant green; since about .* Next: .* worst .*\n! .* CHART variant green is .*$/,
  ],
  ['harm', HARM, undefined, /^✓ .*\nReplies to read\nsafety: 1 reply, 11-30 09:00 to 11-30 10:00 Next: .* worst .*$/],
  [
    'words of harm',
    HARM,
    [REPLY, REPLY, REPLY, REPLY],
    /^✓ .*\nReplies to read(\n2 × harm: safety .* Replied &#60;script.*… The judge No\.){3}$/,
  ],
  [
    'a failed run',
    FAILING,
    undefined,
    /^✗ bad: 2 findings .*\nFindings\n✗ [^C]* run files-7 failed .*\n! .* CHART .* error replies .*$/,
  ],
])('the first screen of the page: %s', async (_, situation, worst, expected) => {
  const query = { window: hoursOf('30d', undefined, NOW_MS), nowMs: NOW_MS, worst };
  const { html } = await makePage(await askedStackIn(situation), query);
  expect(html).not.toContain('<script');
  expect(firstScreen(html)).toMatch(expected);
});

test('times and calls without a reply are findings, and on the page', async () => {
  const of = (...all: number[]) => {
    const numbers = {};
    for (const one of all) addTree(numbers, numberCounts(one));
    return { all: { numbers } };
  };
  const scorers = { ...GOOD.scorers, latency_ms: of(200, 400, 30_000), response_words: of(7) };
  const stack = await askedStackIn(with_({ scorers, failedCalls: { throttled: 1200, timeout: 0 } }));
  const { html, health } = await makePage(stack, { window: hoursOf('7d', undefined, NOW_MS), nowMs: NOW_MS });
  const told = health.findings.filter(({ name }) => name === 'times' || name === 'failed-calls');
  expect(told.map(({ state, message }) => `${state} ${message}`)).toEqual([
    'bad 83.3% (99.89%: 79.9% to 86.4%) of 1,440 calls of the last 6 hours are calls without a reply (throttled 1,200)',
    expect.stringMatching(/^healthy latency_ms: p50 (39|40)\d\.\d, p95 30,\d{3}, p99 30,\d{3} of 3 replies$/),
  ]);
  expect(html).toMatch(
    /latency_ms \(mean\).*<data value="10200">10,200<.*>Calls without a reply, .*>throttled 1,200</s,
  );
});

const MS = 'first token p50 in ms';
test.each([
  ['without metrics', served({}), []],
  [
    'of two variants, with what is absent or no number',
    served({
      histogram: { blue: '210.4', green: 'NaN' },
      counter: { blue: '412', green: '+Inf' },
      gauge: { green: '0' },
    }),
    [
      ` of variant blue: ${MS} 210.4, p95 210.4, output tokens a second 412.0, most requests in a queue not measured`,
      ` of variant green: ${MS} not measured, p95 not measured, output tokens a second not measured, most requests in a queue 0.000`,
    ],
  ],
  ['of no variant', served({ gauge: { '': '3' } }), [expect.stringMatching(/^: .*queue 3.000$/)]],
  ['refused', [403, { __type: 'AccessDenied' }] as const, [expect.stringMatching(/^: not measured: .*AccessDenied/)]],
  ['a page of a proxy', [200, '<html>'] as const, [expect.stringMatching(/^: not measured: StrangeReply/)]],
  ['null', [200, 'null'] as const, [expect.stringMatching(/^: not measured/)]],
])('what the servers measure, %s, changes no state, and is on the page', async (_, answer, expected) => {
  const stack = await askedStackIn({ answers: { 'POST /api/v1/query': answer as Answer } });
  const { html, health } = await makePage(stack, { window: hoursOf('30d', undefined, NOW_MS), nowMs: NOW_MS });
  const found = health.findings.filter(({ name }) => name === 'endpoint-load');
  expect(found.map(({ message }) => message.replace('measured by the servers', ''))).toEqual(expected);
  expect(health.state).toBe('healthy');
  expect(html.includes('measured by the servers')).toBe(expected.length > 0);
});

test('a bucket that cannot be read leaves the rest of the answers', async () => {
  const storage = new MemoryStorage();
  const stack = await askedStackIn({ storage, ran: [FAILED] });
  storage.list = () => {
    throw new Error('no');
  };
  const health = healthOf(await readFacts(stack, { window: DAY, nowMs: NOW_MS }));
  expect(health.words).toMatch(/^bad: run files-7/);
  expect(health.findings).toContainEqual(expect.objectContaining({ name: 'captures', state: 'could not ask' }));
});

test('a service that does not answer is not waited for', async () => {
  const stack = await askedStackIn({ answers: { DescribeAlarms: NO_ANSWER } });
  const began = performance.now();
  const health = healthOf(await readFacts(stack, { window: DAY, nowMs: NOW_MS }));
  expect(health.state).toBe('could not ask');
  expect(performance.now() - began).toBeLessThan(6_000);
});

test('a missed objective is bad, with the moment since when', async () => {
  const storage = new MemoryStorage();
  await writeMonth(storage.work, 8);
  const stack = { ...(await askedStackIn({ hour: () => ({}), storage })), environment };
  const { findings, words } = healthOf(await readFacts(stack, { window: DAY, nowMs: NOW_MS }));
  expect(words).toMatch(
    /^bad: fluency is missed since 2026-11-24 0\d:00 UTC: 8\d\.\d% \(.*\) of \d+, wanted at least 90.0%/,
  );
  expect(findings.find(({ name, subject }) => name === 'objective' && subject === 'fluency')?.command).toBe(
    'inference-monitor worst --scorer fluency --from 2026-11-29T13:00Z',
  );
  expect(findings.find(({ subject }) => subject === 'relevance_to_query')?.state).toBe('healthy');
});

test('failed runs that are not looked at are counted as more', async () => {
  const failed = (length: number) => Array.from({ length }, (_, n) => ({ ...FAILED, name: `files-${n}` }));
  const lastOf = async (ran: Ran[]) =>
    (await statusOf({ ran })).findings.findLast(({ name }) => name === 'run-failed')?.message;
  expect(await lastOf(failed(7))).toBe('7 runs failed in all');
  expect(await lastOf(failed(101))).toBe('100 or more runs failed in all');
});

test('nothing is healthy by what is old, not measured, or of another variant', async () => {
  const facts = await factsOf({ hour: () => ({ blue: GOOD, green: WORST }) });
  const met = metObjective('safety', 0);
  const named = (more: Partial<HealthFacts>, name: string) =>
    healthOf({ ...facts, ...more }).findings.find((one) => one.name === name && one.subject !== 'fluency')?.state;
  expect(named({ objectives: [met] }, 'objective')).toBe('healthy');
  expect(named({ objectives: [{ ...met, value: null }] }, 'objective')).toBe('too little to tell');
  const unseen = healthOf({ ...facts, objectives: [{ ...met, missed: null }] }).findings;
  expect(unseen.find(({ name }) => name === 'objective')?.message).toMatch(
    /; its detector has had no new captures yet$/,
  );
  const truth = (hours: number, missed: boolean | null) => {
    const end = hourOf(NOW_MS - hours * HOUR_MS);
    const why = missed === null ? 'a few rows decide it' : undefined;
    const old = { ...met, value: 0.5, missed, measured: { from: end, end }, ...(why && { why }) };
    return healthOf({ ...facts, objectives: [old] }).findings.find(({ name }) => name === 'objective');
  };
  expect([truth(24, true), truth(24, false)].map((one) => one?.state)).toEqual(['bad', 'healthy']);
  expect(truth(24, null)).toMatchObject({
    state: 'too little to tell',
    message: 'safety: 50.0% of 0, wanted at least 90.0%; a few rows decide it',
  });
  expect([truth(31 * 24, true), truth(31 * 24, false)].map((one) => one?.state)).toEqual([
    'needs a look',
    'too little to tell',
  ]);
  expect(truth(31 * 24, true)?.message).toMatch(
    /^safety was missed: .*; stale, nothing newer than 2026-10-30 12:00 UTC/,
  );
  const quietFor = (hours: number) => {
    const since = new Date(NOW_MS - hours * HOUR_MS).toISOString();
    return named({ quiet: { since } }, 'captures');
  };
  expect([quietFor(12), quietFor(25)]).toEqual(['healthy', 'too little to tell']);
});

test('a burst is a note with its command, and a nightly job is none', async () => {
  const window = { ...DAY, fromMs: DAY.toMs - 7 * 24 * HOUR_MS };
  const notesOf = async (isBurst: (ago: number) => boolean, captures = 500) => {
    const hour = (ago: number) => ({ blue: isBurst(ago) ? { ...GOOD, captures, notTraffic: 1200 } : GOOD });
    const facts = await readFacts(await askedStackIn({ hour, hours: 168 }), { window, nowMs: NOW_MS });
    const { state, findings } = healthOf(facts);
    expect(state).toBe('healthy');
    expect(findings.find(({ name }) => name === 'captures')?.message).toMatch(/, [\d,]+00 captures are no traffic$/);
    return findings.filter(({ name }) => name === 'burst').map((one) => [one.state, one.message]);
  };
  const [from, to] = [50, 49].map((ago) => `${new Date(NOW_MS - ago * HOUR_MS).toISOString().slice(0, 13)}:00Z`);
  const what = `500 captures from ${from} to ${to}, usually 40 an hour; if that was a load test: inference-monitor `;
  expect(await notesOf((ago) => ago === 50)).toEqual([['healthy', `${what}traffic exclude --from ${from} --to ${to}`]]);
  expect(await notesOf((ago) => ago === 50, 499)).toEqual([]);
  expect(await notesOf((ago) => ago % 24 === 5)).toEqual([]);
});

test('shows the time of each finding, the next command, and nothing that a terminal would interpret', async () => {
  const odd = 'x\u001b[31m\u202e';
  const health = await statusOf({
    hour: () => ({ [odd]: { ...GOOD, captures: 30, ...scored('fluency', 1, 9) }, blue: GOOD, green: GOOD }),
  });
  const text = pageText(findingsPage(health, NOW_MS));
  for (const mark of ['\u001b', '\u202e']) expect(text).not.toContain(mark);
  expect(text.match(/\(as of/g)?.length).toBe(health.findings.length);
  expect(text).toMatch(/\n\nNext: inference-monitor .*\n$/);
});

test('the table of the rules names each finding', () => {
  const text = readFileSync(packagePath('docs', 'status.md'), 'utf8');
  const named = [...text.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, name]) => name);
  expect(named).toEqual(FINDING_NAMES);
});

test('the time for names that captures made up is linear', async () => {
  const hour = (n: number): QualityCell => {
    const names = Object.fromEntries(Array.from({ length: 50 }, (_, k) => [`${n}-${k} ${'x'.repeat(50)}`, 1]));
    const bins = Object.fromEntries(Array.from({ length: 256 }, (_, k) => [k - n, 1]));
    const values = Object.fromEntries(Array.from({ length: 9 }, (_, k) => [`code_${k}`, { all: { values: names } }]));
    const numbers = { bins, sum: 1, squares: 1 };
    return { ...GOOD, ...{ errorKinds: names, quarantined: names, predictions: { numbers } }, scorers: values };
  };
  const cells = Array.from({ length: 10 * 24 }, (_, n) => hourOf(NOW_MS - n * HOUR_MS)).flatMap((at, n) =>
    ['blue', 'green', 'next'].map((variant) => ({ hour: at, variant, cell: hour(n) })),
  );
  const facts = await factsOf({});
  const spent = (some: typeof cells): number => {
    const began = process.cpuUsage().user;
    expect(healthOf({ ...facts, cells: some }).findings.length).toBeGreaterThan(5);
    return process.cpuUsage().user - began;
  };
  // Ten times as many need about ten times as long, and a hundred times if it were quadratic.
  const few = spent(cells.slice(0, cells.length / 10));
  expect(spent(cells) / few).toBeLessThan(40);
});
