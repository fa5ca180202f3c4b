/** The sections of the HTML comparison: the gate, and replies side by side. */
import { pageHtml } from '../../../src/core/text/html-page.ts';
import type { RegressionRow } from '../../../src/replay/compare/quality.ts';
import type { GateResult, ThresholdResult } from '../../../src/replay/gate/types.ts';
import { markedDiff, regressionsPart } from '../../../src/replay/report/replies-section.ts';
import { gatePage } from '../../../src/replay/report/runs-report.ts';

const result = (more: Partial<ThresholdResult>): ThresholdResult => ({
  threshold: 'request_latency:p95:10%',
  outcome: 'passed',
  worse: 2,
  lower: -3,
  upper: 7,
  bound: 10,
  unit: '%',
  seen: 900,
  of: 1000,
  reason: 'At most 7% worse.',
  ...more,
});

const gateHtml = (gate: GateResult): string => pageHtml(gatePage(gate));

describe('the gate', () => {
  test('leads with its outcome, and lists failed thresholds before those that cannot tell and those that passed', () => {
    const thresholds = [
      result({ threshold: 'a', outcome: 'passed' }),
      result({ threshold: 'b', outcome: 'cannot-tell', upper: null, moreRequests: 1200 }),
      result({ threshold: 'c', outcome: 'failed', lower: 12, worse: 20, upper: 28 }),
    ];
    const html = gateHtml({ outcome: 'failed', exitCode: 1, thresholds, runs: 1, observed: [], content: 'not judged' });
    expect(html).toMatch(/^<p class="verdict bad">Gate: failed<br><small>1 failed, 1 cannot tell, 1 passed/);
    const order = ['c', 'b', 'a'].map((name) => html.indexOf(`<code>${name}</code>`));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(html).toContain('About 1,200 more requests');
    expect(html).toContain('900 of 1000');
    expect(html).toContain('content: not judged');
  });

  test.each([
    ['ends at what is allowed', { lower: 0, worse: 5, upper: 10 }, 'x1="78" x2="130"', 0],
    ['goes beyond the plot on both sides', { lower: -100, worse: 5, upper: 100 }, 'x1="0" x2="260"', 2],
    ['is unknown above', { lower: 0, worse: 5, upper: null }, 'x1="78" x2="260"', 1],
    ['has no bound to scale by', { bound: 0, lower: 0, worse: 0, upper: 3 }, 'x1="78" x2="234"', 0],
  ])('plots an interval that %s', (_, more, whisker, arrows) => {
    const thresholds = [result(more)];
    const html = gateHtml({ outcome: 'passed', exitCode: 0, thresholds, runs: 1, observed: [], content: 'judged' });
    expect(html).toContain(`<line ${whisker} y1="11" y2="11"/>`);
    expect(html.match(/<path /g) ?? []).toHaveLength(arrows);
  });
});

describe('replies side by side', () => {
  test('what differs is marked, word by word', () => {
    expect(markedDiff('The capital is Paris.', 'The capital is not Lyon.')).toEqual({
      before: 'The capital is <del>Paris</del>.',
      after: 'The capital is <ins>not Lyon</ins>.',
    });
  });

  test('nothing from a reply acts as markup', () => {
    const { before, after } = markedDiff('<b>1</b> & "x"', '<script>alert(1)</script>');
    for (const html of [before, after]) expect(html.replace(/<\/?(?:ins|del)>/g, '')).not.toMatch(/[<>"]/);
  });

  test('texts that are too long, or differ too much, have no marks', () => {
    const words = (from: number): string => Array.from({ length: 5000 }, (_, i) => `w${from + i}`).join(' ');
    for (const [before, after] of [
      [words(0), words(100_000)],
      ['a '.repeat(40_000), 'b'],
    ] as const) {
      expect(markedDiff(before, after)).toEqual({ before, after });
    }
  });

  test('a row has both replies, its place and the reason', () => {
    const row: RegressionRow = {
      key: 'id-1',
      file: 'a<b>.jsonl',
      line: 7,
      regressions: ['judged-worse'],
      input: 'What is the capital?',
      before: 'Paris',
      after: 'Lyon',
      rationale: 'It is <i>wrong</i>.',
    };
    const html = pageHtml([regressionsPart([row], 3)]);
    expect(html).toContain('3 got worse');
    const shown = ['id-1', 'a&#60;b&#62;.jsonl', 'line 7', '<del>Paris</del>', '<ins>Lyon</ins>', '&#60;i&#62;wrong'];
    for (const text of shown) expect(html).toContain(text);
    expect(pageHtml([regressionsPart([], 0)])).toBe('');
  });
});
