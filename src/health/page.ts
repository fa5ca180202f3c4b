/** The page about an endpoint: its state, what is bad, since when and for which variant. Self-contained, and of counts alone. */

import { loadCharts } from '../core/text/charts.ts';
import { number, percent, time } from '../core/text/figure-text.ts';
import { escapeHtml, htmlPage, isolated } from '../core/text/html-page.ts';
import { namedCounts } from '../core/text/terminal-text.ts';
import { severestFirst } from '../core/values/severity.ts';
import type { Kind } from '../ground-truth/measure/figures.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import type { Change } from '../quality/objective-states.ts';
import { OUTCOMES, windowText } from '../quality/rates-text.ts';
import { type Figures, figuresOf, type HealthFacts, isWithin, objectiveText, scorerOf } from './facts.ts';
import type { Health } from './findings.ts';
import { courseOf, findingChart, overTime, pointsOf } from './page-charts.ts';
import { goodName, measured, sheet, whole } from './page-elements.ts';
import { cards, firstScreen, MAX_CARDS, type ReplyToRead, replyCard } from './page-first.ts';
import { type TruthFacts, truthSections } from './page-truth.ts';

/** Facts of the whole window. */
export interface PageFacts extends HealthFacts {
  endpoint: string;
  /** Of the window's last day if it ends now, as `status` says it. */
  health: Health;
  day: TimeWindow;
  /** The gravest replies first; absent: no words were read. */
  worst?: readonly ReplyToRead[] | undefined;
  changes: readonly Change[];
  points: ReturnType<typeof pointsOf>;
  /** What the model predicts, if the settings say it. */
  predicts: Kind | undefined;
  /** Absent without labels. */
  truth?: TruthFacts | undefined;
}

const STYLE = `
h3 { font-size: 14px; margin: 0; } .chart { max-width: 460px; } .chart p { margin: 0; font-size: 12px; } svg text { fill: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 22px; } .small svg { min-width: 0; }
:root { --look: #96580a; --ask: #6b3fa0; --blind: #1f5fa8; } @media (prefers-color-scheme: dark) { :root { --look: #ffb95c; --ask: #c9adff; --blind: #8ab8ff; } }
.look { color: var(--look); } .ask { color: var(--ask); } .blind { color: var(--blind); }
body { max-width: 1240px; } .state { background: var(--card); font-size: 18px; margin: 10px 0; padding: 8px 14px; }
.state, .card { border-left: 6px solid; } .state b, .state bdi, .card > * { color: var(--ink); } .card { border-color: var(--line); padding-left: 10px; font-size: 13px; line-height: 1.4; overflow-wrap: anywhere; }
.card.bad, .card.look, .card.ask { border-color: currentColor; } .card p { margin: 2px 0; } .card h3, .card .chart p { display: inline; margin-right: 6px; font-size: 13px; } .card .chart { max-width: 370px; }
.first h2 { margin: 14px 0 6px; } .first .charts { grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 14px; } .charts + .charts { margin-top: 14px; } @media (max-width: 640px) { .state { font-size: 15px; } .first .charts { gap: 10px; } }
.time { white-space: nowrap; } code { font-size: 12px; overflow-wrap: anywhere; } td, h1 { overflow-wrap: anywhere; } td:not(.n) { min-width: 0; }
@media (min-width: 641px) { td:first-child { min-width: 10em; } }
@media print { body { max-width: none; padding: 0; } .chart, tr { break-inside: avoid; } .wide { overflow: visible; } }
`;

const [MISSED, MET] = ['<span class="bad">✗ missed</span>', '<span class="good">✓ met</span>'];

/** Returns the page. */
export async function healthPage(page: PageFacts): Promise<string> {
  await loadCharts();
  const { endpoint, window, day, health, changes, predicts, truth, nowMs, worst, points } = page;
  const figures = figuresOf(page);
  const course = courseOf(page, figures, points);
  // The last day, and as much before it.
  const latelyMs = Math.max(window.fromMs, 2 * day.fromMs - day.toMs);
  const lately = courseOf(page, figures, pointsOf({ fromMs: latelyMs, toMs: window.toMs }));
  const body = [
    `<h1>${escapeHtml(endpoint)}</h1>`,
    `<p class="soft">${windowText(window)}. Written ${time(nowMs)}.</p>`,
    firstScreen(health, day, (finding) => findingChart(course, lately, finding), worst),
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
    outcomeSection(figures),
    overTime(course, predicts),
    truth === undefined ? '' : truthSections(truth),
    cards('More replies to read', (worst ?? []).slice(MAX_CARDS).map(replyCard)),
  ];
  return htmlPage(`${endpoint}: ${health.state}`, body.join('\n'), { style: STYLE });
}

function scorerSection({ objectives, active }: PageFacts, { rates }: Figures): string {
  const severity = (scorer: string) => active.find(({ name }) => name === scorer)?.severity;
  const met = (rate: ObjectiveRate): string => {
    if (rate.missed) return `${MISSED}${rate.since === null ? '' : ` since ${time(rate.since)}`}:`;
    return rate.missed === false && isWithin(rate) ? `${MET}:` : '· not clearly met:';
  };
  const seen = rates.filter(({ n }) => n > 0).toSorted((a, b) => severestFirst(severity(a.scorer), severity(b.scorer)));
  const note = 'The share of replies that are good, as the judge says it. In brackets: 95% intervals.';
  const rows = seen.map(({ scorer, good, n, is, judge }) => {
    const name = good !== null ? goodName(scorer) : is === undefined ? `${scorer} (mean)` : `${scorer} = ${is}`;
    const about = good === null ? '' : (severity(scorer) ?? '');
    const value = measured(good ?? judge, good === null && is === undefined ? number : percent);
    const own = objectives.filter(({ measure }) => scorerOf(measure, active) === scorer);
    const objective = own.map((one) => `${met(one)} ${isolated(objectiveText(one))}`).join('<br>');
    return [`${isolated(name)} <span class="soft">${about}</span>`, value, whole(n), objective];
  });
  return sheet('Quality', note, ['scorer', 'good', '#judged', 'objective'], rows);
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
