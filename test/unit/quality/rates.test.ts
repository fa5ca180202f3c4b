/** Rates from counts in a bucket, as the command reads and prints them. */

import { instantMs } from '../../../bin/cli/window.ts';
import { type RatesFlags, ratesOutput, ratesPage, ratesReport } from '../../../bin/commands/rates.ts';
import { HOUR_MS } from '../../../src/captures/files/capture-path.ts';
import type { QualityCell, QualityCounts, SampleCounts } from '../../../src/core/contract/quality.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { wilson } from '../../../src/core/statistics/share.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { PIPE } from '../../../src/core/text/terminal-text.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { keepMeasurement } from '../../../src/quality/objective-states.ts';
import { ratesCsv, sparkline } from '../../../src/quality/rates-text.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { writeCounts } from '../../helpers/day-sums.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const NOW = Date.parse('2026-11-22T00:00:00Z');
const DAY = { from: '2026-11-20', to: '2026-11-21' };
const active = scorersFor();
const settings = testEnvironment();

const yesNo = (captures: number, yes: number, no: number): SampleCounts => ({ captures, values: { yes, no } });
const cell = (samples: Record<string, SampleCounts>, more: QualityCell = {}): QualityCell => ({
  captures: 100,
  errorReplies: 2,
  inputTokens: 3000,
  outputTokens: 1200,
  judgeUsd: 0.5,
  notJudged: { safety: { notSampled: 90 } },
  scorers: { safety: samples },
  ...more,
});

async function report(
  counts: QualityCounts,
  flags: Partial<RatesFlags> = {},
  more: Partial<Parameters<typeof ratesReport>[2]> = {},
) {
  const { work } = new MemoryStorage();
  await writeCounts(work, counts);
  return ratesReport(work, { ...DAY, ...flags }, { active, settings, nowMs: NOW, ...more });
}
const hour = (n: number, day = '2026-11-20') => `${day}T${String(n).padStart(2, '0')}`;
const rateIn = ({ groups }: Awaited<ReturnType<typeof report>>, scorer = 'safety', group = 0) =>
  groups[group]?.rates.find((rate) => rate.scorer === scorer);

const labelled = (count: number, passed: boolean, label: boolean) =>
  Array.from({ length: count }, (_, n) => ({
    ...{ scorer: 'safety', traceId: `${passed} ${label} ${n}`, hour: hour(3), variant: 'Blue', judge: 'j' },
    ...{ passed, label, weight: 1 },
  }));
const LABELS = [
  ...[...labelled(36, true, true), ...labelled(4, true, false)],
  ...[...labelled(5, false, true), ...labelled(55, false, false)],
];

test('a sampled rate is weighed by the captures that each stratum stands for', async () => {
  // Of 1,000 captures one in twenty is judged: 48 of 50 pass. A rule has 100 others judged: 50 of them pass.
  const made = await report({ [hour(3)]: { Blue: cell({ '0.05': yesNo(1000, 48, 2), always: yesNo(100, 50, 50) }) } });
  const rate = rateIn(made);
  expect(rate).toMatchObject({ n: 150, captures: 1100, method: 'judge only', share: null, is: 'yes' });
  expect(rate?.judge?.value).toBeCloseTo((1000 * 0.96 + 100 * 0.5) / 1100, 10);
  expect(rate?.low).toBeLessThan(rate?.judge?.value ?? 0);
  expect(rate?.trend.filter((part) => part !== null)).toHaveLength(1);
  expect(rateIn(made, 'error replies')?.judge).toMatchObject({ value: 0.02, low: wilson(2, 100)?.low });
});

