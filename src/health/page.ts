/** The page about an endpoint: its state, what is bad, since when and for which variant. Self-contained, and of counts alone. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { loadCharts } from '../core/text/charts.ts';
import { escapeHtml, htmlPage, isolated } from '../core/text/html-page.ts';
import { gravestFirst } from '../core/values/gravity.ts';
import type { TruthFigures } from '../ground-truth/measure/figures.ts';
import type { CountedCell, TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import type { KeptTurn } from '../quality/objective-states.ts';
import { groupRates } from '../quality/rates.ts';
import { windowText } from '../quality/rates-text.ts';
import { hourOf } from '../quality/tally.ts';
import { addedUp, type HealthFacts, type Known, knownOf, objectiveText, percent, scorerOf, time } from './facts.ts';
import type { Health, HealthState } from './findings.ts';
import { overTime } from './page-charts.ts';
import { difference, figure, goodName, measured, sheet, whole } from './page-parts.ts';
import { truthSections } from './page-truth.ts';
import { SIGNS } from './text.ts';

export interface PageFacts {
  endpoint: string;
  /** Of the whole window. */
  facts: HealthFacts;
  buckets: Buckets;
  /** Of its last day if it ends now, as `status` says it. */
  health: Health;
  healthOf: TimeWindow;
  turns: readonly KeptTurn[];
  /** Absent without labels. */
  truth?: { all: TruthFigures; byVariant: TruthFigures } | undefined;
  /** Further sections as HTML, such as the worst replies. */
  more?: string | undefined;
}

const STYLE = `
h3 { font-size: 14px; margin: 0; } .chart p { margin: 0; font-size: 12px; } svg text { fill: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 22px; } .small svg { min-width: 0; }
.state { border-left: 8px solid var(--line); padding: 8px 14px; background: var(--card); font-size: 18px; margin: 12px 0; }
.state.bad, .state.good { color: var(--ink); border-color: currentColor; } .state.bad { border-color: var(--bad); } .state.good { border-color: var(--good); }
.time { white-space: nowrap; } code { font-size: 12px; overflow-wrap: anywhere; } td, h1 { overflow-wrap: anywhere; } td:not(.n) { min-width: 0; }
@media (max-width: 640px) {
  body { padding: 16px 12px 48px; } table.cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards thead { display: none; } .cards tr { border-bottom: 1px solid var(--line); padding: 6px 0; }
  .cards td, .cards td.n { border: 0; padding: 1px 0; text-align: left; white-space: normal; }
  .cards td:not(:first-child)::before { content: attr(data-name) ": "; color: var(--soft); } .cards td:empty { display: none; }
  .cards td:first-child { font-weight: 600; }
}
@media print { body { max-width: none; padding: 0; } .chart, tr { break-inside: avoid; } .wide { overflow: visible; } }
`;

const LOOKS: Partial<Record<HealthState, string>> = { bad: 'bad', healthy: 'good' };

/** Returns the page. */
export async function healthPage(page: PageFacts): Promise<string> {
  await loadCharts();
  const { endpoint, facts, buckets, health, turns, truth, more = '' } = page;
  const known = knownOf(facts);
  const { errorKinds, notJudged, quarantined } = known.totals;
  const { state } = health;
  const body = [
    `<main><h1>${escapeHtml(endpoint)}</h1>`,
    `<p class="soft">${windowText(facts.window)}. Written ${time(new Date(facts.nowMs).toISOString())}.</p>`,
    `<p class="state ${LOOKS[state] ?? ''}">${SIGNS[state]} ${isolated(health.words)}</p>`,
    findingSection(page),
    totalSection(known),
    scorerSection(known),
    sheet(
      'Objectives',
      'When each became missed, or was met again.',
      ['objective', 'became', 'since'],
      turns.map(turnCells),
    ),
    variantSection(known),
    overTime(known, turns, buckets),
    countSection('Error replies by kind', '', errorKinds),
    countSection('Not judged, and why', 'Verdicts that were not given: scorers × captures.', notJudged),
    countSection('Lines in quarantine', '', quarantined),
    truth === undefined ? '' : truthSections(truth),
    more,
    '</main>',
  ];
  return htmlPage(`${endpoint}: ${state}`, body.join('\n'), { style: STYLE });
}

const findingSection = ({ health: { findings }, healthOf: of }: PageFacts): string =>
  sheet(
    'Findings',
    `Of ${windowText(of)}, as inference-monitor status says it.`,
    ['state', 'finding', 'as of', 'next'],
    findings.map(({ state, message, asOf, command }) => [
      `<span class="${LOOKS[state] ?? ''}">${SIGNS[state]} ${state}</span>`,
      isolated(message),
      `<span class="time">${time(asOf)}</span>`,
      command === undefined ? '' : `<code>${escapeHtml(command)}</code>`,
    ]),
  );

const turnCells = ({ objective, isMissed, since }: KeptTurn): string[] => [
  escapeHtml(objective),
  isMissed ? '<span class="bad">✗ missed</span>' : '<span class="good">✓ met</span>',
  time(new Date(since * 1000).toISOString()),
];

