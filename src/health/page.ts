/** The page about an endpoint: its state, what is bad, since when and for which variant. Self-contained, and of counts alone. */

import { loadCharts } from '../core/text/charts.ts';
import { number, percent, time } from '../core/text/figure-text.ts';
import { escapeHtml, htmlPage, isolated } from '../core/text/html-page.ts';
import { namedCounts } from '../core/text/terminal-text.ts';
import { severestFirst } from '../core/values/severity.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import { groupRates } from '../quality/rates.ts';
import { OUTCOMES, windowText } from '../quality/rates-text.ts';
import { type Figures, figuresOf, objectiveText, scorerOf } from './facts.ts';
import type { Health } from './findings.ts';
import type { HealthState } from './known.ts';
import { type ChartFacts, overTime } from './page-charts.ts';
import { difference, figure, goodName, measured, sheet, titled, whole } from './page-elements.ts';
import { type TruthFacts, truthSections } from './page-truth.ts';
import { SIGNS } from './text.ts';

/** Facts of the whole window. */
export interface PageFacts extends ChartFacts {
  endpoint: string;
  /** Of the window's last day if it ends now, as `status` says it. */
  health: Health;
  day: TimeWindow;
  /** Absent without labels. */
  truth?: TruthFacts | undefined;
  /** Further sections as HTML, such as the worst replies. */
  more: string;
}

const STYLE = `
h3 { font-size: 14px; margin: 0; } .chart { max-width: 460px; } .chart p { margin: 0; font-size: 12px; } svg text { fill: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 22px; } .small svg { min-width: 0; }
.state { border-left: 8px solid var(--line); padding: 8px 14px; background: var(--card); font-size: 18px; margin: 12px 0; }
.state.bad, .state.good { color: var(--ink); border-color: currentColor; } .state.bad { border-color: var(--bad); } .state.good { border-color: var(--good); }
.time { white-space: nowrap; } code { font-size: 12px; overflow-wrap: anywhere; } td, h1 { overflow-wrap: anywhere; } td:not(.n) { min-width: 0; }
@media (min-width: 641px) { td:first-child { min-width: 10em; } }
@media print { body { max-width: none; padding: 0; } .chart, tr { break-inside: avoid; } .wide { overflow: visible; } }
`;

const CLASSES: Partial<Record<HealthState, string>> = { bad: 'bad', healthy: 'good' };
const [MISSED, MET] = ['<span class="bad">✗ missed</span>', '<span class="good">✓ met</span>'];

/** Returns the page. */
export async function healthPage(page: PageFacts): Promise<string> {
  await loadCharts();
  const { endpoint, window, day, health, changes, truth, nowMs, more } = page;
  const figures = figuresOf(page);
  const { captures, errorReplies, inputTokens, outputTokens, judgeUsd = 0, ...counts } = figures.totals;
  const totals = [
    ...[captures, errorReplies, inputTokens, outputTokens].map(whole),
    figure(judgeUsd, judgeUsd.toFixed(2)),
  ];
  const { state } = health;
  const body = [
    `<h1>${escapeHtml(endpoint)}</h1>`,
    `<p class="soft">${windowText(window)}. Written ${time(nowMs)}.</p>`,
    `<p class="state ${CLASSES[state] ?? ''}">${SIGNS[state]} ${isolated(health.words)}</p>`,
    sheet(
      'Findings',
      `Of ${windowText(day)}, as inference-monitor status says it.`,
      ['state', 'finding', 'as of', 'next'],
      health.findings.map((one) => [
        `<span class="time ${CLASSES[one.state] ?? ''}">${SIGNS[one.state]} ${one.state}</span>`,
        isolated(one.message),
        `<span class="time">${time(one.asOf)}</span>`,
        one.command === undefined ? '' : `<code>${escapeHtml(one.command)}</code>`,
      ]),
    ),
    sheet(
      'In all',
      '',
      ['#captures', '#error replies', '#tokens in', '#tokens out', '#US dollars for the judge'],
      [totals],
    ),
    scorerSection(page, figures),
    sheet(
      'Objectives',
      'When each became missed, or was met again.',
      ['objective', 'became', 'since'],
      changes.map(({ objective, isMissed, since }) => [
        escapeHtml(objective),
        isMissed ? MISSED : MET,
        time(since * 1000),
      ]),
    ),
    variantSection(page, figures),
    overTime(page, figures),
    countSection('Error replies by kind', '', counts.errorKinds),
    countSection('Calls without a reply', 'They are in no rate.', counts.failedCalls),
    outcomeSection(figures),
    countSection('Lines in quarantine', '', counts.quarantined),
    countSection('Masked', 'Items by kind, field and pattern.', counts.masked),
    truth === undefined ? '' : truthSections(truth),
    more,
  ];
  return htmlPage(`${endpoint}: ${state}`, body.join('\n'), { style: STYLE });
}

