/** A calibration report for a terminal. */

import type { Estimate } from '../shared/share-interval.ts';
import { sharedNotes } from './report.ts';
import type { CalibrationReport, Drift, LabeledVerdict, ScorerReport } from './types.ts';

/** Disagreements shown; the JSON and the page have all of them. */
const MAX_SHOWN = 20;
const MAX_TEXT_CHARS = 160;

const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;

/** `87.5% (78.2–93.2)`: the figure and its 95% interval. */
export const shareText = (estimate: Estimate | null): string =>
  estimate === null
    ? '–'
    : `${percent(estimate.value)} (${(estimate.low * 100).toFixed(1)}–${(estimate.high * 100).toFixed(1)})`;
export const figureText = (estimate: Estimate | null): string =>
  estimate === null ? '–' : `${estimate.value.toFixed(2)} (${estimate.low.toFixed(2)}–${estimate.high.toFixed(2)})`;

function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

function confusionLines({ confusion, name }: ScorerReport): string[] {
  if (confusion === null) return [];
  const { values, counts } = confusion;
  const head = ['people ↓  judge →', ...values];
  return [`${name}`, ...columns([head, ...values.map((value, i) => [value, ...(counts[i] ?? []).map(String)])])];
}

const oneLine = (text: string): string => {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length > MAX_TEXT_CHARS ? `${flat.slice(0, MAX_TEXT_CHARS)}…` : flat;
};

function disagreementLines(pair: LabeledVerdict): string[] {
  return [
    `${pair.scorer}  ${pair.id}`,
    ...(pair.request === '' ? [] : [`  request  ${oneLine(pair.request)}`]),
    `  reply    ${oneLine(pair.reply)}`,
    `  people   ${pair.label}${pair.labelRationale === undefined ? '' : `: ${oneLine(pair.labelRationale)}`}`,
    `  judge    ${pair.verdict}${pair.verdictRationale === undefined ? '' : `: ${oneLine(pair.verdictRationale)}`}`,
  ];
}

const DRIFT_WORDS: Record<Drift['verdict'], string> = {
  none: 'no verdict has changed: a change in production is not the judge’s',
  changed: 'some verdicts have changed, not more than by chance',
  drifted: 'the judge has drifted: figures before and after cannot be compared',
};

function driftLines(drift: Drift): string[] {
  return [
    `Since the baseline of ${drift.baseline.generatedAt} (${Object.keys(drift.baseline.judges).join(', ')})`,
    `  ${DRIFT_WORDS[drift.verdict]}`,
    `  ${drift.changed.length} of ${drift.items} verdicts changed; agreement was ${shareText(drift.agreementBefore)}, is ${shareText(drift.agreementNow)}; p = ${drift.pValue.toFixed(3)}`,
    ...(drift.onlyInBaseline + drift.onlyNow === 0
      ? []
      : [`  not compared: ${drift.onlyInBaseline} only in the baseline, ${drift.onlyNow} only now`]),
    ...drift.changed.map(
      ({ scorer, id, before, now, label }) => `  ${scorer}  ${id}: ${before} → ${now} (people: ${label})`,
    ),
  ];
}

const TITLES: Record<CalibrationReport['source']['kind'], string> = {
  mlflow: 'Judge and people on the traces of',
  labels: 'Judge and labels of',
  anchors: 'Judge and anchor set',
};

export function terminalReport(report: CalibrationReport): string {
  const { scorers, pairs, unanswered, source, spend, drift } = report;
  const head = ['scorer', 'labels', 'agreement', "Cohen's κ", 'weighted κ', 'TPR', 'TNR'];
  const rows = scorers.map((scorer) => [
    scorer.name,
    String(scorer.n),
    shareText(scorer.agreement),
    figureText(scorer.kappa),
    figureText(scorer.weightedKappa),
    shareText(scorer.tpr),
    shareText(scorer.tnr),
  ]);
  const disagreements = pairs.filter(({ agrees }) => !agrees);
  const shown = disagreements.slice(0, MAX_SHOWN);
  const reasons = new Map<string, number>();
  for (const { reason } of unanswered) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  const blocks: string[][] = [
    [
      `${TITLES[source.kind]} ${source.where}`,
      ...Object.entries(report.judges).map(([judge, count]) => `  ${judge}: ${count} verdicts`),
    ],
    [
      ...columns([
        head,
        ...rows,
        ['all', String(report.overall.n), shareText(report.overall.agreement), '', '', '', ''],
      ]),
      'In brackets: 95% intervals.',
    ],
    ...scorers.filter(({ n }) => n > 0).map(confusionLines),
    sharedNotes(scorers).map(({ note, scorers: names }) => `${names.join(', ')}: ${note}`),
    unanswered.length === 0
      ? []
      : [`Left out: ${[...reasons].map(([reason, count]) => `${reason} ${count}`).join(', ')}`],
    disagreements.length === 0
      ? pairs.length === 0
        ? []
        : ['No disagreement.']
      : [
          `Disagreements: ${disagreements.length}${shown.length < disagreements.length ? `, the first ${shown.length}` : ''}`,
        ],
    ...shown.map(disagreementLines),
    drift === undefined ? [] : driftLines(drift),
    spend === undefined
      ? []
      : [
          `calls: ${spend.calls}`,
          `input tokens: ${spend.inputTokens}`,
          `output tokens: ${spend.outputTokens}`,
          `cost in dollars: ${spend.usd === null ? 'unknown' : spend.usd.toFixed(4)}`,
        ],
  ];
  return `${blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join('\n'))
    .join('\n\n')}\n`;
}
