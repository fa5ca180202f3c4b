/** The rules of docs/status.md about what replies are like: bounds, falls, and what a healthy state excludes. */
import type { QualityCell, SampleCounts } from '../../../src/core/contract/quality.ts';
import type { HealthFacts } from '../../../src/health/facts.ts';
import { healthOf } from '../../../src/health/findings.ts';
import { historyOf } from '../../../src/health/history.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { hourOf } from '../../../src/quality/tally.ts';
import {
  called,
  factsOf,
  GOOD,
  metObjective,
  type Situation,
  statusOf,
  useAskedStack,
} from '../../helpers/asked-stack.ts';
import { HOUR_MS, NOW_MS } from '../../helpers/example-month.ts';

useAskedStack();

/** An hour in which one scorer has judged every capture. */
const judged = (scorer: string, yes: number, no: number, more: SampleCounts = {}): QualityCell => ({
  captures: yes + no,
  scorers: { [scorer]: { 1: { captures: yes + no, values: { yes, no }, ...more } } },
});
const hours = (of: (ago: number) => QualityCell): Situation => ({ hour: (ago) => ({ blue: of(ago) }) });
const each = (more: QualityCell): Situation => hours(() => ({ ...GOOD, ...more }));
const more = (scorer: string, ...samples: [SampleCounts]): QualityCell => ({
  scorers: { ...GOOD.scorers, [scorer]: { always: samples[0] } },
});
const isWeekend = (ago: number): boolean => new Date(NOW_MS - ago * HOUR_MS).getUTCDay() % 6 === 0;
/** Of 40 replies an hour, so many fail. */
const fluency = (failing: (ago: number) => number): Situation =>
  hours((ago) => judged('fluency', 40 - failing(ago), failing(ago)));
/** Two fail an hour, and `failing` in the last hours. */
const fallen = (lastHours: number, failing: number) => fluency((ago) => (ago < lastHours ? failing : 2));
const words = (all: number, empty: number): QualityCell => ({ replies: { words: { all, empty } } });
const completeness = (share: number): QualityCell => ({
  scorers: { ...GOOD.scorers, completeness: { 1: { captures: 40 * share, values: { yes: 40 * share } } } },
});
/** Forty replies of a thousand do harm. */
const HARM = hours((ago) => judged('safety', ago < 20 ? 40 : 42, ago < 20 ? 2 : 0));
/** The judge's version of an hour. */
const by = (version: string) => ({ versions: { [version]: 40 } });

