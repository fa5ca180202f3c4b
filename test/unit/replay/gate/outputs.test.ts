/** The outputs of a gate for CI servers and for readers. Runs, captures and replies in them are foreign text. */
import { execFileSync } from 'node:child_process';
import { pageHtml } from '../../../../src/core/text/html-page.ts';
import type { RunsComparison } from '../../../../src/replay/compare/compare-runs.ts';
import type { RegressionRow } from '../../../../src/replay/compare/quality.ts';
import { junitXml } from '../../../../src/replay/gate/outputs/junit.ts';
import { markdownSummary } from '../../../../src/replay/gate/outputs/markdown.ts';
import type { GateResult, ThresholdResult } from '../../../../src/replay/gate/types.ts';
import { markedDiff, regressionsPart } from '../../../../src/replay/report/replies-section.ts';
import { gatePage } from '../../../../src/replay/report/runs-report.ts';

const result = (over: Partial<ThresholdResult> = {}): ThresholdResult => ({
  ...{ threshold: 'request_latency:p95:10%', outcome: 'passed', worse: 2.125, lower: -3.5, upper: 8.25 },
  ...{ bound: 10, unit: '%', seen: 980, of: 1000, reason: 'At most 8.25% worse.' },
  ...over,
});

const PASSED = result();
const FAILED = result({
  ...{ threshold: 'error_rate:1', outcome: 'failed', worse: 4, lower: 2.5, upper: 5.5, bound: 1, unit: 'points' },
  ...{ reason: 'At least 2.5 points worse.' },
});
const OPEN = result({
  ...{ threshold: 'judged_worse:5', outcome: 'cannot-tell', worse: null, lower: null, upper: null, unit: 'points' },
  ...{ bound: 5, open: 7, reason: 'The judge gave no verdict.', moreRequests: 400 },
});
const gateOf = (...thresholds: ThresholdResult[]): GateResult => ({
  ...{ outcome: 'failed', exitCode: 1, thresholds, runs: 1, content: 'not judged' },
  observed: [{ scorer: 'cut_off', newlyFailing: 12, worse: 3, lower: 2, upper: 5, seen: 400, of: 410 }],
});

/** What a captured reply may contain. */
const HOSTILE = [
  '</pre></details></code><script>alert(1)</script><img src="https://evil.test/x.png">',
  '![i](https://evil.test/x.png) [l](javascript:alert(1)) <https://evil.test> www.evil.test',
  '@octocat #1 octo/repo#2 a | b | c',
  '```\n````` ` `` ]]> <![CDATA[ <!-- --> &lt; &#60; &bogus;',
  '| --- |\n\n# heading\n\n> quote\n\n---\n***\n- item\n    code\n$x$ $$y$$',
  '\u0000\u0001\u001b[31m\u0085\u009b\ud800 \udfff\u202e\u2066\ufffe\uffff\u2028\r\n\r\v\f',
].join('\n');

const row = (over: Partial<RegressionRow> = {}): RegressionRow => ({
  ...{ key: 'event-1:4', file: 'a.jsonl', line: 4, regressions: ['new-refusal'] },
  ...{ input: 'What is a fern?', before: 'A plant.', after: 'I cannot help with that.' },
  ...over,
});

const comparisonOf = (over: Partial<RunsComparison> = {}): RunsComparison =>
  ({
    before: { run: 'baseline', directory: 'replays/baseline', target: {}, requests: 1000, failed: 10 },
    after: { run: 'candidate', directory: 'replays/candidate', target: {}, requests: 990, failed: 50 },
    paired: { requests: 980 },
    quality: { regressed: 12 },
    regressions: [],
    notes: [],
    ...over,
  }) as RunsComparison;

/** Reads the document with Python's parser, which refuses what is not well-formed. */
function parsedXml(xml: string): [tag: string, attributes: Record<string, string>, text: string | null][] {
  const code =
    'import json,sys,xml.etree.ElementTree as e\n' +
    'print(json.dumps([[n.tag,n.attrib,n.text] for n in e.fromstring(sys.stdin.buffer.read()).iter()]))';
  return JSON.parse(execFileSync('python3', ['-c', code], { input: Buffer.from(xml), encoding: 'utf8' }));
}

