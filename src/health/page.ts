/**
 * The page about an endpoint: its state, and each finding with its beginning and its variants. It is self-contained,
 * and made only from counts.
 */

import { loadCharts } from '../core/text/charts.ts';
import { number, percent, time } from '../core/text/figure-text.ts';
import { count, drawing, escapeHtml, htmlPage, isolated, measured, pageHtml } from '../core/text/html-page.ts';
import { type Cell, dim, type Part, section, sheet } from '../core/text/page.ts';
import { severestFirst } from '../core/values/severity.ts';
import type { Kind, TruthFigures } from '../ground-truth/measure/figures.ts';
import { truthPage, truthTable } from '../ground-truth/measure/figures-page.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import type { ObjectiveRate } from '../quality/objective-rates.ts';
import type { Change } from '../quality/objective-states.ts';
import { outcomesTable, representedText, windowText } from '../quality/rates-text.ts';
import { type Figures, figuresOf, type HealthFacts, isWithin, objectiveText, scorerOf } from './facts.ts';
import type { Health } from './findings.ts';
import { courseOf, findingChart, goodName, grid, overTime, pointsOf } from './page-charts.ts';
import { firstScreen, MAX_CARDS, type ReplyToRead, replyCard } from './page-first.ts';
import { chart } from './small-chart.ts';

type TruthFacts = { labeled: TimeWindow } & Record<'all' | 'byVariant', TruthFigures>;

/** Facts of the whole window. */
export interface PageFacts extends HealthFacts {
  endpoint: string;
  /** Health in the window's last 7 days if the window ends now, as in `status`. */
  health: Health;
  recent: TimeWindow;
  /** The gravest replies first; absent: no words were read. */
  worst?: readonly ReplyToRead[] | undefined;
  changes: readonly Change[];
  points: ReturnType<typeof pointsOf>;
  /** Kind of the model's predictions, if set. */
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
  const { endpoint, window, recent, health, changes, predicts, truth, nowMs, worst, points } = page;
  const figures = figuresOf(page);
  const course = courseOf(page, figures, points);
  // The window that the state covers, and as much time before it.
  const latelyMs = Math.max(window.fromMs, 2 * recent.fromMs - recent.toMs);
  const lately = courseOf(page, figures, pointsOf({ fromMs: latelyMs, toMs: window.toMs }));
  const body = [
    drawing(`<h1>${escapeHtml(endpoint)}</h1>`),
    dim(`${windowText(window)}. Written ${time(nowMs)}.`),
    ...firstScreen(health, recent, (finding) => findingChart(course, lately, finding), worst),
    scorerSection(page, figures),
    sheet(
      'Objectives',
      'When each became missed, or was met again.',
      ['objective', 'became', 'since'],
      changes.map(({ objective, isMissed, since }) => [
        objective,
        drawing(isMissed ? MISSED : MET),
        time(since * 1000),
      ]),
    ),
    section('Captures by outcome', outcomesTable(figures.outcomes)),
    ...overTime(course, predicts),
    truth && truthSection(truth),
    grid('More replies to read', (worst ?? []).slice(MAX_CARDS).map(replyCard)),
  ];
  return htmlPage(`${endpoint}: ${health.state}`, pageHtml(body), STYLE);
}

function scorerSection({ objectives, active }: PageFacts, { rates }: Figures): Part {
  const severity = (scorer: string) => active.find(({ name }) => name === scorer)?.severity;
  const met = (rate: ObjectiveRate): string => {
    if (rate.missed) return `${MISSED}${rate.since === null ? '' : ` since ${time(rate.since)}`}:`;
    return rate.missed === false && isWithin(rate) ? `${MET}:` : '· not clearly met:';
  };
  const seen = rates.filter(({ n }) => n > 0).toSorted((a, b) => severestFirst(severity(a.scorer), severity(b.scorer)));
  const note = 'The share of replies that are good, as the judge says it. In brackets: 95% intervals.';
  const rows = seen.map((rate): Cell[] => {
    const { scorer, good, n, is, judge } = rate;
    const name = good !== null ? goodName(scorer) : is === undefined ? `${scorer} (mean)` : `${scorer} = ${is}`;
    const about = `${good === null ? '' : (severity(scorer) ?? '')}${representedText(rate)}`;
    const value = measured(good ?? judge, good === null && is === undefined ? number : percent);
    const own = objectives.filter(({ measure }) => scorerOf(measure, active) === scorer);
    const objective = own.map((one) => `${met(one)} ${isolated(objectiveText(one))}`).join('<br>');
    return [drawing(`${isolated(name)} <span class="soft">${about}</span>`), value, count(n), drawing(objective)];
  });
  return sheet('Quality', note, ['scorer', 'good', 'judged', 'objective'], rows);
}

/** The section on true answers: the figures of all labels and of each variant, and the calibration of probabilities. */
function truthSection({ all, byVariant, labeled }: TruthFacts): Part {
  const { positive, calibration = [] } = all.groups[0]?.classes ?? {};
  const found = calibration.map((one) => one.found);
  const curve = chart({
    title: 'Predicted and found',
    unit: `share that is ${positive}, 95% interval, by the predicted probability`,
    labels: calibration.map(({ predicted }) => percent(predicted)),
    curves: [
      { name: 'found', values: found.map(({ value }) => value), band: found },
      { name: 'as predicted', values: calibration.map(({ predicted }) => predicted) },
    ],
    isShare: true,
  });
  return (
    all.groups.length > 0 && [
      section(
        'True answers',
        dim(`Labels of the predictions of ${windowText(labeled)}.`),
        ...truthPage(all, undefined, true),
      ),
      byVariant.groups.length > 1 && section('True answers by variant', truthTable(byVariant, 'variant')),
      curve !== '' && section('Calibration', drawing(curve)),
    ]
  );
}