test.each<[string, Situation, words: RegExp, name?: string]>([
  // Empty replies, and what nothing measures.
  [
    'some replies are empty',
    each({ ...words(50, 3), ...completeness(47 / 40) }),
    /^needs a look: 6.0% \(99.9%: 4.0% to 8.6%\) of 1,200 replies in words are empty$/,
    'empty-replies',
  ],
  [
    'many are, of a stack that only logs',
    each({ ...words(40, 4), scorers: {} }),
    /^bad: 10.0% \(.*\) of 960 replies in words are empty$/,
    'empty-replies',
  ],
  [
    'all are',
    each({ ...words(40, 40), scorers: {} }),
    /^bad: .*completeness: 100.0% .* of 960 replies fail; .*; 100.0% \(.*\) of 960 replies in words are empty$/,
    'bound',
  ],
  ['documents of an unknown form are', each({ replies: { values: { all: 40, empty: 40 } } }), /^healthy/],
  [
    'no scorer applies to some replies',
    each({ unmeasured: 4 }),
    /^needs a look: 10.0% of 960 captures are not measured: no scorer applies to these replies$/,
    'unmeasured',
  ],
  ['none applies to few', each({ unmeasured: 2 }), /^healthy/],
  ['to any', each({ unmeasured: 40, scorers: {} }), /^not measured: 100.0% of 960 captures are not/, 'unmeasured'],
  [
    'no scorer can fail',
    each({ scorers: { response_words: GOOD.scorers?.fluency ?? {} } }),
    /^too little to tell: no scorer says whether replies are good/,
    'excluded',
  ],
  // Bounds by default.
  [
    'two replies of a thousand do harm',
    hours((ago) => judged('safety', ago === 3 ? 40 : 42, ago === 3 ? 2 : 0)),
    /^healthy: no scorer is 1 point .*; 2 replies to read: safety, 11-30 09:00 to 11-30 10:00$/,
  ],
  [
    'two of few do',
    hours((ago) => judged('safety', ago === 3 ? 0 : 2, ago === 3 ? 2 : 0)),
    /^healthy: .*; 2 replies to/,
  ],
  [
    'forty of a thousand do',
    HARM,
    /^bad: safety: 4.0% \(99.88%: 2.3% to 6.4%\) of 1,008 replies fail; by default, 2.0% is bad; safety: 96.0% good in the last 24 hours, .*; 40 replies to read/,
    'bound',
  ],
  [
    'of two in five, the task is not done',
    hours(() => judged('completeness', 6, 4)),
    /^needs a look: completeness: 40.0% .*; by default, 20.0% needs a look. \{"scorer":"completeness","atLeast":0.49\} in QUALITY_OBJECTIVES says that this is normal here$/,
    'bound',
  ],
  ['of seven in ten', hours(() => judged('completeness', 3, 7)), /^bad: .*by default, 50.0% is bad. \{/, 'bound'],
  [
    'the 95% interval alone is beyond',
    hours((ago) => judged('completeness', ago % 6 ? 31 : 30, ago % 6 ? 9 : 10)),
    /^too little to tell: completeness: 22.9% .*; by default, 20.0% needs a look, which the 95% interval is beyond$/,
    'bound',
  ],
  ['the style of two in five is bad', hours(() => judged('fluency', 6, 4)), /^healthy/],
  ['and of seven in ten', hours(() => judged('fluency', 3, 7)), /^needs a look: fluency: 70.0%/, 'bound'],
  [
    'a tenth is no JSON',
    each(more('valid_json', { captures: 40, values: { true: 36, false: 4 } })),
    /^needs a look: valid_json: 10.0% .*; by default, 5.0% needs a look/,
    'bound',
  ],
  ['personal data has no bound', each(more('pii_detected', { captures: 40, values: { true: 40 } })), /^healthy/],
  [
    'a variant is beyond, and all together are not',
    { hour: () => ({ blue: judged('completeness', 380, 20), green: judged('completeness', 10, 10) }) },
    /^needs a look: completeness: 50.0% .* of 480 replies of variant green fail/,
    'bound',
  ],
  // Falls.
  [
    'since five hours',
    fallen(5, 20),
    /^needs a look: fluency: 57.5% good in the last 6 hours, 95.0% in the same hours of the 28 days before; since about 2026-11-30 08:00 UTC \(11-30 08:00 to 11-30 08:00\), failures from 2026-11-30 08:00 UTC to 2026-11-30 13:00 UTC$/,
    'fall',
  ],
  ['since a day', fallen(24, 6), /^needs a look: fluency: 85.0% good in the last 24 hours/, 'fall'],
  ['since three days', fallen(72, 4), /^needs a look: fluency: 90.0% good in the last 3 days/, 'fall'],
  [
    'over two weeks',
    fluency((ago) => Math.max(2, Math.round(8 - ago / 48))),
    /^needs a look: .* last 14 days, /,
    'fall',
  ],
  [
    'after a configuration, which is named',
    { ...fallen(10, 20), answers: called({ since: 12 }) },
    /^needs a look: .*; configuration blue-7 since 2026-11-30 00:20 UTC$/,
    'fall',
  ],
  [
    'one variant of three',
    {
      hour: (ago) => ({
        blue: judged('fluency', 38, 2),
        green: judged('fluency', ago < 24 ? 30 : 38, ago < 24 ? 10 : 2),
        red: judged('fluency', 38, 2),
      }),
    },
    /^needs a look: fluency: 75.0% good in the last 24 hours, 95.0% in .*, variant green; since about 2026-11-29 13:00 UTC/,
    'fall',
  ],
  [
    'traffic moves to the worse variant',
    {
      hour: (ago) => ({
        blue: judged('fluency', ago < 24 ? 38 : 152, ago < 24 ? 2 : 8),
        green: judged('fluency', ago < 24 ? 120 : 30, ago < 24 ? 40 : 10),
      }),
    },
    /^healthy/,
  ],
  [
    'and to the better one, while both fall',
    {
      hour: (ago) => ({
        blue: judged('fluency', ago < 24 ? 360 : 38, ago < 24 ? 40 : 2),
        green: judged('fluency', ago < 24 ? 28 : 300, ago < 24 ? 12 : 100),
      }),
    },
    /^needs a look: fluency: /,
    'fall',
  ],
  ['weekends are worse', fluency((ago) => (isWeekend(ago) ? 12 : 2)), /^healthy/],
  ['weekdays are worse', fluency((ago) => (isWeekend(ago) ? 2 : 12)), /^healthy/],
  [
    'another judge is stricter',
    hours((ago) => judged('fluency', ago < 3 ? 28 : 38, ago < 3 ? 12 : 2, by(ago < 3 ? 'new' : 'old'))),
    /^too little to tell: .*; fluency: another judge since 2026-11-30 10:00 UTC, and too few of its verdicts to compare with$/,
    'excluded',
  ],
  [
    'another judge is stricter since three weeks',
    hours((ago) => judged('fluency', ago < 500 ? 28 : 38, ago < 500 ? 12 : 2, by(ago < 500 ? 'new' : 'old'))),
    /^healthy/,
  ],
  [
    'nothing was drawn in the newest hour',
    hours((ago) => (ago === 0 ? judged('fluency', 0, 0) : judged('fluency', 38, 2, by('old')))),
    /^healthy/,
  ],
  // What a healthy state excludes.
  ['it is the first day', { hours: 20 }, /^too little to tell: falls are known from a day after .* on$/, 'excluded'],
  [
    'the first days are compared with what there is',
    { ...fluency(() => 2), hours: 100 },
    /^healthy: no scorer is 6 points worse in 24 hours; /,
  ],
  [
    'few verdicts hide a fall',
    hours((ago) => judged('fluency', 1, ago % 2)),
    /^too little to tell: a scorer could be \d\d points worse in three days without being found$/,
    'excluded',
  ],
  [
    'a scorer and a variant have few verdicts',
    {
      hour: (ago) => ({
        blue:
          ago % 4
            ? judged('fluency', 38, 2)
            : {
                captures: 42,
                scorers: { ...judged('fluency', 38, 2).scorers, ...judged('tool_call_correctness', 1, 0).scorers },
              },
        green: ago % 4 ? {} : judged('fluency', 1, 0),
      }),
    },
    /^healthy: no scorer is . points worse in 24 hours, nor . points in three days \(too few to tell: tool_call_correctness, variant green\)/,
  ],
])('%s', async (_, situation, expected, ...[name]) => {
  const health = await statusOf(situation);
  expect(health.words).toMatch(expected);
  expect(health.words.startsWith(`${health.state}: `)).toBe(true);
  if (name !== undefined) expect(health.findings[0]?.name).toBe(name);
});

test('findings and what is to read are for programs, too', async () => {
  const { findings, toRead } = await statusOf({
    hour: (ago) => ({
      blue: judged('safety', 39, ago === 5 || ago === 30 ? 1 : 0),
      green: judged('fluency', ago < 24 ? 20 : 38, ago < 24 ? 20 : 2),
      red: judged('fluency', 38, 2),
    }),
  });
  const fall = findings.find(({ name }) => name === 'fall');
  expect(fall).toMatchObject({ subject: 'fluency', since: '2026-11-29T13:00:00.000Z', variants: ['green'] });
  expect(toRead).toEqual([
    {
      scorer: 'safety',
      count: 2,
      first: '2026-11-29T06:00Z',
      last: '2026-11-30T07:00Z',
      command: 'inference-monitor worst --scorer safety --from 2026-11-29T06:00Z --to 2026-11-30T08:00Z',
    },
  ]);
});

test('an objective decides in place of a default, but not of harm, and its figure agrees with its word', async () => {
  const of = async (situation: Situation, objective: string, value: number, more: object = {}) => {
    const facts = await factsOf(situation);
    const objectives = [{ ...metObjective(objective, 960), of: 960, value, ...more }] as HealthFacts['objectives'];
    const { findings } = healthOf({ ...facts, objectives });
    return findings.filter(({ subject, name }) => subject === objective && name !== 'fall');
  };
  const task = hours(() => judged('completeness', 6, 4));
  expect(await of(task, 'completeness', 0.6, { bound: { atLeast: 0.5 } })).toMatchObject([
    { name: 'objective', state: 'healthy' },
  ]);
  for (const [value, state, level] of [
    [0.6, 'needs a look', 'with 99.88%'],
    [0.877, 'too little to tell', 'though not with 99.88%'],
  ] as const) {
    const message = expect.stringContaining(`; the interval is wholly beyond the objective, ${level}`);
    expect(await of(task, 'completeness', value)).toMatchObject([{ state, message }]);
  }
  expect(await of(HARM, 'safety', 0.96)).toMatchObject([
    { name: 'bound', state: 'bad' },
    { name: 'objective', state: 'healthy' },
  ]);
});

test('where true answers were measured of late, replies that no scorer applies to are a note', async () => {
  const facts = await factsOf(each({ unmeasured: 40, scorers: {} }));
  const state = (hoursAgo: number) => {
    const end = hourOf(NOW_MS - hoursAgo * HOUR_MS);
    const truth = { ...metObjective('accuracy', 960), value: 0.95, measured: { from: end, end } };
    return healthOf({ ...facts, objectives: [truth] }).findings.find(({ name }) => name === 'unmeasured')?.state;
  };
  expect([state(24), state(31 * 24)]).toEqual(['healthy', 'not measured']);
});

test('a scorer that rarely fails has the factor of the others, since its own failures tell too little', () => {
  const cells = Array.from({ length: 672 }, (_, ago) => {
    const [alike, rare] = [ago % 4 ? 0 : 40, Number(ago % 100 === 0)];
    const scorers = {
      ...judged('fluency', 40 - alike, alike).scorers,
      ...judged('safety', 40 - rare, rare).scorers,
    };
    return { hour: hourOf(NOW_MS - ago * HOUR_MS), variant: 'blue', cell: { captures: 40, scorers } };
  });
  const { factorOf } = historyOf(cells.reverse(), scorersFor()).until(NOW_MS + HOUR_MS);
  const [own, usual, unknown] = ['fluency', 'safety', 'relevance_to_query'].map(factorOf);
  expect(own).toBeGreaterThan(30);
  expect([usual, unknown]).toEqual([unknown, expect.closeTo((own ?? 0) / 2, -1)]);
});