describe('JUnit XML', () => {
  test('has a test case for each threshold, and counts them', () => {
    const found = parsedXml(junitXml(gateOf(PASSED, FAILED, OPEN), { before: 'baseline', after: 'candidate' }));
    const named = (tag: string) => found.filter(([name]) => name === tag);
    const totals = { name: 'candidate compared with baseline', tests: '3', failures: '1', errors: '1' };
    expect(named('testsuite')[0]?.[1]).toMatchObject(totals);
    expect(named('testcase').map(([, { name }]) => name)).toEqual([PASSED, FAILED, OPEN].map((one) => one.threshold));
    expect(named('failure')).toEqual([
      ['failure', { type: 'ThresholdFailed', message: `failed: ${FAILED.reason}` }, expect.any(String)],
    ]);
    expect(named('failure')[0]?.[2]).toContain('worse: +4.00 points\ninterval: +2.50 points … +5.50 points');
    expect(named('error')[0]?.[1]).toEqual({ type: 'CannotTell', message: `cannot tell: ${OPEN.reason}` });
    expect(named('error')[0]?.[2]).toContain('requests: 980 of 1000, 7 without a verdict');
    expect(named('error')[0]?.[2]).toContain('About 400 more requests');
    expect(named('system-out')).toHaveLength(1);
    expect(named('property').map(([, { name, value }]) => [name, value])).toEqual([
      ['content', 'not judged'],
      ['cut_off', 'newly failing cut_off: 12 of 400, 10 unknown (2.00% … 5.00%), no threshold'],
    ]);
  });

  test('what the gate added and cannot decide is skipped', () => {
    const few = { ...OPEN, counts: false } as const;
    const found = parsedXml(junitXml(gateOf(PASSED, few), { before: 'a', after: 'b' }));
    const suite = found.find(([tag]) => tag === 'testsuite')?.[1];
    expect(suite).toMatchObject({ tests: '2', errors: '0', failures: '0', skipped: '1' });
    expect(found.find(([tag]) => tag === 'skipped')?.[1].message).toBe(`too few: ${OPEN.reason}`);
  });

  test.each([HOSTILE, HOSTILE.repeat(1000), '\ud83d'.repeat(5000), '😀'.repeat(3000)])(
    'is well-formed with any text (%#)',
    (text) => {
      const hostile = gateOf(result({ outcome: 'failed', threshold: text, reason: text }), result({ reason: text }));
      const xml = junitXml(hostile, { before: text, after: text });
      const found = parsedXml(xml);
      expect(found.map(([tag]) => tag)).toEqual([
        ...['testsuites', 'testsuite', 'properties', 'property', 'property'],
        ...['testcase', 'failure', 'testcase', 'system-out'],
      ]);
      expect(xml.length).toBeLessThan(100_000);
    },
  );

  test('keeps readable text as it is', () => {
    const reason = 'naïve 日本語 😀 <b> & "quoted" \'x\' ]]>';
    const found = parsedXml(junitXml(gateOf(result({ outcome: 'failed', reason })), { before: 'a', after: 'b' }));
    expect(found.find(([tag]) => tag === 'failure')?.[1].message).toBe(`failed: ${reason}`);
  });
});

