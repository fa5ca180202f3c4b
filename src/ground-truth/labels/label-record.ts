/** A record of a label file as a label: the fields by the names that are usual for them, and values that a label can have. */

import { asText, isExactNumber, isObject, type JsonObject, parseJson } from '../../captures/json.ts';
import { capturedData } from '../../captures/payload/captured-data.ts';
import { parseCsvReply } from '../../captures/payload/csv.ts';
import type { Label, LabelFault, LabelValue } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { classOf, MAX_ID_CHARS, numberOf } from '../label-value.ts';
// Names of fields and columns, without case and punctuation. If a record has several, the first one with a value
// counts.
import NAMES from './label-names.json' with { type: 'json' };

export type LabelField = keyof typeof NAMES;
const FIELDS = Object.keys(NAMES) as LabelField[];

const MAX_NAME_CHARS = 256;
/** An expected answer of some pages. */
const MAX_VALUE_CHARS = 16_384;
/** Spellings of a number that is not a number. */
const NO_NUMBER = /^[+-]?(?:nan|inf|infinity)$/i;

export type LabelProblem = Pick<LabelFault, 'name' | 'message'>;
const problem = (name: string, message: string): LabelProblem => ({ name, message });
const impossible = (message: string): LabelProblem => problem('ImpossibleLabel', message);

/** The fields or columns of a record that contain each field of a label, best first. */
export type Places<Place> = Record<LabelField, Place[]>;

/** Finds the fields of a label among names. @param named name and place of each field or column */
export function placesOf<Place>(named: Iterable<readonly [name: string, place: Place]>): Places<Place> {
  const known = new Map<string, Place>();
  for (const [name, place] of named) known.set(name.toLowerCase().replace(/[^a-z0-9]/g, ''), place);
  const found = (field: LabelField) => NAMES[field].flatMap((name) => known.get(name) ?? []);
  return Object.fromEntries(FIELDS.map((field) => [field, found(field)])) as Places<Place>;
}

/** Returns the label of a line of JSON, in Model Monitor's form or with fields of usual names. */
export function labelOfJson(text: string, at: Pick<Label, 'line' | 'timeMs'>, settings: GroundTruthSettings) {
  const parsed = parseJson(text);
  if (!parsed.ok) return problem('NotALabel', parsed.problem);
  if (!isObject(parsed.value)) return problem('NotALabel', 'it is no JSON object');
  const { groundTruthData: data, eventMetadata: metadata, ...rest } = parsed.value;
  const isModelMonitors = data !== undefined;
  const fields = isModelMonitors ? { ...rest, ...(isObject(metadata) ? metadata : {}) } : parsed.value;
  const places = placesOf(Object.keys(fields).map((name) => [name, name] as const));
  const own = isModelMonitors ? modelMonitorData(data) : undefined;
  if (own !== undefined && 'problem' in own) return own.problem;
  const get = (field: LabelField): unknown => {
    if (field === 'value' && isModelMonitors) return own?.value;
    const values = places[field].map((name) => (fields as JsonObject)[name]);
    return values.find((value) => value !== undefined && value !== null);
  };
  return labelOf(get, at, settings);
}

/** Returns the label in Model Monitor's `groundTruthData`, or why it cannot be read. */
function modelMonitorData(side: unknown): { value?: unknown } | { problem: LabelProblem } {
  const data = capturedData(side);
  if (data === undefined) return {};
  if ('problem' in data) return { problem: problem('UnknownEncoding', `its data is ${data.problem}`) };
  const text = 'text' in data ? data.text : data.bytes.toString();
  if (isObject(side) && String(side.encoding).toUpperCase() === 'JSON') {
    const parsed = parseJson(text);
    if (!parsed.ok) return { problem: impossible(`of its data, ${parsed.problem}`) };
    const { value } = parsed;
    return { value: Array.isArray(value) && value.length === 1 ? value[0] : value };
  }
  const csv = parseCsvReply(text);
  const cells = 'rows' in csv ? csv.rows.flat() : [];
  if (cells.length > 1) return { problem: impossible(`its data has ${cells.length} values; expected: one`) };
  return { value: cells[0] };
}

/**
 * Creates a label from the fields of a record.
 *
 * @param get returns the value of a field, `undefined` if the record lacks it
 */
export function labelOf(
  get: (field: LabelField) => unknown,
  { line, timeMs }: Pick<Label, 'line' | 'timeMs'>,
  settings: GroundTruthSettings,
): Label | LabelProblem {
  const id = asText(get('id'));
  if (id === undefined) return problem('NotALabel', 'it has no id');
  if (id.length > MAX_ID_CHARS) return problem('NotALabel', `its id has more than ${MAX_ID_CHARS} characters`);
  const names: Pick<Label, 'endpoint' | 'scorer' | 'by'> = {};
  for (const field of ['endpoint', 'scorer', 'by'] as const) {
    const name = asText(get(field));
    if (name === undefined) continue;
    if (name.length > MAX_NAME_CHARS) return problem('NotALabel', `its ${field} is longer than a name`);
    // The labeller's name matters where people answer a scorer's question.
    if (field !== 'by' || names.scorer !== undefined) names[field] = name;
  }
  const raw = get('value');
  const value = isExactNumber(raw) ? raw.rawJSON : raw;
  const wrong = whyImpossible(value, names.scorer === undefined ? settings : undefined);
  return wrong === undefined ? { id, value: value as LabelValue, ...names, line, timeMs } : impossible(wrong);
}

/** @param settings for true answers; the values of a scorer are not known here */
function whyImpossible(value: unknown, settings: GroundTruthSettings | undefined): string | undefined {
  if (value === undefined || value === null || (typeof value === 'string' && value.trim() === '')) {
    return 'it has no value';
  }
  if (typeof value === 'string') {
    if (value.length > MAX_VALUE_CHARS) return `its value has more than ${MAX_VALUE_CHARS} characters`;
    if (settings !== undefined && settings.kind !== 'texts' && NO_NUMBER.test(value.trim()))
      return 'its value is no number';
  } else if (typeof value !== 'number' && typeof value !== 'boolean') {
    return 'its value is a list or an object; expected: a text, a number, true or false';
  }
  if (settings?.kind === 'numbers') {
    return numberOf(value) === null
      ? 'its value is no number, and GROUND_TRUTH says that the model predicts numbers'
      : undefined;
  }
  const classes = settings?.kind === 'texts' ? undefined : settings?.classes;
  if (classes === undefined || classes.some((name) => classOf(name) === classOf(value))) return undefined;
  return `its value is none of the ${classes.length} classes of GROUND_TRUTH`;
}
