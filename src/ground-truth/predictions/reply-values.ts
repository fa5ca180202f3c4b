/** Reads the prediction in a model's reply about one inference, in the forms of known models and containers. */

import { field, isExactNumber, isObject, toJson } from '../../captures/json.ts';
import { cellOf, itemsOf } from '../../captures/payload/csv.ts';
import type { Capture } from '../../captures/types.ts';
import type { Prediction } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { classOrNumber, MAX_CLASS_CHARS } from '../label-value.ts';
import { textHashes } from '../texts.ts';
import NAMES from './reply-names.json' with { type: 'json' };

/** Maximum rounding error of each probability, and of all together. */
const ROUNDED = 0.005;
const ROUNDED_TOGETHER = 0.05;
/** For a model with more classes, only the most likely class is kept. */
const MAX_CLASSES = 100;
/** A class, its probability, all classes and their probabilities, in any order. */
const MAX_CELLS = 8;
const MAX_CELL_CHARS = 64 * 1024;
/** Lists and objects around a prediction. */
const MAX_WRAPPINGS = 4;
/** BlazingText marks its classes. */
const LABEL_MARK = '__label__';

/** A column with the probability of a class, such as AutoGluon's `{class}_proba`. */
const OF_CLASS = /^(?:prob|proba|probability)_(.+)$|^(.+)_(?:prob|proba|probability)$/i;

/** Fields of an object that describes a part of its input. Its score is not the score of the input. */
const FINDINGS = /^(?:(?:.+_)?b?box(?:es)?|masks?|word|token_str|start)$/;
/** Fields of a reply whose text is not a prediction: ids, models, times, versions. */
const FACTS = /^(?:id$|object$|model|time)|(?:_id|version)$/i;

type Value = Prediction['value'];
type Settings = Pick<GroundTruthSettings, 'kind' | 'prediction' | 'probability' | 'positive' | 'classes'> &
  Pick<Capture, 'unmask'>;

/**
 * Returns the prediction of one inference. Words are kept as a text; JSON of unknown form only if the settings define
 * that the model predicts texts.
 *
 * @param reply a JSON value, or a cell or a row of a CSV
 * @param text the reply as written, if known
 * @returns `undefined` if a label cannot be compared with the reply, for example with a vector
 *
 * @example
 *     predictionOf({ label: 'spam', score: 0.93 }, {}) // { value: 'spam', scores: [0.93], classes: ['spam'] }
 */
export function predictionOf(reply: unknown, settings: Settings, text?: string): Prediction | undefined {
  if (reply === undefined || reply === null) return undefined;
  const isText = typeof reply === 'string';
  const found =
    isText && settings.kind === 'texts' ? undefined : (chosen(reply, settings) ?? usual(reply, settings, 0));
  if (found !== undefined) return found;
  const bare = only(reply);
  if (Array.isArray(bare) && likeliest(bare) !== undefined) return undefined;
  const written = isText ? reply : settings.kind === 'texts' ? (text ?? toJson(reply)) : undefined;
  return written === undefined ? undefined : { text: textHashes(written, settings.unmask) };
}

/** Returns the prediction in the fields that the settings name. */
function chosen(reply: unknown, settings: Settings): Prediction | undefined {
  const { prediction, probability } = settings;
  if (typeof reply !== 'object' || (prediction ?? probability) === undefined) return undefined;
  const own = prediction === undefined ? undefined : at(reply, prediction);
  const scores = probability === undefined ? undefined : at(reply, probability);
  if (scores === undefined) {
    if (typeof own === 'string' && own.length > MAX_CLASS_CHARS) return { text: textHashes(own, settings.unmask) };
    return own === undefined ? undefined : usual(own, settings, 1);
  }
  return scored(scalarOf(own), scores, settings);
}

