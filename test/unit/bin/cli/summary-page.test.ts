/** The summary of several runs, as local commands print it. */

import { findingsPage, quarantinePage, statePart, totalsLine, verdictTable } from '../../../../bin/cli/summary-page.ts';
import type { QualityCell } from '../../../../src/core/contract/quality.ts';
import { pageText } from '../../../../src/core/text/page.ts';
import type { Health } from '../../../../src/health/findings.ts';
import { scorersFor } from '../../../../src/judge/scorers/scorer-set.ts';
import { healthOfRuns } from '../../../../src/monitoring/run-health.ts';
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

const stateOf = (health?: Health): string => (health ? pageText([statePart(health), ...findingsPage(health)]) : '');

describe('the summary of several runs', () => {
  test('has its figures in one line, without those that are 0', () => {
    expect(totalsLine([first, second])).toBe(
      'captured 14, traced 12, quarantined 1, judged 12, verdicts 52, failed 2, judge calls 12, runs 2, failed runs 1, judge $0.0136',
    );
    const unknown = summary((draft) => {
      draft.spend.usd = null;
    });
    expect(totalsLine([first, unknown])).toMatch(/, judge an unknown amount$/);
  });

  test('says how the endpoint is by all their captures, whatever their age', () => {
    const active = scorersFor();
    const counted = (variants: Record<string, QualityCell>) => (draft: RunSummary) => {
      draft.status = 'succeeded';
      draft.counted = { first: '2026-11-18T10', variants };
    };
    const runs = [
      summary(counted({ A: { captures: 20, scorers: { safety: { 1: { captures: 20, values: { yes: 20 } } } } } })),
      summary(
        counted({ A: { captures: 20, scorers: { safety: { 1: { captures: 20, values: { yes: 14, no: 6 } } } } } }),
      ),
    ];
    const health = healthOfRuns(runs, { active, SHADOW_VARIANTS: [] });
    const lines = stateOf(health).split('\n');
    expect(lines[0]).toMatch(
      /^✗ bad: safety: 15.0% .* of 40 replies fail; by default, .*; 6 replies to read: safety, 11-18 10:00 to 11-18 11:00$/,
    );
    expect(lines).toContain('✓ 40 new captures');
    expect(lines).toContain('Next: inference-monitor worst --scorer safety --from 2026-11-18T10:00Z');
    expect(healthOfRuns([first, ...runs], { active, SHADOW_VARIANTS: [] })).toBeUndefined();
  });

  test('counts shadow variants only where variants are compared', () => {
    const run = summary((draft) => {
      draft.status = 'succeeded';
      const variants = { A: { captures: 40 }, Next: { captures: 40, errorReplies: 40 } };
      draft.counted = { first: '2026-11-20T10', variants };
    });
    const text = stateOf(healthOfRuns([run], { active: [], SHADOW_VARIANTS: ['Next'] }));
    expect(text).toContain('✓ 40 new captures');
    expect(text).toContain('! shadow variant Next is worse than A: error replies 100 points');
    expect(text).toContain('· 0.0% (99.86%: 0.0% to 16.6%) of the captures are error replies');
  });

  test('shows the first lines of a reason of the quarantine, and the number of the others', () => {
    const lines = [
      { key: 'my-endpoint/a.jsonl', line: 3, reason: { name: 'NotJson', message: 'the line is cut off' } },
    ];
    expect(pageText(quarantinePage([{ reason: 'NotJson', count: 5, lines }]))).toBe(
      'NotJson: 5\n  my-endpoint/a.jsonl:3: the line is cut off\n  and 4 more\n',
    );
  });

  test('says so of a run that counts no captures, since they were traced before', () => {
    const again = (planned: number) =>
      summary((draft) => {
        draft.status = 'succeeded';
        draft.counted = { variants: {} };
        Object.assign(draft.lines, { planned, traced: planned - 1, quarantined: 1 });
        draft.quarantineReasons = { NotJson: 1 };
      });
    const wordsOf = (planned: number) =>
      healthOfRuns([again(planned)], { active: scorersFor(), SHADOW_VARIANTS: [] })?.words;
    expect(wordsOf(35)).toMatch(
      /^too little to tell: 0 new captures, of at least 30; 1 line in quarantine \(NotJson 1\)$/,
    );
    expect(wordsOf(1)).toMatch(
      /^too little to tell: .*; 1 line in quarantine, 100.0% \(99.86%: 0.1% to 100.0%\) \(NotJson 1\)$/,
    );
  });

  test('counts each verdict and averages numbers', () => {
    expect(pageText([verdictTable([first, second])])).toBe(
      'response_words  mean 10 of 10\nsafety          yes 8, no 4\n',
    );
    const judged = [first, second].map((one) => ({ ...one, good: goodVerdicts(one.verdictsByScorer, scorersFor()) }));
    expect(pageText([verdictTable(judged)])).toContain('safety          good 66.7% (8 of 12)');
  });
});
