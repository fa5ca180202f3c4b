/**
 * Renders a calibration report as one self-contained HTML file without scripts, fonts or requests. Captured texts are escaped,
 * and the page's content security policy forbids loading or running anything.
 */
import { loadCharts } from '../shared/charts.ts';
import { type Column, escapeHtml, htmlPage, table, tiles } from '../shared/html-page.ts';
import { agreementChart, ratesChart } from './charts.ts';
import type { CalibrationReport, Drift, LabeledVerdict, ScorerReport } from './types.ts';
import { driftTexts, figureText, leftOutText, sharedNotes, shareText, titleOf } from './words.ts';

const STYLE = `
small { display: block; color: var(--soft); font-size: 12px; }
.matrices { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 8px 24px; }
.matrices th, .matrices td:not(.n) { text-align: center; min-width: 0; overflow-wrap: break-word; }
.case { border: 1px solid var(--line); border-radius: 8px; margin: 10px 0; padding: 10px 14px; }
.case dl { display: grid; grid-template-columns: 74px 1fr; gap: 4px 12px; margin: 6px 0 0; } .case dt { color: var(--soft); }
.case dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 14em; overflow: auto; }
@media print { .case dd { max-height: none; } }
`;

function tilesOf({ overall, pairs, scorers, spend }: CalibrationReport): string {
  const disagreements = pairs.filter(({ agrees }) => !agrees).length;
  const [agreement, interval = '–'] = shareText(overall.agreement).split(' ');
  return tiles([
    [`labels with a verdict, ${scorers.length} ${scorers.length === 1 ? 'scorer' : 'scorers'}`, String(overall.n)],
    [`agreement, 95% interval ${interval}`, agreement],
    [disagreements === 1 ? 'disagreement' : 'disagreements', String(disagreements)],
    [
      `paid for ${spend?.calls} calls to the judge`,
      spend && (spend.usd === null ? 'unknown' : `$${spend.usd.toFixed(4)}`),
    ],
  ]);
}

/** Puts the interval of a figure below it. */
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

function numbersOf({ name, numbers }: ScorerReport): string {
  if (numbers === null) return '';
  const { meanLabel, meanVerdict, meanAbsoluteError, correlation } = numbers;
  return `<p>${escapeHtml(name)}: mean of people ${meanLabel.toFixed(2)}, of the judge ${meanVerdict.toFixed(2)}; mean distance ${meanAbsoluteError.toFixed(2)}; correlation ${correlation?.toFixed(2) ?? 'not defined'}.</p>`;
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
  const { title, conclusion, figures } = driftTexts(drift);
  const column = (name: string, field: keyof Drift['changed'][number]) => ({
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
  return `<h2>${escapeHtml(title)}</h2>
<p class="${drift.verdict === 'drifted' ? 'warn' : 'good'}">${conclusion}</p>
<p>${escapeHtml(figures)}</p>
${drift.changed.length === 0 ? '' : table(columns, drift.changed)}`;
}

/** Asynchronous, because it loads the chart library on demand. */
export async function calibrationPage(report: CalibrationReport): Promise<string> {
  await loadCharts();
  const { scorers } = report;
  const drawn = scorers.filter(({ n }) => n > 0);
  const rated = drawn.filter(({ tpr, tnr }) => tpr !== null || tnr !== null);
  const notes = sharedNotes(scorers).map((note) => `<li>${escapeHtml(note)}.</li>`);
  const leftOut = leftOutText(report);
  const positives = [...new Set(rated.map(({ positive }) => positive))].join(', ');
  const body = `<h1>Judge calibration</h1>
<p class="soft">${escapeHtml(titleOf(report))}, ${escapeHtml(report.generatedAt)}</p>
${Object.entries(report.judges)
  .map(([judge, count]) => `<p class="soft"><code>${escapeHtml(judge)}</code>: ${count} verdicts</p>`)
  .join('\n')}
${tilesOf(report)}
${report.drift === undefined ? '' : driftSection(report.drift)}
<h2>Agreement</h2>
<p class="soft">Share of equal answers, and Cohen’s κ, the agreement beyond chance (1 is complete, 0 is chance). Bars are 95% intervals.</p>
${drawn.length === 0 ? '<p>No label has a verdict.</p>' : agreementChart(drawn)}
${
  rated.length === 0
    ? ''
    : `<h2>Where the judge errs</h2>
<p class="soft">TPR: the share of the positive labels (${escapeHtml(positives)}) on which the judge agrees. TNR: the share of the other labels on which the judge agrees. A low TNR lets bad replies pass.</p>
${ratesChart(rated)}`
}
<h2>Figures</h2>
${figures(scorers)}
${scorers.map(numbersOf).join('')}
${notes.length === 0 ? '' : `<ul class="soft">${notes.join('')}</ul>`}
${leftOut === undefined ? '' : `<p class="soft">${escapeHtml(leftOut)}.</p>`}
<h2>Confusion</h2>
<div class="matrices">${drawn.map(matrix).join('')}</div>
<h2>Disagreements</h2>
${disagreements(report)}
`;
  return htmlPage('Judge calibration', body, { style: STYLE });
}
