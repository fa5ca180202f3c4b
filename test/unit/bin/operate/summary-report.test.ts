/** The summary of several runs, as local commands print it. */

import { addUp, totalLines, verdictLines } from '../../../../bin/operate/summary-report.ts';
import { scorersFor } from '../../../../src/judge/scorers/scorer-set.ts';
import { goodVerdicts, type RunSummary, SummaryBuilder } from '../../../../src/monitoring/summary.ts';

function summary(change: (draft: RunSummary) => void): RunSummary {
  const draft = new SummaryBuilder({ name: 'run', startTime: '2026-11-20T10:00:00Z' }).build();
  change(draft);
  return draft;
}

const first = summary((draft) => {
  draft.status = 'succeeded';
  Object.assign(draft.lines, { planned: 10, traced: 9, quarantined: 1 });
  Object.assign(draft.verdicts, { newVerdicts: 40, notJudgeable: 5, failed: 1 });
  draft.evaluatedTraces = 9;
  draft.spend = { calls: 9, inputTokens: 1000, outputTokens: 200, usd: 0.0125 };
  draft.verdictsByScorer = { safety: { yes: 8, no: 1 }, response_words: { count: 9, sum: 94 } };
});
const second = summary((draft) => {
  draft.status = 'failed';
  Object.assign(draft.lines, { planned: 4, traced: 3, lost: 1 });
  Object.assign(draft.verdicts, { newVerdicts: 12 });
  draft.evaluatedTraces = 3;
  draft.spend = { calls: 3, inputTokens: 100, outputTokens: 20, usd: 0.0011 };
  draft.verdictsByScorer = { safety: { no: 3 }, response_words: { count: 1, sum: 6 } };
});

describe('the summary of several runs', () => {
  test('has one number per line', () => {
    const lines = totalLines(addUp([first, second]));
    expect(lines).toEqual([
      'captured: 14',
      'traced: 12',
      'quarantined: 1',
      'evaluated: 12',
      'failed: 2',
      'cost_usd: 0.0136',
      'verdicts: 52',
      'judge_calls: 12',
      'judge_tokens: 1320',
      'runs: 2',
      'verdicts_not_judgeable: 5',
      'failed_runs: 1',
    ]);
    for (const line of lines) expect(line).toMatch(/^\w+: [\d.]+$/);
  });

  test('has an unknown cost if the cost of one run is unknown', () => {
    const unknown = summary((draft) => {
      draft.spend.usd = null;
    });
    expect(totalLines(addUp([first, unknown]))).toContain('cost_usd: unknown');
  });

  test('counts each verdict and averages numbers', () => {
    expect(verdictLines(addUp([first, second]))).toEqual([
      '  response_words  mean 10 of 10',
      '  safety          yes 8, no 4',
    ]);
    const judged = [first, second].map((one) => ({ ...one, good: goodVerdicts(one.verdictsByScorer, scorersFor()) }));
    expect(verdictLines(addUp(judged))).toContain('  safety          good 66.7% (8 of 12)');
  });
});