function totalSection({ totals }: Known): string {
  const { captures, errorReplies, inputTokens, outputTokens, judgeUsd = 0 } = totals;
  const head = ['#captures', '#error replies', '#tokens in', '#tokens out', '#US dollars for the judge'];
  const cells = [
    ...[captures, errorReplies, inputTokens, outputTokens].map(whole),
    figure(judgeUsd, judgeUsd.toFixed(2)),
  ];
  return sheet('In all', '', head, [cells]);
}

function scorerSection({ rates, fell, facts: { objectives, active } }: Known): string {
  const changes = new Map(fell.map((one) => [one.scorer, one]));
  const gravity = (scorer: string) => active.find(({ name }) => name === scorer)?.gravity;
  const objective = (scorer: string): string => {
    const own = objectives.filter(({ measure }) => (scorerOf(measure, active) ?? measure) === scorer);
    return own.map((one) => `${metText(one)} ${isolated(objectiveText(one))}`).join('<br>');
  };
  const seen = rates.filter(({ n }) => n > 0).toSorted((a, b) => gravestFirst(gravity(a.scorer), gravity(b.scorer)));
  const note =
    'The share of judged replies that are good, compared with the window before. In brackets: 95% intervals.';
  const rows = seen.map(({ scorer, good, n, is, judge }) => {
    const name = good !== null ? goodName(scorer) : is === undefined ? `${scorer} (mean)` : `${scorer} = ${is}`;
    const about = good === null ? 'neither good nor bad' : (gravity(scorer) ?? '');
    const value = measured(good ?? judge, good === null && is === undefined ? (mean) => mean.toPrecision(4) : percent);
    const cells = [`${isolated(name)} <span class="soft">${about}</span>`, value, whole(n)];
    return good === null ? cells : [...cells, difference(changes.get(scorer)), objective(scorer)];
  });
  return sheet('Quality', note, ['scorer', 'good', '#judged', 'change in points', 'objective'], rows);
}

const metText = ({ missed, since }: ObjectiveRate): string => {
  if (missed) return `<span class="bad">✗ missed${since === null ? '' : ` since ${time(since)}`}:</span>`;
  return missed === null ? '·' : '✓ met:';
};

/** Variants that are compared with the first one. Endpoints rarely have more. */
const MAX_VARIANTS = 4;

function variantSection({ facts: { cells, active, window, shadow }, apart: all, rates }: Known): string {
  const apart = all.slice(0, MAX_VARIANTS);
  const [first] = apart;
  if (first === undefined) return '';
  const groups = groupRates(cells, { window, active, shadow, by: 'variant' });
  const shown = (variant: string, scorer: string): string => {
    const own = groups.find(({ group }) => group === variant)?.rates.find((rate) => rate.scorer === scorer);
    return own?.good ? `${measured(own.good)} of ${whole(own.n)}` : '–';
  };
  const titled = (variant: string): string => `${variant}${shadow.includes(variant) ? ' (shadow)' : ''}`;
  const { reference } = first;
  return sheet(
    'Variants',
    'The share of replies that are good, and how it differs in points. In brackets: 95% intervals.',
    ['scorer', titled(reference), ...apart.flatMap(({ variant }) => [titled(variant), `${variant} − ${reference}`])],
    rates.flatMap(({ scorer, good }) => {
      const others = apart.flatMap(({ variant, differences }) => [
        shown(variant, scorer),
        difference(differences.find((one) => one.scorer === scorer)),
      ]);
      return good === null ? [] : [[isolated(goodName(scorer)), shown(reference, scorer), ...others]];
    }),
  );
}

function countSection(title: string, note: string, counts: Readonly<Record<string, number>> = {}): string {
  const rows = Object.entries(counts).filter(([, n]) => n !== 0);
  const sorted = rows.toSorted(([, a], [, b]) => b - a).map(([name, n]) => [isolated(name), whole(n)]);
  return sheet(title, note, ['name', '#count'], sorted);
}

// --------------------------------------------------------------------------------------------------------- buckets

/** Points of a chart. */
const MOST_BUCKETS = 31;
const BUCKET_HOURS = [1, 2, 3, 6, 12, 24];

export interface Buckets {
  /** Where each starts: an hour such as `2026-11-20T00`. */
  hours: readonly string[];
  /** One cell for each bucket and variant. */
  cells: readonly CountedCell[];
}

/** Adds the hours of a window up to equal parts, of days if it is longer than a day or two. */
export function bucketsOf({ window: { fromMs, toMs }, cells }: HealthFacts): Buckets {
  const all = (toMs - fromMs) / HOUR_MS;
  const size = BUCKET_HOURS.find((hours) => all / hours <= MOST_BUCKETS) ?? 24 * Math.ceil(all / 24 / MOST_BUCKETS);
  const start = (ms: number): number => Math.floor(ms / HOUR_MS / size) * size * HOUR_MS;
  const hours: string[] = [];
  for (let ms = start(fromMs); ms < toMs; ms += size * HOUR_MS) hours.push(hourOf(ms));
  return { hours, cells: addedUp(cells, (ms) => hourOf(start(ms))) };
}
