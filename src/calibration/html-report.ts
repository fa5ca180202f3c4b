/**
 * A calibration report as one HTML file that needs nothing else: no script, no font, no request. Captured texts are
 * written as text, and the page's own policy forbids whatever would load or run.
 */
import { loadCharts } from '../shared/charts.ts';
import { type Column, escapeHtml, htmlPage, table, tiles } from '../shared/html-page.ts';
import { agreementChart, ratesChart } from './charts.ts';
import { sharedNotes } from './report.ts';
import { figureText, shareText } from './terminal-report.ts';
import type { CalibrationReport, Drift, LabeledVerdict, ScorerReport } from './types.ts';

const STYLE = `
small { display: block; color: var(--soft); font-size: 12px; }
.matrices { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 8px 24px; }
.matrices th, .matrices td:not(.n) { text-align: center; min-width: 0; overflow-wrap: break-word; }
.case { border: 1px solid var(--line); border-radius: 8px; margin: 10px 0; padding: 10px 14px; }
.case dl { display: grid; grid-template-columns: 74px 1fr; gap: 4px 12px; margin: 6px 0 0; } .case dt { color: var(--soft); }
.case dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 14em; overflow: auto; }
@media print { .case dd { max-height: none; } }
`;

/** `2026-11-20 09:00 UTC` */
const when = (instant: string): string => `${instant.slice(0, 10)} ${instant.slice(11, 16)} UTC`;

const TITLES: Record<CalibrationReport['source']['kind'], string> = {
  mlflow: 'The judge beside people, on the traces of',
  labels: 'The judge beside the labels of',
  anchors: 'The judge on the anchor set',
};

function tilesOf({ overall, pairs, scorers, spend }: CalibrationReport): string {
  const disagreements = pairs.filter(({ agrees }) => !agrees).length;
  return tiles([
    [`labels with a verdict, ${scorers.length} ${scorers.length === 1 ? 'scorer' : 'scorers'}`, String(overall.n)],
    [
      `agreement, 95% interval ${shareText(overall.agreement).split(' ')[1] ?? '–'}`,
      shareText(overall.agreement).split(' ')[0] ?? '–',
    ],
    [disagreements === 1 ? 'disagreement' : 'disagreements', String(disagreements)],
    ...(spend === undefined
      ? []
      : [
          [
            `paid for ${spend.calls} calls to the judge`,
            spend.usd === null ? 'unknown' : `$${spend.usd.toFixed(4)}`,
          ] as [string, string],
        ]),
  ]);
}

/** A figure with its interval below it. */
const withInterval = (text: string): string => {
  const [value = '', interval] = text.split(' (');
  return `${escapeHtml(value)}${interval === undefined ? '' : `<small>${escapeHtml(interval.slice(0, -1))}</small>`}`;
};

function figures(scorers: readonly ScorerReport[]): string {
  const column = (name: string, text: (scorer: ScorerReport) => string): Column<ScorerReport> => ({
    name,
    numeric: true,
    cell: (scorer) => withInterval(text(scorer)),
  });
  const columns: Column<ScorerReport>[] = [
    {
      name: 'Scorer',
      cell: ({ name, version }) =>
        `${escapeHtml(name)}${version === undefined ? '' : `<small>version ${escapeHtml(version)}</small>`}`,
    },
    column('Labels', ({ n }) => String(n)),
    column('Agreement', ({ agreement }) => shareText(agreement)),
    column('Cohen’s κ', ({ kappa }) => figureText(kappa)),
    column('Weighted κ', ({ weightedKappa }) => figureText(weightedKappa)),
    column('TPR', ({ tpr }) => shareText(tpr)),
    column('TNR', ({ tnr }) => shareText(tnr)),
    column('F1', ({ classes }) => classes[0]?.f1?.toFixed(2) ?? '–'),
  ];
  const weighted = scorers.some(({ weightedKappa }) => weightedKappa !== null);
  return table(weighted ? columns : columns.filter(({ name }) => name !== 'Weighted κ'), scorers);
}

function matrix({ name, confusion }: ScorerReport): string {
  if (confusion === null) return '';
  const { values, counts } = confusion;
  const most = Math.max(1, ...counts.flat());
  const cell = (count: number, right: boolean): string => {
    const strength = count === 0 ? 0 : 0.12 + (0.5 * count) / most;
    return `<td style="background: rgba(${right ? '26, 127, 55' : '180, 35, 24'}, ${strength.toFixed(2)})">${count}</td>`;
  };
  const rows = values.map(
    (value, i) =>
      `<tr><th>${escapeHtml(value)}</th>${(counts[i] ?? []).map((count, j) => cell(count, i === j)).join('')}</tr>`,
  );
  return `<div><h3>${escapeHtml(name)}</h3><table><thead><tr><th>people ↓ judge →</th>${values.map((value) => `<th>${escapeHtml(value)}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
}

function numbersOf(scorers: readonly ScorerReport[]): string {
  const rows = scorers.flatMap(({ name, numbers }) =>
    numbers === null
      ? []
      : [
          `<p>${escapeHtml(name)}: mean of people ${numbers.meanLabel.toFixed(2)}, of the judge ${numbers.meanVerdict.toFixed(2)}; mean distance ${numbers.meanAbsoluteError.toFixed(2)}; correlation ${numbers.correlation === null ? 'not defined' : numbers.correlation.toFixed(2)}.</p>`,
        ],
  );
  return rows.join('');
}

