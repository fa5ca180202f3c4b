/** Formats a calibration report for a terminal. */
import type { Estimate } from '../../core/statistics/share.ts';
import { bracketed } from '../../core/text/figure-text.ts';
import { excerpt, namedCounts, tableLines } from '../../core/text/terminal-text.ts';
import { countBy } from '../../core/values/counts.ts';
import type { Drift } from './drift.ts';
import type { CalibrationReport, ScorerReport } from './report.ts';
import type { LabeledVerdict } from './types.ts';

/** Disagreements shown here. The JSON contains all of them. */
const MAX_SHOWN = 20;
const MAX_TEXT_CHARS = 160;

const percent = (share: number): string => (share * 100).toFixed(1);

/** Formats a share and its 95% interval: `87.5% (78.2–93.2)`. */
const shareText = (share: Estimate | null): string => bracketed(share, percent, '%');

const TITLES: Record<CalibrationReport['source']['kind'], string> = {
  mlflow: 'The judge compared with people on the traces of',
  labels: 'The judge compared with the labels of',
  groundTruth: 'Whether answers were right (people), and whether scorers pass them (judge), on the traces of',
  anchors: 'The judge on the anchor set of',
};

/** Notes, each with the scorers that it applies to. */
const sharedNotes = (scorers: readonly ScorerReport[]): string[] => {
  const notes = scorers.flatMap(({ name, notes: own }) => own.map((note) => ({ name, note })));
  return [...Map.groupBy(notes, ({ note }) => note)].map(
    ([note, group]) => `${group.map(({ name }) => name).join(', ')}: ${note}`,
  );
};

const DRIFT_TEXTS: Record<Drift['verdict'], string> = {
  none: 'No verdict has changed. A change in production is not caused by the judge.',
  changed: 'Some verdicts have changed, but no more than by chance.',
  drifted: 'The judge has drifted: figures from before and after cannot be compared.',
};

function confusionLines({ confusion: { values, counts }, name }: ScorerReport): string[] {
  const rows = values.map((value, i) => [value, ...(counts[i] ?? []).map(String)]);
  return [name, ...tableLines(['people ↓  judge →', ...values], rows)];
}

function disagreementLines(pair: LabeledVerdict): string[] {
  const oneLine = (text: string): string => excerpt(text, MAX_TEXT_CHARS);
  const because = (rationale: string | undefined): string => (rationale === undefined ? '' : `: ${oneLine(rationale)}`);
  return [
    `${pair.scorer}  ${pair.id}`,
    ...(pair.request === '' ? [] : [`  request  ${oneLine(pair.request)}`]),
    `  reply    ${oneLine(pair.reply)}`,
    `  people   ${pair.label}${because(pair.labelRationale)}`,
    `  judge    ${pair.verdict}${because(pair.verdictRationale)}`,
  ];
}

function driftLines(drift: Drift): string[] {
  const left = drift.onlyInBaseline + drift.onlyNow;
  const [before, now] = [drift.agreementBefore, drift.agreementNow].map(shareText);
  return [
    `Since the baseline of ${drift.baseline.generatedAt} (${Object.keys(drift.baseline.judges).join(', ')})`,
    `  ${DRIFT_TEXTS[drift.verdict]}`,
    `  ${drift.changed.length} of ${drift.items} verdicts changed. Agreement with the labels was ${before} and is ${now} (McNemar’s exact test: p = ${drift.pValue.toFixed(3)}).`,
    ...(left === 0 ? [] : [`  not compared: ${drift.onlyInBaseline} only in the baseline, ${drift.onlyNow} only now`]),
    ...drift.changed.map(
      ({ scorer, id, before, now, label }) => `  ${scorer}  ${id}: ${before} → ${now} (people: ${label})`,
    ),
  ];
}

/** Returns TPR and TNR with the good value as the positive one. */
const ofGood = ({ good, positive, tpr, tnr }: ScorerReport): (Estimate | null)[] =>
  good === undefined || good === positive ? [tpr, tnr] : [tnr, tpr];

export function terminalReport(report: CalibrationReport): string {
  const { scorers, pairs, unanswered, spend, drift, overall, source } = report;
  const head = ['scorer', 'labels', 'agreement', "Cohen's κ", 'weighted κ', 'TPR', 'TNR'];
  const rows = scorers.map((scorer) => [
    scorer.name,
    String(scorer.n),
    shareText(scorer.agreement),
    ...[scorer.kappa, scorer.weightedKappa].map((kappa) => bracketed(kappa, (value) => value.toFixed(2))),
    ...ofGood(scorer).map(shareText),
  ]);
  const all = ['all', String(overall.n), shareText(overall.agreement), '', '', '', ''];
  const disagreements = pairs.filter(({ agrees }) => !agrees);
  const found = disagreements.length;
  const title =
    found === 0 ? 'No disagreements.' : `Disagreements: ${found}${found > MAX_SHOWN ? `, the first ${MAX_SHOWN}` : ''}`;
  const leftOut = namedCounts(countBy(unanswered, ({ reason }) => reason));
  const blocks: string[][] = [
    [
      `${TITLES[source.kind]} ${source.where}`,
      ...Object.entries(report.judges).map(([judge, count]) => `  ${judge}: ${count} verdicts`),
    ],
    [...tableLines(head, [...rows, all]), '95% intervals are in parentheses.'],
    ...scorers.filter(({ n }) => n > 0).map(confusionLines),
    sharedNotes(scorers),
    leftOut === '' ? [] : [`Left out: ${leftOut}`],
    pairs.length === 0 ? [] : [title],
    ...disagreements.slice(0, MAX_SHOWN).map(disagreementLines),
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
