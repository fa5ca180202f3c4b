/** Reads the prediction out of what a model replied about one inference, in the forms that models and containers reply. */
import type { Prediction } from '../../contract/ground-truth.ts';
import { field, isExactNumber, isObject, toJson } from '../../formats/json.ts';
import { cellOf } from '../../formats/payload/csv.ts';
import type { GroundTruthSettings } from '../../settings/ground-truth-setting.ts';
import { textHashes } from './texts.ts';

/** A longer text is no class: the index keeps its hashes. */
const MAX_CLASS_CHARS = 64;
/** Of a model with more classes, the index keeps the likeliest one. */
const MAX_CLASSES = 100;
/** Lists and objects around a prediction. */
const MAX_WRAPPINGS = 4;
/** BlazingText marks its classes. */
const LABEL_MARK = '__label__';

const PREDICTED = ['predicted_label', 'predicted_class', 'predicted_value', 'prediction', 'predictions', 'predicted'];
/** A single score beside one of these is that of the class. Beside another name, it is that of the positive class. */
const LABELS = ['label', 'labels', 'class', 'class_name'];
const OTHERS = ['category', 'closest_cluster', 'value', 'result', 'output', 'outputs', 'forecast', 'y', 'y_pred'];
const LISTS = ['probabilities', 'scores', 'probs'];
const SCORES = [...LISTS, 'probability', 'score', 'prob', 'proba', 'predict_proba', 'confidence'];

type Value = Prediction['value'];
type Settings = Pick<GroundTruthSettings, 'kind' | 'prediction' | 'probability' | 'positive'>;

/**
 * Returns the prediction of one inference. A reply of unknown form is kept as a text.
 *
 * @param reply a JSON value, or a cell or a row of a CSV
 * @returns `undefined` when there is nothing to compare a label with
 */
export function predictionOf(reply: unknown, settings: Settings): Prediction | undefined {
  if (reply === undefined || reply === null) return undefined;
  const isText = typeof reply === 'string';
  const found =
    isText && settings.kind === 'texts' ? undefined : (chosen(reply, settings) ?? usual(reply, settings, 0));
  if (found !== undefined) return found;
  const text = isText ? reply : toJson(reply);
  return text === undefined ? undefined : { text: textHashes(text) };
}

/** Returns what the settings name. */
function chosen(reply: unknown, settings: Settings): Prediction | undefined {
  const { prediction, probability } = settings;
  if (typeof reply !== 'object' || (prediction ?? probability) === undefined) return undefined;
  const own = prediction === undefined ? undefined : at(reply, prediction);
  const scores = probability === undefined ? undefined : at(reply, probability);
  if (scores === undefined) return own === undefined ? undefined : usual(own, settings, 1);
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
  if (reply.every(isObject)) {
    // `[{label, score}, …]`, one for each class.
    const scores = reply.map((one) => field(one, ...SCORES));
    return ofClasses(
      reply.map((one) => field(one, ...LABELS)),
      scores,
    );
  }
  if (reply.every((cell) => finite(cell) !== undefined)) return scored(undefined, reply, settings);
  return ofCells(reply, settings);
}

/** The columns of a CSV: the class, its probability, and where they were asked for, all classes with their probabilities. */
function ofCells([first, second, ...others]: readonly unknown[], settings: Settings): Prediction | undefined {
  const value = scalarOf(first);
  if (value === undefined) return undefined;
  const lists = [second, ...others].map(listOf).filter((list) => list !== undefined);
  const scores = lists.find((list) => list.every((cell) => finite(cell) !== undefined));
  return scored(
    value,
    scores ?? second,
    settings,
    lists.find((list) => list !== scores),
  );
}

function ofObject(reply: Record<string, unknown>, settings: Settings, depth: number): Prediction | undefined {
  const predicted = field(reply, ...PREDICTED);
  const value = predicted ?? field(reply, ...LABELS) ?? field(reply, ...OTHERS);
  const scores = field(reply, ...SCORES);
  if (scores === undefined) {
    const [only, ...others] = value === undefined ? Object.values(reply) : [value];
    return others.length === 0 ? usual(only, settings, depth + 1) : undefined;
  }
  const classes = Array.isArray(value) ? value : listOf(field(reply, 'labels', 'classes'));
  const label = scalarOf(value);
  const isOwn = predicted === undefined && label !== undefined && !Array.isArray(scores);
  return scored(label, scores, settings, isOwn ? [label] : classes);
}

/**
 * @param scores a number, a list of them, or an object by class
 * @param classes of the scores. Without them, a single score is that of the positive class.
 */
function scored(
  value: Value,
  scores: unknown,
  settings: Settings,
  classes?: readonly unknown[],
): Prediction | undefined {
  const own = value === undefined ? undefined : { value };
  if (isObject(scores)) return { ...ofClasses(Object.keys(scores), Object.values(scores)), ...own };
  const list = listOf(scores) ?? [scores];
  const numbers = list.map(finite).filter((number) => number !== undefined);
  if (numbers.length === 0 || numbers.length !== list.length) return own;
  if (classes?.length === list.length) {
    const found = ofClasses(classes, numbers);
    if (found !== undefined) return { ...found, ...own };
  }
  if (numbers.length > MAX_CLASSES) return own ?? { value: likeliest(numbers) };
  if (numbers.length > 1) return { ...own, scores: numbers };
  return own === undefined ? { value: numbers[0] } : { ...own, scores: numbers, classes: [settings.positive] };
}

/** @returns the likeliest class, with the scores of all in an order that does not depend on them */
function ofClasses(classes: readonly unknown[], scores: readonly unknown[]): Prediction | undefined {
  const names = classes.map(scalarOf).filter((name) => name !== undefined);
  const numbers = scores.map(finite).filter((number) => number !== undefined);
  if (names.length === 0 || names.length !== classes.length || names.length !== numbers.length) return undefined;
  if (new Set(names).size !== names.length) return undefined;
  const value = names[likeliest(numbers)];
  if (names.length > MAX_CLASSES) return { value };
  const pairs = names.map((name, index) => [String(name), numbers[index] as number] as const);
  pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  return { value, scores: pairs.map(([, score]) => score), classes: pairs.map(([name]) => name) };
}

/** Returns a list, also where a cell of a CSV writes it as Python or JSON does. */
function listOf(cell: unknown): readonly unknown[] | undefined {
  if (Array.isArray(cell)) return cell;
  if (typeof cell !== 'string' || !cell.startsWith('[') || !cell.endsWith(']')) return undefined;
  const items = cell.slice(1, -1).split(',');
  return items.map((item) => item.trim().replace(/^["']|["']$/g, ''));
}

function likeliest(scores: readonly number[]): number {
  let best = 0;
  for (const [index, score] of scores.entries()) if (score > (scores[best] as number)) best = index;
  return best;
}

/** Returns a finite number, also if it is written as a text. */
function finite(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const scalar = isExactNumber(value) ? Number(value.rawJSON) : typeof value === 'string' ? scalarOf(value) : undefined;
  return typeof scalar === 'number' && Number.isFinite(scalar) ? scalar : undefined;
}

/** Returns a class or a number. A text that writes a number is the number; a text that is too long for a class is neither. */
function scalarOf(value: unknown): Value {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  if (typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value : isExactNumber(value) ? value.rawJSON : '';
  if (text.length > MAX_CLASS_CHARS) return undefined;
  const name = text.trim();
  if (name.startsWith(LABEL_MARK)) return name.slice(LABEL_MARK.length);
  return name === '' ? undefined : cellOf(name);
}
