/** What a label does to its prediction. The later label counts, in whatever order labels come. */

import { cut } from '../../captures/trace/text.ts';
import type { Label, LabeledRow, LabelValue, PredictionRow } from '../../core/contract/ground-truth.ts';
import { sameLabel } from '../label-value.ts';
import type { JoinOutcome } from './waiting.ts';

/** Whether a label is about the row's question: the true answer, or what this person says to the question of this scorer. */
export const isAboutSame = (label: Label, row: LabeledRow): boolean =>
  label.scorer === row.scorer && (label.scorer === undefined || label.by === row.by);

/** Returns a prediction with its first label. */
export const labeledRow = (prediction: PredictionRow, { value, timeMs, line, scorer, by }: Label): LabeledRow => ({
  ...prediction,
  label: value,
  timeMs,
  line,
  ...(scorer !== undefined && { scorer }),
  ...(by !== undefined && { by }),
});

/** One object for all labels of which there is nothing more to say: a group has hundreds of thousands. */
export const OUTCOMES = {
  joined: { name: 'joined' },
  repeated: { name: 'repeated' },
  outdated: { name: 'outdated' },
} as const satisfies Record<string, JoinOutcome>;

/** Of a text, its beginning is kept for the report, beside the row: an hour has one line with those of all labels. */
const MAX_SHOWN_CHARS = 100;
/** Copies it, since a part of a text keeps the whole in memory. */
const shown = (label: LabelValue): LabelValue =>
  typeof label === 'string' && label.length > MAX_SHOWN_CHARS
    ? Buffer.from(cut(label, MAX_SHOWN_CHARS)).toString()
    : label;

/** Applies another label to a row. Applied again, it changes nothing. */
export function applyLabel(row: LabeledRow, label: Label): { row: LabeledRow; outcome: JoinOutcome } {
  const isSame = sameLabel(row.label, label.value);
  if (!isLater(label, row)) return { row, outcome: isSame ? OUTCOMES.repeated : OUTCOMES.outdated };
  const { timeMs, line } = label;
  if (isSame) return { row: { ...row, timeMs, line }, outcome: OUTCOMES.repeated };
  const { notNoted: _, ...kept } = row;
  const noted = row.noted === undefined ? undefined : { noted: false };
  const replaced = { ...kept, label: label.value, timeMs, line, was: row.label, ...noted };
  return { row: replaced, outcome: { name: 'replaced', from: shown(row.label) } };
}

/** S3 has the time of a file in seconds, so the lines of two files may compare as equal: then the value decides, as it never changes. */
function isLater(label: Label, row: LabeledRow): boolean {
  if (label.timeMs !== row.timeMs) return label.timeMs > row.timeMs;
  if (label.line !== row.line) return label.line > row.line;
  return String(label.value) > String(row.label);
}
