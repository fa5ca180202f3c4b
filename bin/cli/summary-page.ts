/** Parts of the pages about runs: the state of the endpoint, and the figures, verdicts and quarantined lines of several runs. */

import { dollars } from '../../src/core/text/figure-text.ts';
import { block, bold, exact, firstOf, green, type Page, type Part, red, table } from '../../src/core/text/page.ts';
import { excerpt, namedCounts } from '../../src/core/text/terminal-text.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { sum } from '../../src/core/values/sum.ts';
import type { Health } from '../../src/health/findings.ts';
import { SIGNS, signOf } from '../../src/health/known.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { ReasonWithLines } from '../operate/run-report.ts';

/** The state of the endpoint, if it has a name, in words. */
export function statePart({ state, words }: Pick<Health, 'state' | 'words'>, endpoint?: string): Part {
  const text = `${SIGNS[state]} ${endpoint ? `${endpoint}: ` : ''}${words}`;
  return state === 'bad' ? red(text) : state === 'healthy' ? green(text) : bold(text);
}

/** Returns when a finding was true: the time, with its day unless that is today (UTC). */
const asOfText = (asOf: string, nowMs: number): string =>
  asOf.slice(asOf.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10) ? 11 : 0, 16).replace('T', ' ');

/**
 * Returns the findings, and the command of the worst finding that has a command. @param nowMs if absent, the times of
 * the findings are left out
 */
export function findingsPage({ findings }: Health, nowMs?: number): Page {
  const next = findings.find(({ command }) => command !== undefined)?.command;
  return [
    ...findings.map((one) => {
      const when = nowMs === undefined ? '' : ` (as of ${asOfText(one.asOf, nowMs)})`;
      const text = `${signOf(one)[0]} ${one.message}${when}`;
      return one.state === 'bad' ? red(text) : text;
    }),
    block(next && exact(`Next: ${next}`)),
  ];
}

/** Returns the figures of several runs in one line. Leaves out figures that are 0, except the first. */
export function totalsLine(summaries: readonly RunSummary[]): string {
  const total = (of: (one: RunSummary) => number): number => sum(summaries.map(of));
  const figures = {
    traced: total(({ lines }) => lines.traced),
    quarantined: total(({ lines }) => lines.quarantined),
    'outside the window': total(({ lines }) => lines.outsideWindow),
    judged: total(({ evaluatedTraces }) => evaluatedTraces),
    verdicts: total(({ verdicts }) => verdicts.newVerdicts),
    'held verdicts': total(({ verdicts }) => verdicts.heldByBudget),
    // Lost lines and verdicts, and verdicts that are recorded as errors.
    failed: total(({ lines, verdicts }) => lines.lost + verdicts.failed),
    'judge calls': total(({ spend }) => spend.calls),
    runs: summaries.length,
    'failed runs': total(({ status }) => (status === 'failed' ? 1 : 0)),
  };
  const shown = Object.entries(figures).flatMap(([name, count]) => (count > 0 ? `${name} ${count}` : []));
  // `null` if the judge's price is unknown.
  const usd = summaries.some(({ spend }) => spend.usd === null) ? null : total(({ spend }) => spend.usd ?? 0);
  return [`captured ${total(({ lines }) => lines.planned)}`, ...shown, `judge ${dollars(usd)}`].join(', ');
}

/** The verdicts of each scorer: the share that is good, else each value with its count, or the mean of a numeric scorer. */
export function verdictTable(summaries: readonly RunSummary[]): Part {
  const byScorer = new Map<string, Record<string, number>>();
  for (const [scorer, values] of summaries.flatMap(({ verdictsByScorer }) => Object.entries(verdictsByScorer))) {
    const total = byScorer.get(scorer) ?? noCounts();
    byScorer.set(scorer, total);
    addCounts(total, values);
  }
  const good = noCounts();
  // Running runs do not have these counts.
  const isTold = summaries.every((one) => one.good !== undefined);
  for (const one of isTold ? summaries : []) addCounts(good, one.good ?? {});
  const sorted = [...byScorer].sort(([a], [b]) => (a < b ? -1 : 1));
  return table(
    sorted.map(([name, values]) => [name, isNumeric(values) ? meanOf(values) : shareText(values, good[name])]),
  );
}

/** A numeric scorer is summarized as `count` and `sum`. */
const isNumeric = (values: Record<string, number>): boolean =>
  Object.keys(values).length > 0 && Object.keys(values).every((name) => name === 'count' || name === 'sum');

const meanOf = ({ count = 0, sum = 0 }: Record<string, number>): string =>
  `mean ${count === 0 ? 0 : Number((sum / count).toFixed(1))} of ${count}`;

function shareText(values: Record<string, number>, good: number | undefined): string {
  if (good === undefined) return namedCounts(values);
  const all = sum(Object.values(values));
  return `good ${((100 * good) / all).toFixed(1)}% (${good} of ${all})`;
}

/** Characters of a reason's message. */
const MAX_MESSAGE_CHARS = 300;

/** Each reason of quarantined lines, with its first lines. */
export const quarantinePage = (reasons: readonly ReasonWithLines[]): Page =>
  reasons.flatMap(({ reason, count, lines }) => {
    const first = lines.map((one) => `${one.key}:${one.line}: ${excerpt(one.reason.message, MAX_MESSAGE_CHARS)}`);
    return [`${reason}: ${count}`, firstOf(first.length, first, '', count)];
  });
