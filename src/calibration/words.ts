/** Words and numbers that the terminal report and the HTML report share. */
import type { Estimate } from '../shared/statistics/share.ts';
import { countBy } from './report.ts';
import type { CalibrationReport, Drift, ScorerReport } from './types.ts';

const percent = (share: number): string => (share * 100).toFixed(1);

/** Formats a share and its 95% interval: `87.5% (78.2–93.2)`. */
export const shareText = (estimate: Estimate | null): string =>
  estimate === null ? '–' : `${percent(estimate.value)}% (${percent(estimate.low)}–${percent(estimate.high)})`;

/** Formats a figure and its 95% interval: `0.81 (0.70–0.92)`. */
export const figureText = (estimate: Estimate | null): string =>
  estimate === null ? '–' : `${estimate.value.toFixed(2)} (${estimate.low.toFixed(2)}–${estimate.high.toFixed(2)})`;

const TITLES: Record<CalibrationReport['source']['kind'], string> = {
  mlflow: 'The judge compared with people on the traces of',
  labels: 'The judge compared with the labels of',
  groundTruth: 'Whether answers were right (people), and whether scorers pass them (judge), on the traces of',
  anchors: 'The judge on the anchor set of',
};

export const titleOf = ({ source }: CalibrationReport): string => `${TITLES[source.kind]} ${source.where}`;

/** Notes, each with the scorers that it applies to. */
export const sharedNotes = (scorers: readonly ScorerReport[]): string[] => {
  const notes = scorers.flatMap(({ name, notes: own }) => own.map((note) => ({ name, note })));
  return [...Map.groupBy(notes, ({ note }) => note)].map(
    ([note, group]) => `${group.map(({ name }) => name).join(', ')}: ${note}`,
  );
};

/** The items without a verdict by reason; `undefined` if every item has one. */
export const leftOutText = ({ unanswered }: CalibrationReport): string | undefined => {
  const reasons = Object.entries(countBy(unanswered, ({ reason }) => reason));
  return reasons.length === 0 ? undefined : `Left out: ${reasons.map(([name, n]) => `${name} ${n}`).join(', ')}`;
};

const DRIFT_WORDS: Record<Drift['verdict'], string> = {
  none: 'No verdict has changed. A change in production is not caused by the judge.',
  changed: 'Some verdicts have changed, but no more than by chance.',
  drifted: 'The judge has drifted: figures from before and after cannot be compared.',
};

export const driftTexts = (drift: Drift): { title: string; conclusion: string; figures: string } => ({
  title: `Since the baseline of ${drift.baseline.generatedAt} (${Object.keys(drift.baseline.judges).join(', ')})`,
  conclusion: DRIFT_WORDS[drift.verdict],
  figures: `${drift.changed.length} of ${drift.items} verdicts changed. Agreement with the labels was ${shareText(drift.agreementBefore)} and is ${shareText(drift.agreementNow)} (McNemar’s exact test: p = ${drift.pValue.toFixed(3)}).`,
});
