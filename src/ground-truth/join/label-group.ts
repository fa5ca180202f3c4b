/** Labels that are joined together: the labels of some segments by id, with their outcomes so far. */

import { cut } from '../../captures/trace/text.ts';
import type { Label, LabeledRow, LabelValue, PredictionRow } from '../../core/contract/ground-truth.ts';
import { sameLabel } from '../label-value.ts';
import { type JoinOutcome, type LabelOutcome, outcomeName, type WaitingSegment } from '../labels/waiting.ts';
import { hashesFor, type MaskSettings } from '../masked.ts';
import type { Settled } from './labeled-store.ts';

// --------------------------------------------------------------------------------------------------------- a label
// The effect of a label on its prediction. The later label counts, in whatever order labels arrive.

/** True if the label answers the same question as the row: the true answer, or this person's answer to this scorer. */
export const isAboutSame = (label: Label, row: LabeledRow): boolean =>
  label.scorer === row.scorer && (label.scorer === undefined || label.by === row.by);

/** Returns a prediction with its first label. */
export function labeledRow(prediction: PredictionRow, label: Label, settings: MaskSettings): LabeledRow {
  const { value, timeMs, line, scorer, by } = label;
  return {
    ...prediction,
    ...textOf(label, prediction, settings),
    label: value,
    timeMs,
    line,
    ...(scorer !== undefined && { scorer }),
    ...(by !== undefined && { by }),
  };
}

/** Returns the hashes of a label whose value is not its whole text, or must be compared with hashes under a key. */
function textOf(label: Label, row: PredictionRow, settings: MaskSettings): Pick<LabeledRow, 'labelText'> {
  const labelText = row.prediction.text && (row.key ?? label.text) !== undefined && hashesFor(label, row, settings);
  return labelText ? { labelText } : {};
}

/**
 * Maximum length of a text that is kept for the report next to the row. The first line of an hour has the texts of all
 * labels.
 */
const MAX_SHOWN_CHARS = 100;
/** Copies it, since a part of a text keeps the whole in memory. */
const shown = (label: LabelValue): LabelValue =>
  typeof label === 'string' && label.length > MAX_SHOWN_CHARS
    ? Buffer.from(cut(label, MAX_SHOWN_CHARS)).toString()
    : label;

/**
 * Applies another label to a row. The later label counts, whichever is applied first. Applying it again has no effect.
 */
export function applyLabel(
  row: LabeledRow,
  label: Label,
  settings: MaskSettings,
): { row: LabeledRow; outcome: JoinOutcome } {
  const isSame = sameLabel(row.label, label.value);
  if (!isLater(label, row)) return { row, outcome: isSame ? 'repeated' : 'outdated' };
  const at = { timeMs: label.timeMs, line: label.line };
  if (isSame) return { row: { ...row, ...at }, outcome: 'repeated' };
  const { notNoted: _, labelText: __, ...kept } = row;
  const noted = row.noted === undefined ? undefined : { noted: false };
  const values = { label: label.value, was: row.label, ...textOf(label, row, settings) };
  return { row: { ...kept, ...values, ...at, ...noted }, outcome: { replaced: shown(row.label) } };
}

/** S3 has the time of a file in seconds, so the lines of two files may compare as equal: then the value decides, as it never changes. */
function isLater(label: Label, row: LabeledRow): boolean {
  if (label.timeMs !== row.timeMs) return label.timeMs > row.timeMs;
  if (label.line !== row.line) return label.line > row.line;
  return String(label.value) > String(row.label);
}

// ------------------------------------------------------------------------------------------------------- the group

/** A label that waits. */
export interface Waiting extends Label {
  segment: string;
  /** The endpoint whose predictions have its id. `null` if several endpoints have such predictions. */
  of?: string | null;
  /** The last hour with such a prediction, since 1970. */
  lastHour?: number;
  /** The outcome in its hours so far. */
  outcome?: JoinOutcome;
}