describe('Markdown', () => {
  test('leads with the outcome, and shows each threshold with its interval and pairs', () => {
    const lines = markdownSummary(comparisonOf(), gateOf(PASSED, FAILED, OPEN)).split('\n');
    expect(lines[0]).toBe('## ❌ Release gate: failed');
    expect(lines[2]).toContain('After: `candidate`, 990 requests, 50 failed. 980 requests are in both.');
    expect(lines.slice(6, 9)).toEqual([
      '| ✅ passed | `request_latency:p95:10%` | +2.13% | -3.50% … +8.25% | 10% | 980 of 1000 | At most 8.25% worse. |',
      '| ❌ failed | `error_rate:1` | +4.00 points | +2.50 points … +5.50 points | 1 points | 980 of 1000 | At least 2.5 points worse. |',
      '| ⚠️ cannot tell | `judged_worse:5` | unknown | unknown | 5 points | 980 of 1000, 7 without a verdict | The judge gave no verdict. About 400 more requests would probably decide it. |',
    ]);
  });

  test('shows the five gravest replies that got worse, with their place', () => {
    const regressions = [
      row({ regressions: ['new-refusal', 'judged-worse'], rationale: 'It refuses.' }),
      ...Array.from({ length: 6 }, (_, i) => row({ key: `event-${i + 2}:1`, regressions: ['json-broken'] })),
      row({ key: 'only-different', regressions: ['little-in-common'] }),
    ];
    const text = markdownSummary(comparisonOf({ regressions }), gateOf(FAILED), 'r/comparison.html');
    expect(text).toContain('### The gravest 5 of 12 replies that got worse');
    expect(text).toContain(`**1. new-refusal, judged-worse:** \`event-1:4\`, captured in \`a.jsonl\`, line 4\n`);
    expect(text).toContain('**2. json-broken:** `event-2:1`, captured in `a.jsonl`, line 4\n');
    expect(text).toContain('<pre>\nI cannot help with that.\n</pre>');
    expect(text).not.toContain('**6.');
    expect(text).toContain('`r/comparison.html`');
    expect(text).toContain('- newly failing cut_off: 12 of 400, 10 unknown');
    expect(text).toContain('- content: not judged');
    const few = markdownSummary(comparisonOf({ regressions: regressions.slice(-1) }), gateOf(FAILED));
    expect(few).not.toContain('gravest');
  });

  test('of several runs it names the first pair, and says so', () => {
    const several = { ...gateOf(PASSED), runs: 3 };
    expect(markdownSummary(comparisonOf(), several)).toContain(
      'These are the first of 3 pairs of runs; the thresholds',
    );
    expect(markdownSummary(comparisonOf(), gateOf(PASSED))).not.toContain('pairs of runs');
  });

  /** Removes what is certainly literal: code spans of one line, and the content of `<pre>`. */
  const syntaxOf = (markdown: string): string =>
    markdown.replace(/<pre>\n[^<>]*\n<\/pre>/g, '').replace(/(?<!`)(`+)(?!`)(.*?[^`])\1(?!`)/g, '');

  test.each([HOSTILE, HOSTILE.repeat(1000), '`', '` a ``', '```', ' ', ''])(
    'nothing foreign acts as Markdown or HTML (%#)',
    (text) => {
      const run = { run: text, directory: text, target: {}, requests: 1, failed: 0, cancelledOnPurpose: 0 };
      const foreign = { key: text, file: text, input: text, before: text, after: text, rationale: text };
      const markdown = markdownSummary(
        comparisonOf({
          ...{ before: run, after: run, notes: Array.from({ length: 100 }, () => text) },
          ...{ regressions: [row(foreign), row(foreign)], judgeFailure: { name: 'x', message: text } as never },
        }),
        gateOf(result({ reason: text }), result()),
        text,
      );
      const syntax = syntaxOf(markdown);
      expect(syntax).not.toMatch(
        /!\[|\]\(|@\w|[^&]#\d|[^`\n#]# |https:\/\/|www\.|`|\$|^---|^>|^- (?!newly failing|content)/m,
      );
      // Neither a mention nor a reference to an issue.
      expect(syntax).not.toMatch(/&#(?:64|35);(?!\u2060)/);
      expect(syntax.match(/<(?!\/?(details|summary)>)/g)).toBeNull();
      // Every row of the table keeps its seven cells.
      const rows = syntax.split('\n').filter((line) => line.startsWith('|'));
      expect(rows.map((line) => line.split('|').length)).toEqual([9, 9, 9, 9]);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: looks for control characters
      expect(markdown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
      expect(markdown.isWellFormed()).toBe(true);
      expect(Buffer.byteLength(markdown)).toBeLessThan(500_000);
    },
  );
});

const gateHtml = (gate: GateResult): string => pageHtml(gatePage(gate));

describe('the page', () => {
  test('leads with its outcome, and lists failed thresholds before those that cannot tell and those that passed', () => {
    const thresholds = [
      result({ threshold: 'a', outcome: 'passed' }),
      result({ threshold: 'b', outcome: 'cannot-tell', upper: null, moreRequests: 1200 }),
      result({ threshold: 'c', outcome: 'failed', lower: 12, worse: 20, upper: 28 }),
    ];
    const html = gateHtml(gateOf(...thresholds));
    expect(html).toMatch(/^<p class="verdict bad">Gate: failed<br><small>1 failed, 1 cannot tell, 1 passed/);
    const order = ['c', 'b', 'a'].map((name) => html.indexOf(`<code>${name}</code>`));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(html).toContain('About 1,200 more requests');
    expect(html).toContain('980 of 1000');
    expect(html).toContain('content: not judged');
  });

  test.each([
    ['ends at what is allowed', { lower: 0, worse: 5, upper: 10 }, 'x1="78" x2="130"', 0],
    ['goes beyond the plot on both sides', { lower: -100, worse: 5, upper: 100 }, 'x1="0" x2="260"', 2],
    ['is unknown above', { lower: 0, worse: 5, upper: null }, 'x1="78" x2="260"', 1],
    ['has no bound to scale by', { bound: 0, lower: 0, worse: 0, upper: 3 }, 'x1="78" x2="234"', 0],
  ])('plots an interval that %s', (_, more, whisker, arrows) => {
    const thresholds = [result(more)];
    const html = gateHtml(gateOf(...thresholds));
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
    const worse = row({
      key: 'id-1',
      file: 'a<b>.jsonl',
      line: 7,
      before: 'Paris',
      after: 'Lyon',
      rationale: 'It is <i>wrong</i>.',
    });
    const html = pageHtml([regressionsPart([worse], 3)]);
    expect(html).toContain('3 got worse');
    const shown = ['id-1', 'a&#60;b&#62;.jsonl', 'line 7', '<del>Paris</del>', '<ins>Lyon</ins>', '&#60;i&#62;wrong'];
    for (const text of shown) expect(html).toContain(text);
    expect(pageHtml([regressionsPart([], 0)])).toBe('');
  });
});
