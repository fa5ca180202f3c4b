/** Parts of the pages about runs: the state of the endpoint, and the figures, verdicts and quarantined lines of several runs. */
import { excerpt } from '../../src/core/text/terminal-text.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { sum } from '../../src/core/values/sum.ts';
import type { Health } from '../../src/health/findings.ts';
import { SIGNS, signOf } from '../../src/health/text.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { ReasonWithLines } from '../operate/run-summaries.ts';
import { block, bold, exact, firstOf, green, type Page, type Part, red, table } from './page.ts';

/** The state of the endpoint, if it has a name, in words. */
export function statePart({ state, words }: Pick<Health, 'state' | 'words'>, endpoint?: string): Part {
  const text = `${SIGNS[state]} ${endpoint ? `${endpoint}: ` : ''}${words}`;
  return state === 'bad' ? red(text) : state === 'healthy' ? green(text) : bold(text);
}

/** Returns when a finding was true: the time, with its day unless that is today (UTC). */
const asOfText = (asOf: string, nowMs: number): string =>
  asOf.slice(asOf.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10) ? 11 : 0, 16).replace('T', ' ');

/** The findings, and the command of the worst one that has one. @param nowMs absent: without the time that each is of */
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

/** The state of the endpoint by what runs have processed, why, and the figures. @param health absent while a run is running */
export const summaryPage = (summaries: readonly RunSummary[], health: Health | undefined, endpoint?: string): Page => [
  ...(health === undefined ? [] : [statePart(health, endpoint), ...findingsPage(health)]),
  totalsLine(summaries),
];

/** The figures of a run, in their order. */
const FIGURES: readonly [name: string, of: (one: RunSummary) => number][] = [
  ['captured', ({ lines }) => lines.planned],
  ['traced', ({ lines }) => lines.traced],
  ['quarantined', ({ lines }) => lines.quarantined],
  ['outside the window', ({ lines }) => lines.outsideWindow],
  ['judged', ({ evaluatedTraces }) => evaluatedTraces],
  ['verdicts', ({ verdicts }) => verdicts.newVerdicts],
  ['held verdicts', ({ verdicts }) => verdicts.heldByBudget],
  // Lost lines and verdicts, and verdicts that are recorded as errors.
  ['failed', ({ lines, verdicts }) => lines.lost + verdicts.failed],
  ['judge calls', ({ spend }) => spend.calls],
  ['runs', () => 1],
  ['failed runs', ({ status }) => (status === 'failed' ? 1 : 0)],
];

/** Returns the figures of several runs in one line. Those that are 0 are left out, but for the first. */
export function totalsLine(summaries: readonly RunSummary[]): string {
  const figures = FIGURES.map(([name, of]) => ({ name, count: sum(summaries.map(of)) }));
  const shown = figures.filter(({ count }, index) => index === 0 || count > 0);
  // `null` if the judge's price is unknown.
  const usd = summaries.some((one) => one.spend.usd === null) ? null : sum(summaries.map((one) => one.spend.usd ?? 0));
  const cost = `judge $${usd === null ? ' unknown' : usd.toFixed(4)}`;
  return [...shown.map(({ name, count }) => `${name} ${count}`), cost].join(', ');
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
  // A run that is running does not tell it.
  const isTold = summaries.every((one) => one.good !== undefined);
  for (const one of isTold ? summaries : []) addCounts(good, one.good ?? {});
  const sorted = [...byScorer].sort(([a], [b]) => (a < b ? -1 : 1));
  return table(
    [],
    sorted.map(([name, values]) => [name, isNumeric(values) ? meanOf(values) : shareText(values, good[name])]),
  );
}

/** A numeric scorer is summarized as `count` and `sum`. */
const isNumeric = (values: Record<string, number>): boolean =>
  Object.keys(values).length > 0 && Object.keys(values).every((name) => name === 'count' || name === 'sum');

const meanOf = ({ count = 0, sum = 0 }: Record<string, number>): string =>
  `mean ${count === 0 ? 0 : Number((sum / count).toFixed(1))} of ${count}`;

function shareText(values: Record<string, number>, good: number | undefined): string {
  const counts = Object.entries(values).sort(([, a], [, b]) => b - a);
  if (good === undefined) return counts.map(([value, count]) => `${value} ${count}`).join(', ');
  const all = sum(Object.values(values));
  return `good ${((100 * good) / all).toFixed(1)}% (${good} of ${all})`;
}

/** Characters of a reason's message. */
const MAX_MESSAGE_CHARS = 300;

/** Each reason of quarantined lines, with its first lines. @param fileOf maps a key in the capture bucket to the user's file */
export const quarantinePage = (reasons: readonly ReasonWithLines[], fileOf = (key: string): string => key): Page =>
  reasons.flatMap(({ reason, count, lines }) => {
    const first = lines.map(
      (one) => `${fileOf(one.key)}:${one.line}: ${excerpt(one.reason.message, MAX_MESSAGE_CHARS)}`,
    );
    return [`${reason}: ${count}`, firstOf(first.length, first, '', count)];
  });