function caseOf(pair: LabeledVerdict): string {
  const entry = (term: string, text: string) => `<dt>${term}</dt><dd>${text}</dd>`;
  const said = (value: unknown, why: string | undefined) =>
    `<b>${escapeHtml(String(value))}</b>${why === undefined ? '' : ` – ${escapeHtml(why)}`}`;
  return `<div class="case"><code class="soft">${escapeHtml(pair.id)}</code><dl>${[
    pair.request === '' ? '' : entry('Request', escapeHtml(pair.request)),
    entry('Reply', escapeHtml(pair.reply)),
    entry('People', said(pair.label, pair.labelRationale)),
    entry('Judge', said(pair.verdict, pair.verdictRationale)),
  ].join('')}</dl></div>`;
}

function disagreements({ pairs, scorers }: CalibrationReport): string {
  const wrong = pairs.filter(({ agrees }) => !agrees);
  if (wrong.length === 0) return '<p>None.</p>';
  return scorers
    .map(({ name }) => ({ name, own: wrong.filter(({ scorer }) => scorer === name) }))
    .filter(({ own }) => own.length > 0)
    .map(
      ({ name, own }) =>
        `<h3>${escapeHtml(name)} <span class="soft">${own.length}</span></h3>${own.map(caseOf).join('')}`,
    )
    .join('');
}

function driftSection(drift: Drift): string {
  const words = {
    none: 'No verdict has changed. A change of the figures in production is not the judge’s.',
    changed: 'Some verdicts have changed, not more than by chance.',
    drifted: 'The judge has drifted: figures before and after cannot be compared.',
  }[drift.verdict];
  const column = (name: string, field: 'scorer' | 'id' | 'label' | 'before' | 'now') => ({
    name,
    cell: (changed: Drift['changed'][number]) => escapeHtml(String(changed[field])),
  });
  const columns = [
    column('Scorer', 'scorer'),
    column('Item', 'id'),
    column('Label', 'label'),
    column('Before', 'before'),
    column('Now', 'now'),
  ];
  return `<h2>Since the baseline of ${escapeHtml(when(drift.baseline.generatedAt))}</h2>
<p class="${drift.verdict === 'drifted' ? 'warn' : 'good'}">${words}</p>
<p>${drift.changed.length} of ${drift.items} verdicts changed. Agreement with the labels was ${escapeHtml(shareText(drift.agreementBefore))} and is ${escapeHtml(shareText(drift.agreementNow))} (McNemar’s exact test: p = ${drift.pValue.toFixed(3)}). The baseline was judged by ${escapeHtml(Object.keys(drift.baseline.judges).join(', '))}.</p>
${drift.changed.length === 0 ? '' : table(columns, drift.changed)}`;
}

/** To be awaited: the library of charts is loaded for it. */
export async function calibrationPage(report: CalibrationReport): Promise<string> {
  await loadCharts();
  const { scorers, source, unanswered } = report;
  const drawn = scorers.filter(({ n }) => n > 0);
  const rated = drawn.filter(({ tpr, tnr }) => tpr !== null || tnr !== null);
  const reasons = Map.groupBy(unanswered, ({ reason }) => reason);
  const notes = sharedNotes(scorers).map(
    ({ note, scorers: names }) => `<li>${escapeHtml(names.join(', '))}: ${escapeHtml(note)}.</li>`,
  );
  const positives = [...new Set(rated.map(({ positive }) => positive))].join(', ');
  const body = `<h1>Judge calibration</h1>
<p class="soft">${escapeHtml(TITLES[source.kind])} <code>${escapeHtml(source.where)}</code>, ${escapeHtml(when(report.generatedAt))}</p>
${Object.entries(report.judges)
  .map(([judge, count]) => `<p class="soft"><code>${escapeHtml(judge)}</code>: ${count} verdicts</p>`)
  .join('\n')}
${tilesOf(report)}
${report.drift === undefined ? '' : driftSection(report.drift)}
<h2>Agreement</h2>
<p class="soft">Share of equal answers, and Cohen’s κ: agreement beyond what chance gives (1 is complete, 0 is chance). Bars are 95% intervals.</p>
${drawn.length === 0 ? '<p>No label has a verdict beside it.</p>' : agreementChart(drawn)}
${
  rated.length === 0
    ? ''
    : `<h2>Where the judge errs</h2>
<p class="soft">TPR: of what people called positive (${escapeHtml(positives)}), the share that the judge did. TNR: of what they called otherwise, the share that the judge did. A low TNR lets bad replies pass.</p>
${ratesChart(rated)}`
}
<h2>Figures</h2>
${figures(scorers)}
${numbersOf(scorers)}
${notes.length === 0 ? '' : `<ul class="soft">${notes.join('')}</ul>`}
${unanswered.length === 0 ? '' : `<p class="soft">Left out: ${[...reasons].map(([reason, list]) => `${escapeHtml(reason)} ${list.length}`).join(', ')}.</p>`}
<h2>Confusion</h2>
<div class="matrices">${drawn.map(matrix).join('')}</div>
<h2>Disagreements</h2>
${disagreements(report)}
`;
  return htmlPage('Judge calibration', body, STYLE);
}
