/**
 * Predictions and labels if captures are masked. Both are stored in masked form, with the version of the key; texts are
 * stored as hashes under that key. With `CONTENT=none`, words are stored as pseudonyms.
 */

import { createHmac } from 'node:crypto';
import { Masker } from '../captures/redact/mask.ts';
import type { Label, LabeledRow, LabelFault, LabelValue, PredictionRow } from '../core/contract/ground-truth.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import type { Redaction } from '../core/settings/redact-setting.ts';
import { classOf, MAX_CLASS_CHARS } from './label-value.ts';
import { textHashes } from './texts.ts';

export type MaskSettings = Pick<LambdaEnvironment, 'GROUND_TRUTH' | 'redaction'>;

type Hashes = [exact: string, normalized: string];

/** Hashes that only the key leads to, of the same length. */
const keyed = (key: string, hashes: Hashes): Hashes =>
  hashes.map((hash) => createHmac('sha256', key).update(hash).digest('base64url').slice(0, hash.length)) as Hashes;

/** With `CONTENT=none`, replaces words by pseudonyms, except words in the settings. */
function withoutWords<Value extends LabelValue | null>(value: Value, redaction: Redaction, settings: MaskSettings) {
  const { classes = [], positive } = settings.GROUND_TRUTH;
  if (redaction.content !== 'none' || typeof value !== 'string') return value;
  const isOwn = [...classes, positive].some((name) => classOf(name) === classOf(value));
  return isOwn ? value : new Masker(redaction).whole('class', classOf(value));
}

/** Returns the form in which a prediction of a masked capture is stored. */
export function maskedPrediction(row: PredictionRow, settings: MaskSettings): PredictionRow {
  const { redaction } = settings;
  if (redaction?.key === undefined) return row;
  const { key, keyVersion } = redaction;
  const { value, classes, text, ...numbers } = row.prediction;
  const bare = <Value extends LabelValue | null>(word: Value) => withoutWords(word, redaction, settings) as Value;
  return {
    ...row,
    ...(keyVersion === undefined ? {} : { key: keyVersion }),
    prediction: {
      ...numbers,
      ...(value === undefined ? {} : { value: bare(value) }),
      ...(classes && { classes: classes.map(bare) }),
      ...(text && { text: keyed(key, text) }),
    },
    ...(row.groups && { groups: row.groups.map(bare) }),
  };
}

/**
 * Returns the form in which a label is stored. Returns the same label if no part of it is masked, so that it is valid
 * under any key.
 */
export function maskedLabel(label: Label, settings: MaskSettings): Label {
  const { redaction } = settings;
  if (redaction?.key === undefined) return label;
  const masker = new Masker(redaction);
  const [id, by] = [masker.text(label.id), label.by && masker.text(label.by)];
  // Mask the value like the reply's field, because the field's name may reveal the kind of its content.
  const field = settings.GROUND_TRUTH.prediction?.split('.').at(-1) ?? '';
  const [words] = Object.values(masker.value({ [field]: label.value }, false) as object) as [LabelValue];
  const value = withoutWords(words, redaction, settings);
  if (id === label.id && by === label.by && value === label.value) return label;
  const { keyVersion = '', key } = redaction;
  return { ...label, id, value, ...(by && { by }), key: keyVersion, text: keyed(key, textHashes(String(label.value))) };
}

/** Masks a fault's message, which may quote the line. */
export const maskedFault = (fault: LabelFault, { redaction }: MaskSettings): LabelFault =>
  redaction === undefined ? fault : { ...fault, message: new Masker(redaction).text(fault.message) };

/**
 * Returns a captured label in each form in which predictions may be stored: under the current key, under the previous
 * key, and unmasked, for predictions that were written without a key. Even then the label is stored masked, unless it
 * is a class without personal data.
 */
export function labelForms(label: Label, settings: MaskSettings): Label[] {
  const { redaction } = settings;
  if (redaction === undefined) return [label];
  const present = maskedLabel(label, settings);
  const earlier = redaction.previous && { ...redaction, ...redaction.previous };
  const isClass = typeof label.value === 'string' && label.value.length <= MAX_CLASS_CHARS;
  const value = isClass ? new Masker(redaction).text(String(label.value)) : present.value;
  return [
    present,
    ...(earlier ? [maskedLabel(label, { ...settings, redaction: earlier })] : []),
    { ...label, value, key: '', text: textHashes(String(label.value)) },
  ];
}

/**
 * Returns a row that was written without a key, with its words masked like the words of labels, so that they can be
 * compared.
 */
export function comparable<Row extends PredictionRow & Partial<LabeledRow>>(row: Row, settings: MaskSettings): Row {
  const { redaction } = settings;
  if (redaction?.key === undefined || row.key !== undefined || row.masked) return row;
  const { prediction } = row;
  const words = [prediction.value, prediction.classes, row.groups, row.label, row.was] as const;
  const masker = new Masker(redaction);
  const [value, classes, groups, label, was] = masker.value(structuredClone(words), false) as typeof words;
  if (masker.changes === 0) return row;
  const masked = { ...row, prediction: { ...prediction, value, classes }, groups, label, was, masked: true } as Row;
  // Texts are compared by their hashes, which are of the words as they were.
  if (prediction.text && row.label !== undefined) masked.labelText ??= textHashes(String(row.label));
  return masked;
}

/** Whether the label is masked in the same way as the prediction. */
export const isSameForm = ({ key }: Pick<Label, 'key'>, row: Pick<PredictionRow, 'key'>): boolean =>
  key === undefined || key === (row.key ?? '');

/**
 * Returns the hashes of a label under the key of its prediction, if it was stored with a key. Returns `undefined` if
 * the key is unknown.
 */
export function hashesFor(label: Label, row: PredictionRow, { redaction }: MaskSettings): Hashes | undefined {
  if (label.text !== undefined) return label.text;
  const known = [redaction, redaction?.previous].find((one) => one?.keyVersion === row.key)?.key;
  return known === undefined ? undefined : keyed(known, textHashes(String(label.value)));
}

/** Returns the hashes of a row's label, for comparison with the hashes of its prediction. */
export const hashesOf = ({ key, label, labelText }: LabeledRow): Hashes | undefined =>
  labelText ?? (key === undefined ? textHashes(String(label)) : undefined);
