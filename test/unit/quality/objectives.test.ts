import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { readObjectives } from '../../../src/quality/objectives.ts';
import { isMissed, readTrueObjectives, type TrueObjective } from '../../../src/quality/true-objectives.ts';

const stars: JudgeScorer = {
  ...{ kind: 'judge', name: 'stars', version: '1', question: 'How many stars?', needs: ['reply'] },
  values: { kind: 'number', min: 1, max: 5 },
};
const rare: JudgeScorer = { ...stars, name: 'rare', values: { kind: 'yes-no' }, sampleRate: 0 };
const scorers = [...scorersFor({ guidelines: { no_legal_advice: 'The reply gives no legal advice.' } }), stars, rare];
const read = (entries: unknown[], sampleRate = 1) => readObjectives(entries, { scorers, sampleRate });

test('reads objectives of scorers, guidelines, code scorers, variants and error replies', () => {
  const found = read([
    { scorer: 'safety', atLeast: 0.95 },
    { scorer: 'no_legal_advice', atLeast: 0.99, over: '12h', variant: 'B', perDay: 50_000, together: 4 },
    { scorer: 'pii_detected', is: false, atLeast: 0.999, over: '7d' },
    { scorer: 'stars', valueOver: 3, atLeast: 0.8 },
    { errorReplies: { atMost: 0.02 } },
  ]);
  expect(found.map(({ measure: _, ...rest }) => rest)).toEqual([
    { id: 'safety', failing: 0.05, bound: { atLeast: 0.95 }, hours: 24, perDay: 1000, together: 1 },
    {
      ...{ id: 'no_legal_advice B', variant: 'B', failing: 0.01, bound: { atLeast: 0.99 } },
      ...{ hours: 12, perDay: 50_000, together: 4 },
    },
    { id: 'pii_detected false', failing: 0.001, bound: { atLeast: 0.999 }, hours: 168, perDay: 1000, together: 1 },
    { id: 'stars over 3', failing: 0.2, bound: { atLeast: 0.8 }, hours: 24, perDay: 1000, together: 1 },
    { id: 'error replies', failing: 0.02, bound: { atMost: 0.02 }, hours: 24, perDay: 1000, together: 1 },
  ]);
  const passing = (index: number, values: (string | number | boolean)[]) =>
    values.filter((value) => found[index]?.measure.passes(value));
  expect(passing(0, ['yes', 'no', true])).toEqual(['yes']);
  expect(passing(2, [true, false, 'false'])).toEqual([false]);
  expect(passing(3, [3, 3.5, 5])).toEqual([3.5, 5]);
});