function scorerSection({ objectives, active, compared }: PageFacts, { rates, fell }: Figures): string {
  const severity = (scorer: string) => active.find(({ name }) => name === scorer)?.severity;
  const met = ({ missed, since }: ObjectiveRate): string =>
    missed === null ? '·' : `${missed ? MISSED : MET}${missed && since !== null ? ` since ${time(since)}` : ''}:`;
  const seen = rates.filter(({ n }) => n > 0).toSorted((a, b) => severestFirst(severity(a.scorer), severity(b.scorer)));
  const than = compared === undefined ? '' : `, compared with ${windowText(compared)}`;
  const note = `The share of judged replies that are good${than}. In brackets: 95% intervals.`;
  const rows = seen.map(({ scorer, good, n, labels, is, judge, quantiles = {} }) => {
    const name = good !== null ? goodName(scorer) : is === undefined ? `${scorer} (mean)` : `${scorer} = ${is}`;
    const about = good === null ? 'neither good nor bad' : (severity(scorer) ?? '');
    const spread = Object.entries(quantiles).map(([name, one]) => `<br>${name} ${figure(one, number(one))}`);
    const value = measured(good ?? judge, good === null && is === undefined ? number : percent) + spread.join('');
    const judged = `${whole(n)}${labels > 0 ? ` <span class="soft">(${whole(labels)} labels)</span>` : ''}`;
    const own = objectives.filter(({ measure }) => scorerOf(measure, active) === scorer);
    const objective = own.map((one) => `${met(one)} ${isolated(objectiveText(one))}`).join('<br>');
    const change = good === null ? '' : difference(fell.find((one) => one.scorer === scorer));
    return [`${isolated(name)} <span class="soft">${about}</span>`, value, judged, change, objective];
  });
  return sheet('Quality', note, ['scorer', 'good', '#judged', 'change in points', 'objective'], rows);
}

/** Variants that are compared with the first one. Endpoints rarely have more. */
const MAX_VARIANTS = 4;

function variantSection(
  { cells, active, window, shadow }: PageFacts,
  { apart: all, reference, rates }: Figures,
): string {
  const apart = all.slice(0, MAX_VARIANTS);
  const groups = groupRates(cells, { window, active, shadow, by: 'variant' });
  const shown = (variant: string, scorer: string): string => {
    const own = groups.find(({ group }) => group === variant)?.rates.find((rate) => rate.scorer === scorer);
    return own?.good ? `${measured(own.good)} of ${whole(own.n)}` : '–';
  };
  const rows = rates.flatMap(({ scorer, good }) => {
    const others = apart.flatMap(({ variant, differences }) => [
      shown(variant, scorer),
      difference(differences.find((one) => one.scorer === scorer)),
    ]);
    return good === null ? [] : [[isolated(goodName(scorer)), shown(reference, scorer), ...others]];
  });
  return sheet(
    'Variants',
    'The share of replies that are good, and how it differs in points. In brackets: 95% intervals.',
    [
      'scorer',
      titled(reference, shadow),
      ...apart.flatMap(({ variant }) => [titled(variant, shadow), `${variant} − ${reference}`]),
    ],
    apart.length === 0 ? [] : rows,
  );
}

/** What became of the captures: the columns of a row add up to all of them. */
function outcomeSection({ outcomes }: Figures): string {
  const rows = outcomes.map(({ scorer, reasons, ...counts }) => [
    isolated(scorer),
    ...OUTCOMES.map(([outcome]) => whole(counts[outcome])),
    isolated(namedCounts(reasons)),
  ]);
  return sheet('Captures by outcome', '', ['scorer', ...OUTCOMES.map(([, name]) => `#${name}`), 'why not'], rows);
}

function countSection(title: string, note: string, counts: Readonly<Record<string, number>> = {}): string {
  const rows = Object.entries(counts).filter(([, n]) => n !== 0);
  const sorted = rows.toSorted(([, a], [, b]) => b - a).map(([name, n]) => [isolated(name), whole(n)]);
  return sheet(title, note, ['name', '#count'], sorted);
}