test('people’s labels correct the rate of their hour and variant, and by the judge’s errors that of others', async () => {
  const counts = { Blue: cell({ '1': yesNo(2000, 1600, 400) }), Green: cell({ '1': yesNo(2000, 1000, 1000) }) };
  const windows: unknown[] = [];
  const readLabels = async (window: unknown) => {
    windows.push(window);
    return { labels: LABELS, covered: new Map(), warnings: ['2 labels are left out'] };
  };
  const made = await report({ [hour(3)]: counts }, { by: 'variant' }, { readLabels });
  expect(rateIn(made)).toMatchObject({ labels: 100, method: 'prediction-powered' });
  expect(rateIn(made)?.share).toBeCloseTo(0.8 * 0.9 + 0.2 * (5 / 60), 12);
  expect(rateIn(made, 'safety', 1)).toMatchObject({ labels: 0, method: 'plug-in' });
  expect(rateIn(made, 'safety', 1)?.share).toBeCloseTo((0.5 + 55 / 59 - 1) / (36 / 41 + 55 / 59 - 1), 12);
  expect(windows).toEqual([{ fromMs: Date.parse('2026-11-20'), toMs: Date.parse('2026-11-21') }]);
  const [change] = made.compared?.differences ?? [];
  expect(change).toMatchObject({ scorer: 'safety', method: 'plug-in' });
  expect(change?.share).toBeCloseTo((rateIn(made, 'safety', 1)?.share ?? 0) - (rateIn(made)?.share ?? 0), 12);
  expect(made.warnings).toContain('2 labels are left out');
  expect(pageText(ratesPage(made))).toMatch(/73\.7% \(.*\) prediction-powered, 100 labels/);
});

test('a scorer that is newer than the counts of the captures is weighed by its sample', async () => {
  const counts = { '0.05': { values: { yes: 50 } }, always: { values: { no: 50 } } };
  const rate = rateIn(await report({ [hour(3)]: { Blue: cell(counts) } }));
  expect(rate).toMatchObject({ n: 100, captures: 1050 });
  expect(rate?.judge?.value).toBeCloseTo(1000 / 1050, 10);
});

test('empty replies are a part of their own of completeness, which no label corrects', async () => {
  const own = (captures: number, yes: number, no: number, words: object): QualityCell =>
    cell({}, { scorers: { completeness: { 1: yesNo(captures, yes, no) } }, replies: { words } });
  const counts = { [hour(3)]: { Blue: own(9000, 8700, 300, { all: 10_000, empty: 1000 }) } };
  const made = await report(counts);
  const rate = rateIn(made, 'completeness');
  expect(rate).toMatchObject({ n: 9000, captures: 10_000, empty: 1000 });
  expect(rate?.judge?.value).toBeCloseTo(0.87, 12);
  const text = pageText(ratesPage(made));
  expect(text).toMatch(/^100 captures, 2 error replies, 1,000 empty replies, 3,000 \+ 1,200 tokens/m);
  expect(text).toMatch(/^completeness: good +9,000 +90.0% +87.0% .* judge only; 1,000 empty/m);
  // People say that the judge is right wherever it was asked: 8,700 of 9,000, and none of the empty ones.
  const labels = Array.from({ length: 120 }, (_, n) => ({
    ...{ scorer: 'completeness', traceId: `${n}`, hour: hour(3), variant: 'Blue', judge: 'j', weight: 1 },
    ...{ passed: n < 60, label: n < 60 },
  }));
  const readLabels = async () => ({ labels, covered: new Map(), warnings: [] });
  const corrected = rateIn(await report(counts, {}, { readLabels }), 'completeness');
  expect(corrected?.share).toBeCloseTo(0.87, 12);
  expect(corrected?.high).toBeLessThan(0.9);
  // All are empty; none of the others was judged; the scorer was not asked.
  const value = async (one: QualityCell) =>
    rateIn(await report({ [hour(3)]: { Blue: one } }), 'completeness')?.judge?.value;
  expect(await value(own(0, 0, 0, { all: 1000, empty: 1000 }))).toBe(0);
  expect(await value(own(9000, 0, 0, { all: 10_000, empty: 1000 }))).toBeUndefined();
  expect(await value(cell({}, { replies: { words: { all: 10_000, empty: 1000 } } }))).toBeUndefined();
});

test('without judged captures there is no rate, whatever else there is', async () => {
  const made = await report({ [hour(3)]: { Blue: cell({ '0.05': { captures: 1000 } }) } });
  expect(rateIn(made)).toMatchObject({ n: 0, captures: 1000, judge: null, low: null, method: 'no verdicts' });
  const text = pageText(ratesPage(made));
  expect(text).toMatch(/safety +0 +0\.0% +– +no verdicts/);
  expect(ratesCsv(made.groups, made.window)).toContain(',all,safety,yes,0,1000,,,,,,,no verdicts,0,,false,,,,,0\n');
});

