/**
 * A calibration report as one HTML file that needs nothing else: no script, no font, no request. Captured texts are
 * written as text, and the page's own policy forbids whatever would load or run.
 */
import { agreementChart, ratesChart } from './charts.ts';
import { sharedNotes } from './report.ts';
import { figureText, shareText } from './table.ts';
import type { CalibrationReport, Drift, Pair, ScorerReport } from './types.ts';

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escapeHtml = (text: unknown): string =>
  String(text).replace(/[&<>"']/g, (character) => ENTITIES[character] as string);

const STYLE = `
:root { color-scheme: light; --ink: #1f2328; --quiet: #57606a; --line: #d8dee4; --good: #1a7f37; --bad: #b42318; --wash: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 940px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 8px; } h3 { font-size: 15px; margin: 24px 0 6px; }
p { margin: 6px 0; } .quiet { color: var(--quiet); } code { font: 13px ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0; }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; } .tile b { display: block; font-size: 22px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 12px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } thead th { color: var(--quiet); font-weight: 600; }
.figures { width: 100%; } .figures td { vertical-align: top; } small { display: block; color: var(--quiet); font-size: 12px; } ul { margin: 10px 0; padding-left: 20px; }
.matrices { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 8px 24px; }
.matrix { table-layout: fixed; } .matrix td, .matrix th { text-align: center; border: 1px solid #fff; padding: 6px; font-size: 12px; white-space: normal; width: 82px; overflow-wrap: break-word; }
.matrix td { font-size: 14px; }
.matrix th { font-weight: 500; color: var(--quiet); } figure { margin: 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
.case { border: 1px solid var(--line); border-radius: 8px; margin: 10px 0; padding: 10px 14px; }
.case dl { display: grid; grid-template-columns: 74px 1fr; gap: 4px 12px; margin: 6px 0 0; } .case dt { color: var(--quiet); }
.case dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; } .cut { display: block; max-height: 14em; overflow: auto; }
.value { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }
.notice { border-left: 4px solid var(--bad); background: var(--wash); padding: 8px 14px; } .notice.ok { border-color: var(--good); }
@media (max-width: 600px) { .case dl { grid-template-columns: 1fr; } main { padding: 20px 14px 48px; } }
@media print { .cut { max-height: none; } }
`;

/** `2026-11-20 09:00 UTC` */
const when = (instant: string): string => `${instant.slice(0, 10)} ${instant.slice(11, 16)} UTC`;

const TITLES: Record<CalibrationReport['source']['kind'], string> = {
  mlflow: 'The judge beside people, on the traces of',
  labels: 'The judge beside the labels of',
  anchors: 'The judge on the anchor set',
};

function tiles({ overall, pairs, scorers, spend }: CalibrationReport): string {
  const disagreements = pairs.filter(({ agrees }) => !agrees).length;
  const list: [string, string][] = [
    [String(overall.n), `labels with a verdict, ${scorers.length} ${scorers.length === 1 ? 'scorer' : 'scorers'}`],
    [
      overall.agreement === null ? '–' : `${(overall.agreement.value * 100).toFixed(1)}%`,
      `agreement, 95% interval ${shareText(overall.agreement).split(' ')[1] ?? '–'}`,
    ],
    [String(disagreements), disagreements === 1 ? 'disagreement' : 'disagreements'],
  ];
  if (spend !== undefined) {
    list.push([
      spend.usd === null ? 'unknown' : `$${spend.usd.toFixed(4)}`,
      `paid for ${spend.calls} calls to the judge`,
    ]);
  }
  return `<div class="tiles">${list.map(([figure, words]) => `<div class="tile"><b>${escapeHtml(figure)}</b>${escapeHtml(words)}</div>`).join('')}</div>`;
}

/** A figure with its interval below it. */
const withInterval = (text: string): string => {
  const [value, interval] = text.split(' (');
  return `${escapeHtml(value)}${interval === undefined ? '' : `<small>${escapeHtml(interval.slice(0, -1))}</small>`}`;
};

function figures(scorers: readonly ScorerReport[]): string {
  const weighted = scorers.some(({ weightedKappa }) => weightedKappa !== null);
  const head = ['Scorer', 'Labels', 'Agreement', 'Cohen’s κ', ...(weighted ? ['Weighted κ'] : []), 'TPR', 'TNR', 'F1'];
  const rows = scorers.map((scorer) => {
    const f1 = scorer.classes[0]?.f1;
    return [
      `${escapeHtml(scorer.name)}${scorer.version === undefined ? '' : `<small>version ${escapeHtml(scorer.version)}</small>`}`,
      String(scorer.n),
      withInterval(shareText(scorer.agreement)),
      withInterval(figureText(scorer.kappa)),
      ...(weighted ? [withInterval(figureText(scorer.weightedKappa))] : []),
      withInterval(shareText(scorer.tpr)),
      withInterval(shareText(scorer.tnr)),
      f1 === undefined || f1 === null ? '–' : f1.toFixed(2),
    ];
  });
  const cells = (row: readonly string[], tag: 'td' | 'th') => row.map((cell) => `<${tag}>${cell}</${tag}>`).join('');
  return `<div class="scroll"><table class="figures"><thead><tr>${cells(head, 'th')}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('')}</tbody></table></div>`;
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
  return `<div><h3>${escapeHtml(name)}</h3><table class="matrix"><thead><tr><th>people ↓ judge →</th>${values.map((value) => `<th>${escapeHtml(value)}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
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

function caseOf(pair: Pair): string {
  const entry = (term: string, text: string, kind = '') => `<dt>${term}</dt><dd${kind}>${text}</dd>`;
  const said = (value: unknown, why: string | undefined) =>
    `<span class="value">${escapeHtml(value)}</span>${why === undefined ? '' : ` – ${escapeHtml(why)}`}`;
  return `<div class="case"><code class="quiet">${escapeHtml(pair.id)}</code><dl>${[
    pair.request === '' ? '' : entry('Request', `<span class="cut">${escapeHtml(pair.request)}</span>`),
    entry('Reply', `<span class="cut">${escapeHtml(pair.reply)}</span>`),
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
        `<h3>${escapeHtml(name)} <span class="quiet">${own.length}</span></h3>${own.map(caseOf).join('')}`,
    )
    .join('');
}

function driftSection(drift: Drift): string {
  const words = {
    none: 'No verdict has changed. A change of the figures in production is not the judge’s.',
    changed: 'Some verdicts have changed, not more than by chance.',
    drifted: 'The judge has drifted: figures before and after cannot be compared.',
  }[drift.verdict];
  const rows = drift.changed
    .map(
      ({ scorer, id, label, before, now }) =>
        `<tr>${[scorer, id, label, before, now].map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}</tr>`,
    )
    .join('');
  return `<h2>Since the baseline of ${escapeHtml(when(drift.baseline.generatedAt))}</h2>
<p class="notice${drift.verdict === 'drifted' ? '' : ' ok'}">${words}</p>
<p>${drift.changed.length} of ${drift.items} verdicts changed. Agreement with the labels was ${escapeHtml(shareText(drift.agreementBefore))} and is ${escapeHtml(shareText(drift.agreementNow))} (McNemar’s exact test: p = ${drift.pValue.toFixed(3)}). The baseline was judged by ${escapeHtml(Object.keys(drift.baseline.judges).join(', '))}.</p>
${rows === '' ? '' : `<div class="scroll"><table><thead><tr><th>Scorer</th><th>Item</th><th>Label</th><th>Before</th><th>Now</th></tr></thead><tbody>${rows}</tbody></table></div>`}`;
}

export function calibrationPage(report: CalibrationReport): string {
  const { scorers, source, unanswered } = report;
  const drawn = scorers.filter(({ n }) => n > 0);
  const rated = drawn.filter(({ tpr, tnr }) => tpr !== null || tnr !== null);
  const reasons = Map.groupBy(unanswered, ({ reason }) => reason);
  const notes = sharedNotes(scorers).map(
    ({ note, scorers: names }) => `<li>${escapeHtml(names.join(', '))}: ${escapeHtml(note)}.</li>`,
  );
  const positives = [...new Set(rated.map(({ positive }) => positive))].join(', ');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>Judge calibration</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Judge calibration</h1>
<p class="quiet">${escapeHtml(TITLES[source.kind])} <code>${escapeHtml(source.where)}</code>, ${escapeHtml(when(report.generatedAt))}</p>
${Object.entries(report.judges)
  .map(([judge, count]) => `<p class="quiet"><code>${escapeHtml(judge)}</code>: ${count} verdicts</p>`)
  .join('\n')}
${tiles(report)}
${report.drift === undefined ? '' : driftSection(report.drift)}
<h2>Agreement</h2>
<p class="quiet">Share of equal answers, and Cohen’s κ: agreement beyond what chance gives (1 is complete, 0 is chance). Bars are 95% intervals.</p>
${drawn.length === 0 ? '<p>No label has a verdict beside it.</p>' : `<figure role="img" aria-label="Agreement and Cohen’s kappa by scorer; the figures are in the table below">${agreementChart(drawn)}</figure>`}
${
  rated.length === 0
    ? ''
    : `<h2>Where the judge errs</h2>
<p class="quiet">TPR: of what people called positive (${escapeHtml(positives)}), the share that the judge did. TNR: of what they called otherwise, the share that the judge did. A low TNR lets bad replies pass.</p>
<figure role="img" aria-label="True positive and true negative rate by scorer; the figures are in the table below">${ratesChart(rated)}</figure>`
}
<h2>Figures</h2>
${figures(scorers)}
${numbersOf(scorers)}
${notes.length === 0 ? '' : `<ul class="quiet">${notes.join('')}</ul>`}
${unanswered.length === 0 ? '' : `<p class="quiet">Left out: ${[...reasons].map(([reason, list]) => `${escapeHtml(reason)} ${list.length}`).join(', ')}.</p>`}
<h2>Confusion</h2>
<div class="matrices">${drawn.map(matrix).join('')}</div>
<h2>Disagreements</h2>
${disagreements(report)}
</main>
</body>
</html>
`;
}
