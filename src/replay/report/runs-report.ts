/** The HTML report that compares two runs. */

import { loadCharts } from '../../core/text/charts.ts';
import { drawing, escapeHtml, htmlPage, pageHtml } from '../../core/text/html-page.ts';
import { dim, type Page, red, section, table } from '../../core/text/page.ts';
import type { RunsComparison } from '../compare/compare-runs.ts';
import { judgeWarning } from '../compare/judge-replies.ts';
import { METRIC_TAGS, type RunData } from '../compare/run-data.ts';
import { contentText, factsOf, OUTCOME_TEXTS, observedText, outcomeText } from '../gate/texts.ts';
import type { GateOutcome, GateResult, ThresholdResult } from '../gate/types.ts';
import { Distribution } from '../measure/distribution.ts';
import { distributions } from './charts.ts';
import { comparisonPage } from './replay-parts.ts';
import { REPLIES_STYLE, regressionsPart } from './replies-section.ts';

/** Returns the page, complete and self-contained. @param gate absent if there are no thresholds */
export async function runsReport(
  comparison: RunsComparison,
  gate: GateResult | undefined,
  runs: readonly [before: RunData, after: RunData],
): Promise<string> {
  await loadCharts();
  const { before, after, quality, regressions, judgeFailure } = comparison;
  const latency = distributions(
    [
      { name: `before: ${before.run}`, distribution: latencies(runs[0]) },
      { name: `after: ${after.run}`, distribution: latencies(runs[1]) },
    ],
    'Distribution of the latency in both runs',
  );
  const page = [
    drawing('<h1>Comparison of two replays</h1>'),
    ...(gate ? gatePage(gate) : []),
    red(judgeFailure && judgeWarning(judgeFailure)),
    ...comparisonPage(comparison),
    section('Latency distribution', drawing(latency)),
    regressionsPart(regressions, quality?.regressed ?? 0),
  ];
  return htmlPage(`${before.run} and ${after.run}`, pageHtml(page), GATE_STYLE + REPLIES_STYLE);
}

function latencies(run: RunData): Distribution {
  const distribution = new Distribution(1000);
  for (const value of run.requests.column(METRIC_TAGS.indexOf('request_latency'))) distribution.add(value);
  return distribution;
}

// ------------------------------------------------------------------------------------------------ the release gate
// Its outcomes, and the intervals as a forest plot.

const STYLES = { passed: 'good', failed: 'bad', 'cannot-tell': 'unsure' } as const satisfies Record<
  GateOutcome,
  string
>;

const WIDTH = 260;
const HEIGHT = 22;
const MIDDLE = HEIGHT / 2;
/** The plot's range, in multiples of the allowed value. Intervals beyond it end in an arrow. */
const FROM = -1.5;
const TO = 3.5;

const x = (times: number): number => ((Math.min(TO, Math.max(FROM, times)) - FROM) / (TO - FROM)) * WIDTH;

/** Converts the value to multiples of the allowed value. For a bound of 0, 1% is the unit. */
const timesAllowed = (value: number, bound: number): number => value / (bound || 1);

/**
 * Draws one row of the forest plot: the interval, the estimate, and dashed lines at "no change" and at the allowed
 * value.
 */
function plot({ worse, lower, upper, bound, outcome, threshold }: ThresholdResult): string {
  const edge = (times: number, name: string): string =>
    `<line class="${name}" x1="${x(times)}" x2="${x(times)}" y1="0" y2="${HEIGHT}"/>`;
  const lines = edge(0, 'zero') + edge(bound === 0 ? 0 : 1, 'allowed');
  const label = escapeHtml(`${threshold}: ${OUTCOME_TEXTS[outcome]}`);
  const open = `<svg class="forest ${STYLES[outcome]}" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${lines}`;
  if (worse === null) return `${open}</svg>`;
  const low = lower === null ? Number.NEGATIVE_INFINITY : timesAllowed(lower, bound);
  const high = upper === null ? Number.POSITIVE_INFINITY : timesAllowed(upper, bound);
  const arrow = (at: number, towards: number): string =>
    `<path d="M${at + towards * 6} ${MIDDLE - 4}L${at} ${MIDDLE}L${at + towards * 6} ${MIDDLE + 4}"/>`;
  const whisker = `<line x1="${x(low)}" x2="${x(high)}" y1="${MIDDLE}" y2="${MIDDLE}"/>`;
  const arrows = (low < FROM ? arrow(0, 1) : '') + (high > TO ? arrow(WIDTH, -1) : '');
  return `${open}${whisker}${arrows}<circle cx="${x(timesAllowed(worse, bound))}" cy="${MIDDLE}" r="4"/></svg>`;
}

const HEAD = [
  'outcome',
  'threshold',
  'better ← no change ┊ allowed → worse',
  'worse by (at least … at most)',
  'allowed',
  'requests',
];

function thresholdRow(result: ThresholdResult) {
  const { worse, interval, allowed, requests, why } = factsOf(result);
  const below = (html: string, text: string) => drawing(`${html}<br><span class="soft">${escapeHtml(text)}</span>`);
  return [
    drawing(`<b class="${STYLES[result.outcome]}">${outcomeText(result)}</b>`),
    below(`<code>${escapeHtml(result.threshold)}</code>`, why),
    drawing(plot(result)),
    below(escapeHtml(worse), interval),
    allowed,
    requests,
  ];
}

/** Failed thresholds come first, because readers look for them. */
const ORDER: readonly GateOutcome[] = ['failed', 'cannot-tell', 'passed'];

const GATE_STYLE = `
.unsure { color: var(--unsure); } :root { --unsure: #8a5a00; } @media (prefers-color-scheme: dark) { :root { --unsure: #e8b04a; } }
td:not(.n):has(> b) { min-width: 90px; }
.verdict { font-size: 20px; font-weight: 600; margin: 12px 0 4px; padding: 10px 14px; border: 2px solid currentColor; border-radius: 8px; }
svg.forest { width: ${WIDTH}px; min-width: ${WIDTH}px; height: ${HEIGHT}px; fill: currentColor; stroke: currentColor; stroke-width: 2; }
svg.forest path { fill: none; } svg.forest circle { stroke: none; }
svg.forest .zero, svg.forest .allowed { stroke: var(--soft); stroke-width: 1; } svg.forest .allowed { stroke: var(--ink); stroke-dasharray: 3 2; }
`;

/** The outcome of the gate, and a row for each threshold. */
export function gatePage({ outcome, thresholds, observed, content }: GateResult): Page {
  const counts = ORDER.map((one) => [one, thresholds.filter((result) => result.outcome === one).length] as const)
    .filter(([, count]) => count > 0)
    .map(([one, count]) => `${count} ${OUTCOME_TEXTS[one]}`);
  const rows = thresholds.toSorted((a, b) => ORDER.indexOf(a.outcome) - ORDER.indexOf(b.outcome)).map(thresholdRow);
  const verdict = `Gate: ${OUTCOME_TEXTS[outcome]}<br><small>${counts.join(', ')}</small>`;
  return [
    drawing(`<p class="verdict ${STYLES[outcome]}">${verdict}</p>`),
    section('Thresholds', dim(HOW_TO_READ), table(rows, HEAD)),
    ...observed.map(observedText),
    contentText(content),
  ];
}

const HOW_TO_READ =
  'Each line is the interval of how much worse the second run is, from the end of one one-sided 95% interval to that of the other, in multiples of what is allowed. A threshold passes if the whole line is left of the dashed mark, and fails if it is right of it.';
