/** Formats a calibration report for a terminal. */
import type { CalibrationReport, Drift, LabeledVerdict, ScorerReport, WayReport } from './types.ts';
import { driftTexts, figureText, leftOutText, sharedNotes, shareText, titleOf } from './words.ts';

/** Disagreements shown here. The JSON and the page contain all of them. */
const MAX_SHOWN = 20;
const MAX_TEXT_CHARS = 160;

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
  return [name, ...columns([head, ...values.map((value, i) => [value, ...(counts[i] ?? []).map(String)])])];
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

function driftLines(drift: Drift): string[] {
  const { title, conclusion, figures } = driftTexts(drift);
  const left = drift.onlyInBaseline + drift.onlyNow;
  return [
    title,
    `  ${conclusion}`,
    `  ${figures}`,
    ...(left === 0 ? [] : [`  not compared: ${drift.onlyInBaseline} only in the baseline, ${drift.onlyNow} only now`]),
    ...drift.changed.map(
      ({ scorer, id, before, now, label }) => `  ${scorer}  ${id}: ${before} → ${now} (people: ${label})`,
    ),
  ];
}

function disagreementsTitle(all: number, pairs: number): string[] {
  if (all === 0) return pairs === 0 ? [] : ['No disagreements.'];
  return [`Disagreements: ${all}${all > MAX_SHOWN ? `, the first ${MAX_SHOWN}` : ''}`];
}

function wayLines(ways: readonly WayReport[]): string[] {
  const rows = ways.map(({ name, n, agreement, usdPer1000 }) => [
    name,
    String(n),
    shareText(agreement),
    usdPer1000 === null ? 'unknown' : usdPer1000.toFixed(2),
  ]);
  return [
    'The ways of judging',
    ...columns([['settings', 'labels', 'agreement', 'dollars per 1,000 captures'], ...rows]),
  ];
}

export function terminalReport(report: CalibrationReport): string {
  const { scorers, pairs, spend, drift, overall, ways } = report;
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
  const all = ['all', String(overall.n), shareText(overall.agreement), '', '', '', ''];
  const disagreements = pairs.filter(({ agrees }) => !agrees);
  const blocks: string[][] = [
    [titleOf(report), ...Object.entries(report.judges).map(([judge, count]) => `  ${judge}: ${count} verdicts`)],
    [...columns([head, ...rows, all]), '95% intervals are in parentheses.'],
    ...scorers.filter(({ n }) => n > 0).map(confusionLines),
    sharedNotes(scorers),
    [leftOutText(report) ?? ''].filter(Boolean),
    disagreementsTitle(disagreements.length, pairs.length),
    ...disagreements.slice(0, MAX_SHOWN).map(disagreementLines),
    ways === undefined ? [] : wayLines(ways),
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
  const texts = blocks.filter((block) => block.length > 0).map((block) => block.join('\n'));
  return `${texts.join('\n\n')}\n`;
}
