/** The traces with the worst verdicts as text, at the widths of terminals. */

import { worstPage } from '../../../../bin/commands/worst.ts';
import { type StandingVerdict, standingVerdicts } from '../../../../bin/operate/standing-verdicts.ts';
import { readWorst, type WorstTrace } from '../../../../bin/operate/worst.ts';
import { pageText } from '../../../../src/core/text/page.ts';
import { scorersFor } from '../../../../src/judge/scorers/scorer-set.ts';
import type { AssessedTrace, ReadAssessment } from '../../../../src/quality/calibration/assessed-traces.ts';

const failing: StandingVerdict = {
  scorer: 'relevance_to_query',
  value: 'no',
  by: 'judge',
  source: 'bedrock:/judge',
  rationale: `The reply \u001b[2J is about ${'parcels and '.repeat(40)}`,
  failed: true,
  good: false,
  severity: 'task',
  degree: 1,
};
const trace: WorstTrace = {
  traceId: 'tr-00000000000000000000000000000001',
  time: '2026-11-20T10:00:00Z',
  variant: 'blue\u001b]0;title\u0007',
  failing: [failing, { ...failing, scorer: 'safety', by: 'person', source: 'ada', rationale: 'x'.repeat(90) }],
  severity: 'harm',
  causes: 2,
  count: 59,
  verdicts: 9,
  request: 'Where is my parcel?\nPlease.',
  reply: '',
};

test('each has its failing verdicts with the reasons, what was asked and answered, and its link', () => {
  expect(pageText(worstPage([trace], () => 'http://mlflow/y'))).toBe(
    [
      '1. 59 × harm: 2 of 9 verdicts fail, 2026-11-20 10:00 UTC, blue ]0;title ',
      `  relevance_to_query fails: The reply [2J is about ${'parcels and '.repeat(40).slice(0, 277)}…`,
      `  safety fails (ada): ${'x'.repeat(90)}`,
      '  request: Where is my parcel? Please.',
      '  http://mlflow/y',
      '',
    ].join('\n'),
  );
});

const said = (name: string, value: unknown, more: Partial<ReadAssessment> = {}): ReadAssessment => ({
  assessment_id: 'a-1',
  assessment_name: name,
  source: { source_type: 'LLM_JUDGE', source_id: 'bedrock:/judge' },
  feedback: { value },
  metadata: {},
  valid: true,
  rationale: '',
  create_time: '2026-11-20T10:00:00Z',
  last_update_time: '2026-11-20T10:00:00Z',
  ...more,
});

test('the gravest failure comes first, then most causes; equal replies are one entry with the link of the newest', async () => {
  const traceOf = (n: number, reply: string, failures: Record<string, unknown>) => ({
    trace_id: `tr-${n}`,
    request_time: `2026-11-20T10:00:${String(n).padStart(2, '0')}Z`,
    tags: {},
    request_preview: 'Q',
    response_preview: reply,
    assessments: Object.entries(failures).map(([name, value]) => said(name, value)),
  });
  const cut = { cut_off: true, fluency: 'no', completeness: 'no' };
  const traces = [
    ...Array.from({ length: 59 }, (_, n) => traceOf(n, 'Cut', n === 7 ? { ...cut, safety: 'yes' } : cut)),
    traceOf(1, 'Slow and off', { relevance_to_query: 'no', tool_call_correctness: 'no' }),
    traceOf(2, 'Mix bleach and ammonia', { no_harmful_advice: 'no', safety: 'yes' }),
    traceOf(3, 'Tpyo', { fluency: 'no' }),
    traceOf(4, 'Fine', { fluency: 'yes' }),
    // Not known to be equal.
    ...[5, 6].map((n) => ({ ...traceOf(n, '', { safety: 'no', no_harmful_advice: 'no' }), request_preview: '' })),
  ];
  const orders: unknown[] = [];
  const rest = {
    repeat: async ({ json }: { json: { order_by: unknown } }) => {
      orders.push(json.order_by);
      return { traces: traces.toSorted((a, b) => (a.request_time < b.request_time ? 1 : -1)) };
    },
  } as never;
  const query = { experimentId: '1', scorers: scorersFor(), limit: 6, server: 'http://mlflow' };
  const { worst, ...totals } = await readWorst(rest, query);
  expect(totals).toEqual({ traces: 65, judged: 65, failing: 64 });
  expect(orders).toEqual([['timestamp_ms DESC']]);
  const shown = worst.map(({ traceId, severity, causes, count }) => `${traceId} ${severity} ${causes} ${count}`).join();
  expect(shown).toBe('tr-6 harm 1 1,tr-5 harm 1 1,tr-2 harm 1 1,tr-1 task 2 1,tr-58 task 1 59,tr-3 style 1 1');
  expect(worst[4]?.failing.map(({ scorer }) => scorer)).toEqual(['cut_off', 'completeness', 'fluency']);
  expect(worst[4]?.url).toContain('tr-58');
});

describe('what counts of the assessments of a scorer', () => {
  const scorers = new Map(scorersFor().map((scorer) => [scorer.name, scorer]));
  const by = (who: string, at: string): Partial<ReadAssessment> => ({
    source: { source_type: 'HUMAN', source_id: who },
    last_update_time: `2026-11-20T${at}:00Z`,
  });
  const code = { source: { source_type: 'CODE', source_id: 'code:/x' } };
  const standing = (...assessments: ReadAssessment[]) =>
    standingVerdicts({ assessments } as unknown as AssessedTrace, scorers);

  test.each([
    ['no', said('safety', 'no'), { failed: true, degree: 1 }],
    ['yes', said('safety', 'yes'), { failed: false, degree: 0 }],
    ['yes of a scorer that passes with no', said('refusal', 'yes'), { failed: true }],
    ['the middle one of three categories', said('coherence', 'somewhat coherent'), { failed: true, degree: 0.5 }],
    ['the last one', said('coherence', 'incoherent'), { failed: true, degree: 1 }],
    ['true of cut_off', said('cut_off', true, code), { failed: true }],
    ['false of cut_off', said('cut_off', false, code), { failed: false }],
    ['a number', said('response_words', 3, code), { failed: false }],
    ['no of a guideline that the settings do not have', said('house_style', 'no'), { failed: true }],
    ['false of a code scorer that is gone', said('old_code', false, code), { failed: false }],
  ])('%s', (_, assessment, expected) => {
    expect(standing(assessment)).toEqual([expect.objectContaining(expected)]);
  });

  test('a person’s latest word counts in place of the judge’s and of others’', () => {
    const verdicts = standing(
      said('safety', 'no'),
      said('safety', 'no', by('ada', '11:00')),
      said('safety', 'Yes', { ...by('bob', '12:00'), rationale: 'It is fine.' }),
    );
    expect(verdicts).toEqual([
      expect.objectContaining({ value: 'yes', by: 'person', source: 'bob', failed: false, rationale: 'It is fine.' }),
    ]);
  });

  test('a label that a person has withdrawn, and an error of the judge, do not count', () => {
    expect(standing(said('safety', 'yes', { ...by('ada', '11:00'), valid: false }))).toEqual([]);
    expect(standing(said('safety', undefined, { feedback: { error: { error_code: 'JudgeRefused' } } }))).toEqual([]);
  });
});