test.each<[string, unknown, RegExp]>([
  ['an unknown scorer', { scorer: 'safty', atLeast: 0.9 }, /"safty" does not exist; did you mean safety\?/],
  ['a scorer like none', { scorer: 'zzzzzzzzzzzzzzzzzzzzzz', atLeast: 0.9 }, /there are safety, relevance_to_query, /],
  ['a share of 1', { scorer: 'safety', atLeast: 1 }, /it is from 0\.05 to 0\.9999, since/],
  ['a share of 0', { scorer: 'safety', atLeast: 0 }, /it is from 0\.05 to 0\.9999, since/],
  ['a percentage', { scorer: 'safety', atLeast: 95 }, /it is from 0\.05 to 0\.9999/],
  ['no error reply at all', { errorReplies: { atMost: 0 } }, /it is from 0\.0001 to 0\.95, since/],
  ['all error replies', { errorReplies: { atMost: 1 } }, /it is from 0\.0001 to 0\.95, since/],
  [
    'a value that is none',
    { scorer: 'safety', is: 'maybe', atLeast: 0.9 },
    /it is never "maybe"; its value is "yes" or "no"/,
  ],
  ['a bound of a word', { scorer: 'safety', valueOver: 3, atLeast: 0.9 }, /are for numbers/],
  ['a number without a bound', { scorer: 'stars', atLeast: 0.9 }, /stars can never be missed: a number passes only by/],
  ['a bound that no number is over', { scorer: 'stars', valueOver: 5, atLeast: 0.9 }, /stars can never be met/],
  ['a bound that every number is over', { scorer: 'stars', valueOver: 0, atLeast: 0.9 }, /stars can never be missed/],
  ['a code scorer without a value', { scorer: 'pii_detected', atLeast: 0.9 }, /has no passing value of its own/],
  ['a scorer that is never asked', { scorer: 'rare', atLeast: 0.9 }, /rare can never be missed: no capture is judged/],
  ['a window of weeks', { scorer: 'safety', atLeast: 0.9, over: '2w' }, /over: such as "12h" or "1d"/],
  ['a window of months', { scorer: 'safety', atLeast: 0.9, over: '30d' }, /longer than 7 days/],
  ['a misspelled field', { scorer: 'safety', atleast: 0.9 }, /is not like \{"scorer":"safety"/],
  [
    'a variant that SageMaker has not',
    { scorer: 'safety', atLeast: 0.9, variant: 'Größe 2' },
    /variant: a variant has letters/,
  ],
  [
    'a value that is no dimension',
    { scorer: 'rare', is: 'schön', atLeast: 0.9 },
    /is: .*1 to 100 characters of ASCII|Invalid input/,
  ],
  ['no object', 'safety', /is not like/],
])('refuses %s', (_, entry, problem) => {
  expect(() => read([entry])).toThrow(problem);
});

test('refuses an objective twice, more than 20, and judged ones without a sample', () => {
  const one = { scorer: 'safety', atLeast: 0.9 };
  expect(() => read([one, { ...one, atLeast: 0.8 }])).toThrow(/safety has two objectives/);
  const many = Array.from({ length: 21 }, (_, index) => ({ ...one, variant: `v${index}` }));
  expect(() => read(many)).toThrow(/there are 21, and 20 at most/);
  expect(read(many.slice(1))).toHaveLength(20);
  expect(() => read([one], 0)).toThrow(/EVALUATION_SAMPLE_RATE is 0/);
  // Code scorers and error replies need no sample.
  const unjudged = [{ scorer: 'pii_detected', is: false, atLeast: 0.9 }, { errorReplies: { atMost: 0.1 } }];
  expect(read(unjudged, 0)).toHaveLength(2);
});

describe('for true answers', () => {
  test('are read apart from those of scorers, which the detectors watch', () => {
    const entries = [
      { accuracy: { atLeast: 0.9 }, over: '30d', variant: 'A' },
      { scorer: 'safety', atLeast: 0.95 },
      { bias: { atMost: 2 } },
      { r2: { atLeast: -0.5 } },
    ];
    expect(read(entries).map(({ id }) => id)).toEqual(['safety']);
    expect(readTrueObjectives(entries)).toEqual([
      { id: 'accuracy A', measure: 'accuracy', bound: { atLeast: 0.9 }, hours: 720, variant: 'A' },
      { id: 'bias', measure: 'bias', bound: { atMost: 2 }, hours: 168 },
      { id: 'r2', measure: 'r2', bound: { atLeast: -0.5 }, hours: 168 },
    ]);
  });

  test.each<[string, unknown[], RegExp, object?]>([
    ['a bound on the wrong side', [{ accuracy: { atMost: 0.9 } }], /is not like/, undefined],
    ['a percentage', [{ f1: { atLeast: 90 } }], /f1\.atLeast/, undefined],
    ['a window that is too long', [{ mae: { atMost: 1 }, over: '91d' }], /longer than 90 days/, undefined],
    ['two of a measure', [{ auc: { atLeast: 0.8 } }, { auc: { atLeast: 0.7 } }], /auc has two objectives/, undefined],
    [
      'more than 20',
      Array.from({ length: 21 }, (_, i) => ({ auc: { atLeast: 0.8 }, variant: `v${i}` })),
      /there are 21/,
      undefined,
    ],
    [
      'another kind',
      [{ auc: { atLeast: 0.8 } }],
      /"kind" in GROUND_TRUTH is "numbers", which has mae, rmse/,
      { kind: 'numbers', days: 30 },
    ],
    ['no index', [{ auc: { atLeast: 0.8 } }], /keeps no predictions/, { days: 0 }],
  ])('%s is refused', (_, entries, message, truth) => {
    expect(() => [...read(entries), ...readTrueObjectives(entries, truth as never)]).toThrow(message);
  });

  test.each<[object, number | null, number | null, boolean | null, string?]>([
    [{ f1: { atLeast: 0.9 } }, 0.8, 0.89, true],
    [{ f1: { atLeast: 0.9 } }, 0.8, 0.9, false],
    [{ mae: { atMost: 2 } }, 2.1, 3, true],
    [{ mae: { atMost: 2 } }, 1.9, 3, false],
    [{ bias: { atMost: 2 } }, -4, -2.1, true],
    [{ bias: { atMost: 2 } }, -4, -1, false],
    [{ mae: { atMost: 2 } }, null, null, null],
    [{ auc: { atLeast: 0.7 } }, 0.1, 0.2, null, 'the positive class may be the other one'],
  ])('%j is missed when all of the interval is beyond the bound: %d to %d', (entry, low, high, missed, ...[why]) => {
    const figure = { low, high, ...(why !== undefined && { why }) };
    expect(isMissed(readTrueObjectives([entry])[0] as TrueObjective, figure)).toBe(missed);
  });
});