test('numbers have a mean, code scorers a share of their own value, and a scorer that fails by yes is counted by no', async () => {
  const numbers = { bins: { 400: 4 }, sum: 10, squares: 30 };
  const made = await report({
    [hour(3)]: {
      Blue: cell(
        {},
        { scorers: { response_words: { all: { numbers } }, pii_detected: { all: { values: { true: 1, false: 9 } } } } },
      ),
    },
  });
  const words = rateIn(made, 'response_words');
  expect(words).toMatchObject({ n: 4, judge: { value: 2.5 }, method: 'computed' });
  // Of a scorer without a known scale, few numbers tell no interval.
  expect(words?.judge).toEqual({ value: 2.5, low: null, high: null });
  expect(pageText(ratesPage(made))).toMatch(/response_words \(mean\) +4 +100\.0% +2\.500 \(too few\)/);
  const pii = rateIn(made, 'pii_detected');
  expect(pii).toMatchObject({ is: 'true', n: 10, captures: 10, judge: { value: 0.1 }, good: { value: 0.9 } });
  expect(pii?.good?.low).toBeCloseTo(1 - (pii?.high ?? 0), 12);
  expect(pii?.good?.trend.filter((part) => part !== null)).toEqual([0.9]);
  expect(pageText(ratesPage(made))).toMatch(/pii_detected: good +10 +100\.0% +90\.0% \(59\.6% to /);
  expect(words?.good).toBeNull();
});

test('objectives have the estimate of rates, and the state of the detectors or of the newest measurement', async () => {
  const memory = new MemoryStorage();
  const words = (cases: number, passed: number): SampleCounts => ({
    numbers: { bins: { 400: cases }, sum: 9, squares: 9 },
    measures: { 'response_words under 9': { cases, passed } },
  });
  const of = (yes: number, wordsPassed: number): QualityCell => {
    const safety = { 0.05: yesNo(1000, yes, 50 - yes), always: yesNo(100, 50, 50) };
    const pii = { all: { values: { true: 1, false: 99 } } };
    return cell({}, { scorers: { safety, pii_detected: pii, response_words: { all: words(100, wordsPassed) } } });
  };
  await writeCounts(memory.work, { [hour(3)]: { Blue: of(48, 90), Green: of(40, 50), Dark: of(0, 0) } });
  const said = { isMissed: true, second: 1_764_000_000, since: 1_763_990_000 };
  const objectives = { 'safety Green': { said } };
  memory.put(workKeys.detectors, { settledUntil: 0, horizonMs: 0, outbox: [], objectives, tail: {}, applied: {} });
  const measured = { objective: 'accuracy', from: hour(0), end: hour(9), rows: 70, value: 0.8, low: 0.7, high: 0.88 };
  await keepMeasurement(memory.work, { ...measured, missed: true });
  const settings = {
    QUALITY_OBJECTIVES: [
      { scorer: 'safety', atLeast: 0.9 },
      { scorer: 'safety', atLeast: 0.9, variant: 'Green' },
      { scorer: 'pii_detected', is: false, atLeast: 0.999 },
      { scorer: 'response_words', valueUnder: 9, atLeast: 0.5 },
      { errorReplies: { atMost: 0.1 } },
      { accuracy: { atLeast: 0.9 } },
    ],
    ...{ EVALUATION_SAMPLE_RATE: 0.05, JUDGE_GUIDELINES: {}, SCORER_FUNCTIONS: {}, SHADOW_VARIANTS: ['Dark'] },
  };
  const query = { active, settings, nowMs: NOW };
  const made = await ratesReport(memory.work, { ...DAY, variant: ['Blue'], scorer: ['safety'] }, query);
  const [safety, green, pii, short, errors, accuracy] = made.objectives;
  const all = await ratesReport(memory.work, DAY, { ...query });
  const rate = rateIn(all);
  expect(safety).toMatchObject({ ...rate?.judge, n: rate?.n, captures: rate?.captures, missed: null, since: null });
  const blue = rateIn(made)?.judge;
  expect(safety?.variants).toMatchObject([
    { variant: 'Blue', ...blue },
    { variant: 'Green', n: 150 },
  ]);
  expect(green).toMatchObject({ variant: 'Green', missed: true, since: '2025-11-24T13:13:20.000Z' });
  expect(green).not.toHaveProperty('variants');
  expect(pii).toMatchObject({ measure: 'pii_detected false', value: 0.99, n: 200, bound: { atLeast: 0.999 } });
  expect(short).toMatchObject({ measure: 'response_words under 9', value: 0.7, n: 200, captures: 200 });
  expect(errors).toMatchObject({ ...rateIn(all, 'error replies')?.judge, captures: 200, bound: { atMost: 0.1 } });
  const at = { from: hour(0), end: hour(9) };
  expect(accuracy).toMatchObject({ value: 0.8, low: 0.7, n: 70, missed: true, measured: at });
});

test('groups, differences between variants and between windows', async () => {
  const both = (n: number, good: number, day?: string): QualityCounts => ({
    [hour(n, day)]: { Blue: cell({ 1: yesNo(100, 99, 1) }), Green: cell({ 1: yesNo(100, good, 100 - good) }) },
  });
  const counts = { ...both(3, 70), ...both(4, 72), ...both(3, 99, '2026-11-19') };
  const made = await report(counts, { by: 'variant' });
  expect(made.groups.map(({ group }) => group)).toEqual(['Blue', 'Green']);
  expect(made.compared?.differences).toMatchObject([
    { scorer: 'safety', is: 'yes', judge: { value: expect.closeTo(0.71 - 0.99, 10) } },
    { scorer: 'error replies', judge: { value: 0 } },
  ]);
  const [worse, ...others] = made.compared?.differences ?? [];
  const judge = { value: 0.1, low: 0.05, high: 0.15 };
  const more = { ...others[0], ...judge, judge, good: { value: -0.1, low: -0.15, high: -0.05 } };
  const language = { ...more, scorer: 'reply_language', is: 'en', good: null };
  const compared = { before: 'a', after: 'b', differences: [worse, more, language] as never };
  const colored = pageText(ratesPage({ ...made, compared }), { ...PIPE, style: (style, text) => `<${style}>${text}` });
  expect(colored).toMatch(/<red>safety: good -28\.0 points.*\n<red>without error -10\.0 points \(-15\.0 to -5\.0\)/);
  expect(colored).toMatch(/\nreply_language = en \+10\.0 points/);
  const windows = await report(counts, { compareFrom: '2026-11-19', variant: ['Green'], scorer: ['safety'] });
  expect(windows.compared).toMatchObject({ before: '2026-11-19 00:00 to 2026-11-20 00:00 UTC' });
  expect(windows.compared?.differences).toMatchObject([{ judge: { value: expect.closeTo(0.71 - 0.99, 10) } }]);
  const ages = { from: '46h', to: '43h', compareFrom: '70h' };
  expect((await report(counts, ages)).compared).toMatchObject({ before: '2026-11-19 02:00 to 2026-11-19 05:00 UTC' });
  const ends = { from: '2d', to: undefined, compareFrom: '4d' };
  const adjacent = await report(counts, ends as never, { nowMs: NOW + HOUR_MS / 2 });
  expect(adjacent.compared).toMatchObject({
    before: '2026-11-18 00:00 to 2026-11-20 00:00 UTC',
    after: '2026-11-20 00:00 to 2026-11-22 01:00 UTC',
  });
  const hours = await report(counts, { by: 'hour' });
  expect(hours.groups.map(({ group, totals }) => [group, totals.captures])).toEqual([
    [hour(3), 200],
    [hour(4), 200],
  ]);
  expect(hours.compared).toBeUndefined();
});

test('a corrected rate is of the captures that labels speak for, and names them', async () => {
  const cells = (yes: number, no: number) => ({ Blue: cell({ '0.5': yesNo(4000, yes, no) }) });
  const counts = { [hour(3)]: cells(1600, 400), [hour(4)]: cells(1900, 100) };
  const part = (n: number, more: object) => ({
    ...{ hour: hour(n), variant: 'Blue', sample: '0.5', all: 2000, captures: 0, judged: 0, passed: 0, ...more },
  });
  const covered = new Map([['safety', [part(3, { captures: 4000, judged: 2000, passed: 1600 }), part(4, {})]]]);
  const readLabels = async () => ({ labels: LABELS, covered, warnings: [] });
  const [all, byHour] = [
    await report(counts, {}, { readLabels }),
    await report(counts, { by: 'hour' }, { readLabels }),
  ];
  expect(rateIn(all)).toMatchObject({ n: 4000, captures: 8000, covered: 4000, judge: { value: 0.875 } });
  expect(rateIn(all)?.share).toBeCloseTo(0.8 * 0.9 + 0.2 * (5 / 60), 12);
  expect(pageText(ratesPage(all))).toContain('100 labels, of 4,000 captures picked from');
  expect(rateIn(byHour)).toMatchObject({ covered: null, share: rateIn(all)?.share });
  expect(rateIn(byHour, 'safety', 1)).toMatchObject({ covered: null, labels: 0 });
});

test('JSON has the window as times, and CSV no formulas', async () => {
  const made = await report({ [hour(3)]: { Blue: cell({ 1: yesNo(1000, 970, 30) }) } }, { by: 'variant' });
  expect(ratesOutput(made).window).toEqual({ from: '2026-11-20T00:00:00.000Z', to: '2026-11-21T00:00:00.000Z' });
  const [head = '', row = ''] = ratesCsv([{ ...made.groups[0], group: '=1,"x"' } as never], made.window).split('\n');
  expect(head.split(',')).toHaveLength(22);
  expect(row).toContain(`,"'=1,""x""",safety,yes,1000,1000,0.97,`);
});

test('the outcomes of a scorer add up to all captures', async () => {
  const counts = (notJudged: QualityCell['notJudged'], good: number): QualityCell => ({
    captures: 100,
    notJudged,
    scorers: { safety: { '0.5': { captures: 90, values: { yes: good, no: 2 } } } },
  });
  const first = { notSampled: 60, held: 5, failed: 3, errorReply: 6, emptyReply: 4, noRequest: 1 };
  const made = await report({
    [hour(3)]: { Blue: counts({ safety: first }, 18) },
    [hour(4)]: { Blue: counts({ safety: { errorReply: 6, emptyReply: 4, noRequest: 1, failed: 3 } }, 80) },
  });
  const [outcomes] = made.groups[0]?.outcomes ?? [];
  expect(outcomes).toEqual({
    scorer: 'safety',
    captures: 200,
    ...{ good: 98, bad: 4, other: 0, empty: 8, error: 12 },
    ...{ notDrawn: 60, held: 5, failed: 6, doesNotApply: 7 },
    reasons: { noRequest: 2 },
  });
  expect(pageText(ratesPage(made))).toMatch(/safety.* 98\b.* 60\b.* 7\b.* noRequest 2/);
});

test('a trend', () => {
  expect([sparkline([0, null, 1, 0.6]), sparkline([0.5, 0.5]), sparkline([null])]).toEqual(['▁·█▅', '▄▄', '·']);
});

test.each<[Partial<RatesFlags>, string, RegExp]>([
  [{ scorer: ['saftey'] }, 'UnknownName', /did you mean safety\?.*one of .*relevance_to_query/],
  [{ variant: ['blu'] }, 'UnknownName', /no variant .*did you mean Blue\?.*one of Blue/],
  [{ from: '2026-10-01', to: '2026-10-02' }, 'NoCounts', /a window within 2026-11-20 to 2026-11-20/],
  [{ from: '2026-11-21', to: '2026-11-20' }, 'InvalidTime', /The window is empty/],
  [{ from: 'yesterday' }, 'InvalidTime', /A time cannot be read.*an age such as 12h/],
  [{ from: '2026-02-31' }, 'InvalidTime', /A time cannot be read/],
  [{ compareFrom: '2026-01-01' }, 'NoCounts', /got: 2026-01-01 00:00 to 2026-01-02 00:00 UTC/],
  [{ compareFrom: '2026-11-19T12:00' }, 'InvalidTime', /The windows overlap/],
])('%j is told with what there is', async (flags, name, message) => {
  const made = report({ [hour(3)]: { Blue: cell({ 1: yesNo(100, 97, 3) }) } }, flags);
  await expect(made).rejects.toMatchObject({ name, message: expect.stringMatching(message) });
});

test('times are days, instants or ages', () => {
  const of = (text: string) => new Date(instantMs(text, NOW)).toISOString();
  expect([of('2026-11-20'), of('2026-11-20T09:30Z'), of('2026-11-20T09:30:00+02:00'), of('36h'), of('1w')]).toEqual([
    '2026-11-20T00:00:00.000Z',
    '2026-11-20T09:30:00.000Z',
    '2026-11-20T07:30:00.000Z',
    '2026-11-20T12:00:00.000Z',
    '2026-11-15T00:00:00.000Z',
  ]);
});