/** If several predictions have the id of a label, the first of these outcomes counts. */
const ORDER = ['joined', 'replaced', 'repeated', 'outdated'];
const rankOf = (outcome: JoinOutcome): number => ORDER.indexOf(outcomeName(outcome));
const better = (a: JoinOutcome | undefined, b: JoinOutcome): JoinOutcome =>
  a === undefined || rankOf(b) < rankOf(a) ? b : a;

export type LabelGroup = ReturnType<typeof labelGroup>;

/** Groups the labels of some segments by the id that they name, with their outcomes so far. */
export function labelGroup(segments: readonly WaitingSegment[]) {
  const labels: readonly Waiting[] = segments.flatMap(({ name, labels }) =>
    labels.map((label) => Object.assign(label, { segment: name })),
  );
  const byId = Map.groupBy(labels, ({ id }) => id);
  for (const list of byId.values()) list.sort(byTime);
  return {
    labels,
    /** Returns the labels that name an id, in the order in which they count. */
    of: (id: string): readonly Waiting[] => byId.get(id) ?? [],
    /** Whether a label names an id. */
    has: (id: string): boolean => byId.has(id),
    /** The time until which all predictions have been compared with all of these labels, epoch milliseconds. */
    comparedMs: (): number => Math.min(...segments.map(({ state }) => state.comparedMs)),
    /**
     * Returns the outcomes by segment and line.
     *
     * @param done the hour up to which predictions were labeled; `undefined`: all were
     * @param untilMs older labels without a prediction are unknown, once all predictions were compared; epoch milliseconds
     */
    outcomes: (done: number | undefined, untilMs: number): Map<string, Map<number, LabelOutcome>> => {
      const found = new Map(segments.map(({ name }) => [name, new Map<number, LabelOutcome>()]));
      for (const { segment, line, outcome, of, lastHour = Number.NEGATIVE_INFINITY, timeMs } of labels) {
        if (of === null) found.get(segment)?.set(line, 'ambiguous');
        // A label whose id also occurs in a later hour would miss that hour.
        else if (outcome !== undefined && (done === undefined || lastHour <= done))
          found.get(segment)?.set(line, outcome);
        else if (outcome === undefined && done === undefined && timeMs < untilMs && !found.get(segment)?.has(line))
          found.get(segment)?.set(line, 'unknown');
      }
      return found;
    },
  };
}

const byTime = (a: Label, b: Label): number =>
  a.timeMs - b.timeMs || a.line - b.line || (String(a.value) < String(b.value) ? -1 : 1);

export type HourOutcomes = ReturnType<typeof hourOutcomes>;

/**
 * Collects the outcomes of the labels of a group in one hour. Each attempt at an hour has its own outcomes, because
 * another attempt may follow.
 */
export function hourOutcomes() {
  const found = new Map<Waiting, JoinOutcome>();
  return {
    set: (label: Waiting, outcome: JoinOutcome): void => {
      found.set(label, better(found.get(label), outcome));
    },
    /** Adds the outcomes to the outcomes of earlier labels of the hour. @returns whether any outcome is new */
    record: (settled: Settled): boolean => {
      let isNew = false;
      for (const [label, outcome] of found) {
        settled[label.segment] ??= {};
        const lines = settled[label.segment] as Settled[string];
        const known = lines[label.line];
        found.set(label, known ?? outcome);
        lines[label.line] ??= outcome;
        isNew ||= known === undefined;
      }
      return isNew;
    },
    /** Passes the outcomes to the labels, once the hour is stored. */
    pass: (): void => {
      for (const [label, outcome] of found) label.outcome = better(label.outcome, outcome);
    },
  };
}

/** A prediction and the question that was answered: a true answer, or a person's answer to a scorer's question. */
export const rowKey = (row: Pick<LabeledRow, 'traceId' | 'row' | 'scorer' | 'by'>): string =>
  `${row.traceId}\n${row.row ?? ''}\n${row.scorer ?? ''}\n${row.scorer === undefined ? '' : (row.by ?? '')}`;