/** @param path names with dots; of a list, positions */
function at(value: unknown, path: string): unknown {
  if (isObject(value) && Object.hasOwn(value, path)) return value[path];
  let found: unknown = value;
  for (const name of path.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}

function usual(reply: unknown, settings: Settings, depth: number): Prediction | undefined {
  const value = scalarOf(reply);
  if (value !== undefined) return { value };
  if (depth > MAX_WRAPPINGS) return undefined;
  if (isObject(reply)) return ofObject(reply, settings, depth);
  if (!Array.isArray(reply) || reply.length === 0) return undefined;
  if (reply.length === 1) return usual(reply[0], settings, depth + 1);
  if (likeliest(reply) !== undefined)
    return mayBeScores(reply, settings) ? scored(undefined, reply, settings) : undefined;
  if (!isObject(reply[0])) return ofCells(reply, settings);
  if (reply.length > MAX_CLASSES || !reply.every(isObject) || reply.some(isFinding)) return undefined;
  // `[{label, score}, …]`, one for each class.
  const fields = (names: string[]) => reply.map((one) => field(one, ...names));
  return ofClasses(fields(NAMES.labels), fields(NAMES.scores));
}

/** The columns of a CSV: the class, its probability, and where they were asked for, all classes with their probabilities. */
function ofCells(cells: readonly unknown[], settings: Settings): Prediction | undefined {
  const value = scalarOf(cells[0]);
  if (value === undefined) return undefined;
  const lists = cells.slice(1, MAX_CELLS).map(listOf);
  // Classes may be numbers as well, which come before their probabilities.
  const numbers = lists.filter((list) => list !== undefined && likeliest(list) !== undefined);
  const isFraction = (one: unknown): boolean => !Number.isInteger(finite(one));
  const scores = numbers.find((list) => list?.some(isFraction)) ?? numbers.at(-1);
  const classes = lists.find((list) => list !== undefined && list !== scores);
  return scored(value, scores ?? cells[1], settings, classes);
}

/**
 * Whether unnamed numbers are scores: they are probabilities, or the settings define them as scores. Otherwise they may
 * be a vector, or a class and a distance.
 */
const mayBeScores = (numbers: readonly unknown[], { kind, classes }: Settings): boolean =>
  kind === 'classes' || classes?.length === numbers.length || areProbabilities(numbers);

/** Whether the numbers are the probabilities of all classes, which may be rounded. */
export function areProbabilities(scores: readonly unknown[]): boolean {
  const numbers = scores.map((score) => finite(score) ?? -1);
  const sum = numbers.reduce((total, number) => total + number, 0);
  const most = Math.min(numbers.length * ROUNDED, ROUNDED_TOGETHER);
  return numbers.every((number) => number >= 0 && number <= 1 + 1e-6) && Math.abs(sum - 1) < most;
}

const isFinding = (reply: Record<string, unknown>): boolean =>
  reply.answer === undefined && Object.entries(reply).some(([name, item]) => item !== undefined && FINDINGS.test(name));

/** Returns probabilities that have a column for each class, by class. */
function inColumns(reply: Record<string, unknown>): Record<string, unknown> | undefined {
  const columns = Object.entries(reply).filter(([name]) => OF_CLASS.test(name));
  if (columns.length < 2 || !areProbabilities(columns.map(([, score]) => score))) return undefined;
  return Object.fromEntries(columns.map(([name, score]) => [name.replace(OF_CLASS, '$1$2'), score]));
}

/** Whether an object names the class of its score. */
const namesClass = (reply: Record<string, unknown>): boolean =>
  Object.entries(reply).some(
    ([name, value]) => typeof value === 'string' && finite(value) === undefined && !FACTS.test(name),
  );

function ofObject(reply: Record<string, unknown>, settings: Settings, depth: number): Prediction | undefined {
  if (isFinding(reply)) return undefined;
  const ofLabel = Object.keys(reply).find((name) => name.endsWith('_pred')) ?? '';
  const predicted = only(field(reply, ...NAMES.predicted) ?? reply[ofLabel]);
  const value = predicted ?? only(field(reply, ...NAMES.labels) ?? field(reply, ...NAMES.others));
  const scores = only(field(reply, ...NAMES.scores)) ?? inColumns(reply);
  if (scores === undefined) {
    const names = value === undefined ? Object.keys(reply) : [];
    if (names.length < 2) return usual(value ?? reply[names[0] ?? ''], settings, depth + 1);
    // Such as `{yes: 0.1, no: 0.9}`.
    return areProbabilities(Object.values(reply)) ? ofClasses(names, Object.values(reply)) : undefined;
  }
  const classes = Array.isArray(value) ? value : listOf(field(reply, 'labels', 'classes'));
  const label = scalarOf(value);
  const isSingle = !Array.isArray(scores) && !isObject(scores) && listOf(scores) === undefined;
  // The score belongs to a class with a name that is too long, or to another quantity.
  if (isSingle && label === undefined && (value !== undefined || namesClass(reply))) return undefined;
  const isOwn = predicted === undefined && label !== undefined && isSingle;
  return scored(label, scores, settings, isOwn ? [label] : classes);
}

/** Unwraps lists of one item. */
function only(value: unknown): unknown {
  let inner = value;
  for (let depth = 0; depth <= MAX_WRAPPINGS && Array.isArray(inner) && inner.length === 1; depth += 1)
    inner = inner[0];
  return inner;
}

/**
 * @param scores a number, a list of numbers, or an object by class
 * @param classes of the scores. Without classes, a single score belongs to the positive class.
 */
function scored(
  value: Value,
  scores: unknown,
  settings: Settings,
  classes?: readonly unknown[],
): Prediction | undefined {
  const own = value === undefined ? undefined : { value };
  if (isObject(scores)) {
    const found = ofClasses(Object.keys(scores), Object.values(scores));
    return found === undefined ? own : { ...found, ...own };
  }
  const list = listOf(scores) ?? [scores];
  const best = likeliest(list);
  if (best === undefined) return own;
  const named = classes && ofClasses(classes, list);
  if (named !== undefined) return { ...named, ...own };
  if (list.length > MAX_CLASSES) return own ?? { value: best };
  const numbers = list.map((score) => finite(score) as number);
  if (numbers.length > 1) return { ...own, scores: numbers };
  return own === undefined ? { value: numbers[0] } : { ...own, scores: numbers, classes: [settings.positive] };
}

/**
 * @returns the likeliest class, with the scores of all in an order that does not depend on them. Of the
 *   probabilities of two classes without the likeliest, since the settings' threshold decides between them.
 */
function ofClasses(classes: readonly unknown[], scores: readonly unknown[]): Prediction | undefined {
  const best = likeliest(scores);
  if (best === undefined || classes.length !== scores.length) return undefined;
  const value = scalarOf(classes[best]);
  if (classes.length > MAX_CLASSES) return value === undefined ? undefined : { value };
  const pairs = classes.map((name, at) => [String(scalarOf(name) ?? ''), finite(scores[at]) as number] as const);
  const names = new Set(pairs.map(([name]) => name));
  if (value === undefined || names.has('') || names.size !== pairs.length) return undefined;
  pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  const all = { scores: pairs.map(([, score]) => score), classes: pairs.map(([name]) => name) };
  // The two likeliest of more classes have less together.
  return pairs.length === 2 && areProbabilities(all.scores) ? all : { value, ...all };
}

/** Returns a list, also where a cell of a CSV writes it as Python or JSON does. */
function listOf(cell: unknown): readonly unknown[] | undefined {
  if (Array.isArray(cell)) return cell;
  if (typeof cell !== 'string' || cell.length > MAX_CELL_CHARS || !/^\[.*\]$/s.test(cell)) return undefined;
  return itemsOf(cell.slice(1, -1));
}

/** Returns the position of the largest number; `undefined` if not all are finite numbers. */
function likeliest(scores: readonly unknown[]): number | undefined {
  let best: number | undefined;
  let most = Number.NEGATIVE_INFINITY;
  for (const [index, score] of scores.entries()) {
    const number = finite(score);
    if (number === undefined) return undefined;
    if (number > most) [best, most] = [index, number];
  }
  return best;
}

/** Returns a finite number, also if it is written as a text. */
function finite(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const isText = typeof value === 'string' && value.length <= MAX_CLASS_CHARS;
  const number = isExactNumber(value) ? Number(value.rawJSON) : isText ? cellOf(value.trim()) : undefined;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** Returns a class or a number. A text that writes a number is the number; a text that is too long for a class is neither. */
function scalarOf(value: unknown): Value {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value : isExactNumber(value) ? value.rawJSON : '';
  if (text.length > MAX_CLASS_CHARS) return undefined;
  const name = text.trim();
  if (name.startsWith(LABEL_MARK)) return name.slice(LABEL_MARK.length);
  return name === '' ? undefined : classOrNumber(name);
}
