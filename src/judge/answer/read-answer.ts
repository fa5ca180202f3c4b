/** Reads a judge's answer: its verdicts, and the problem of each scorer without a verdict. */

import { jsonrepair } from 'jsonrepair';
import { isObject, type JsonObject, parseJson } from '../../captures/json.ts';
import { describeValues, readValue } from '../../core/values/scorer-values.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import { UNSURE } from '../prompt/build-prompt.ts';
import { insideFence } from '../scorers/code-scorers.ts';
import { isPass } from '../scorers/values.ts';
import type { JudgeScorer, ModelAnswer } from '../types.ts';

export type Reading =
  | { kind: 'verdict'; value: AssessmentValue; rationale: string; chars: number }
  /** A value without a rationale. */
  | { kind: 'bare'; value: AssessmentValue; chars: number }
  | { kind: 'missing' }
  | { kind: 'value'; got: unknown; chars: number };

type AnswerReading = { readable: false; problem: string } | { readable: true; byScorer: Map<string, Reading> };

/** A rationale is a few sentences. A longer text shows that the model rambles. */
const MAX_RATIONALE_CHARS = 4000;

const keyOf = (name: string): string => name.toLowerCase().replaceAll(/[\s-]+/g, '_');

/** Whether the object contains one of the scorers' names, in any case. */
const asksFor = (object: JsonObject, scorers: readonly JudgeScorer[]): boolean => {
  const expected = new Set(scorers.map(({ name }) => keyOf(name)));
  return Object.keys(object).some((key) => expected.has(keyOf(key)));
};

/** Removes a model's thinking, which is not part of its answer. */
function withoutThinking(text: string): string {
  const open = /<(think|thinking|reasoning)>/g;
  const kept: string[] = [];
  /** Tags that are never closed. Searching for their end each time would be quadratic. */
  const unclosed = new Set<string>();
  let from = 0;
  for (let tag = open.exec(text); tag !== null; tag = open.exec(text)) {
    const close = `</${tag[1]}>`;
    const end = unclosed.has(close) ? -1 : text.indexOf(close, open.lastIndex);
    if (end === -1) {
      unclosed.add(close);
      continue;
    }
    kept.push(text.slice(from, tag.index));
    from = end + close.length;
    open.lastIndex = from;
  }
  return kept.join('') + text.slice(from);
}

/** Returns the outermost `{…}` of a text, ignoring braces in strings. The last one may be unclosed. */
function objectsIn(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let start = -1;
  let inString = false;
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i];
    if (inString) {
      if (char === '\\') i += 1;
      else if (char === '"') inString = false;
    } else if (depth > 0 && char === '"') inString = true;
    else if (char === '{') {
      if (depth === 0) start = i;
      depth += 1;
    } else if (char === '}' && depth > 0) {
      depth -= 1;
      if (depth === 0) found.push(text.slice(start, i + 1));
    }
  }
  if (depth > 0) found.push(text.slice(start));
  return found;
}

/** Maximum depth of a value. An answer has two levels and at most two of wrapping. Deeper values could overflow the stack. */
const MAX_LEVELS = 32;
const isShallow = (value: unknown, levels = MAX_LEVELS): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1)));

/**
 * Parses a text. An object with two answers to one question has no valid value: all of its keys become null.
 *
 * @param repair turns almost-JSON into JSON
 */
function parse(text: string, repair: (text: string) => string = (same) => same): unknown {
  let json: string;
  try {
    json = repair(text);
  } catch {
    return undefined;
  }
  const parsed = parseJson(json, MAX_LEVELS);
  if (!parsed.ok) return undefined;
  const { value, duplicateKeys } = parsed;
  if (!duplicateKeys) return value;
  return isObject(value) ? Object.fromEntries(Object.keys(value).map((key) => [key, null])) : undefined;
}

/** Returns entries by question. If a question has two answers, neither counts. */
function byQuestion(entries: readonly (readonly [string, unknown])[]): Map<string, unknown> {
  const found = new Map<string, unknown>();
  for (const [name, entry] of entries) {
    const key = keyOf(name);
    found.set(key, found.has(key) ? null : entry);
  }
  return found;
}

/** Unwraps an answer such as `{"verdicts": {…}}`, or a list of entries that name their question. */
function unwrap(value: unknown, scorers: readonly JudgeScorer[]): JsonObject | undefined {
  if (Array.isArray(value)) {
    const named = value.filter(isObject).flatMap((entry) => {
      const name = entry.name ?? entry.question ?? entry.scorer;
      return typeof name === 'string' ? [[name, entry] as const] : [];
    });
    return named.length > 0 ? unwrap(Object.fromEntries(byQuestion(named)), scorers) : undefined;
  }
  if (!isObject(value)) return undefined;
  if (asksFor(value, scorers)) return value;
  const [only] = scorers;
  if (scorers.length === 1 && only !== undefined && 'value' in value) return { [only.name]: value };
  const inner = Object.values(value);
  return inner.length === 1 ? unwrap(inner[0], scorers) : undefined;
}

/** Whether an object is set apart from the text as the answer: by a code fence, or on a separate last line. */
function isSetApart(before: string, after: string): boolean {
  const line = before.slice(before.lastIndexOf('\n') + 1).trim();
  return (
    (/```(?:json)?$/i.test(before.trimEnd()) && after.trimStart().startsWith('```')) || (line + after).trim() === ''
  );
}

/**
 * Returns an answer that stands alone in the text. Only a code fence may surround it, neither words nor another object.
 */
function aloneIn(text: string, scorers: readonly JudgeScorer[]): JsonObject | undefined {
  const value = parse(insideFence(text) ?? text.trim());
  const isWrapped = isObject(value) && !asksFor(value, scorers) && !('value' in value);
  return isWrapped ? undefined : unwrap(value, scorers);
}

/**
 * Returns the answer in a text, or the problem. If there is text around the answer, it must be set apart and the only object:
 * any other object may be quoted from the record by a judge that states it does not follow it.
 */
function answerIn({ text, stop }: ModelAnswer, scorers: readonly JudgeScorer[]): JsonObject | string {
  const read = (part: string): JsonObject | undefined =>
    unwrap(parse(part), scorers) ??
    unwrap(parse(part, jsonrepair), scorers) ??
    // A text that is cut inside a quotation may be beyond repair, but its complete entries are not.
    (stop === 'cut' ? unwrap(parse(part.slice(0, part.lastIndexOf('}') + 1), jsonrepair), scorers) : undefined);
  const bare = withoutThinking(text);
  const parts = objectsIn(bare);
  const last = parts.at(-1);
  if (last === undefined) return text.trim() === '' ? 'it was empty' : NO_OBJECT;
  const first = bare.indexOf('{');
  const start = bare.lastIndexOf(last);
  // Thinking without an end or beginning tag.
  const before = bare.slice(0, start).replaceAll(/<\/?(?:think|thinking|reasoning)>/g, '');
  const answer = read(last);
  const others = parts.slice(0, -1).filter((part) => part !== last);
  if (answer !== undefined && others.length === 0) {
    return isSetApart(before, bare.slice(start + last.length)) ? answer : 'words stood around its JSON object';
  }
  // Unusual quotation marks hide the end of an object, so a text that begins with a brace is repaired as a whole.
  const asOne = bare.slice(0, first).trim() === '' ? unwrap(parse(bare.slice(first), jsonrepair), scorers) : undefined;
  return asOne ?? (answer === undefined ? NO_OBJECT : 'it held several different objects');
}

const NO_OBJECT = 'it held no JSON object with the questions in it';

function readEntry(scorer: JudgeScorer, entry: unknown): Reading {
  const chars = JSON.stringify(entry)?.length ?? 0;
  // A bare `"safety": "yes"` is a value without a rationale.
  const isEntry = isObject(entry) && ['string', 'undefined'].includes(typeof entry.rationale);
  const { value: stated, result, rationale: said, sure }: JsonObject = isEntry ? entry : { value: entry };
  const given = stated ?? result;
  const isOne = stated === undefined || (result ?? given) === given;
  if (given === undefined || given === null || !isOne) return { kind: 'missing' };
  const value = readValue(scorer.values, given);
  if (given === UNSURE && scorer.asksIfSure) return { kind: 'missing' };
  if (value === undefined) return { kind: 'value', got: given, chars };
  // The first model of a cascade leaves answers that it is not sure of to the second model.
  if (scorer.asksIfSure && (sure === false || (sure !== true && !scorer.isTerse))) return { kind: 'missing' };
  const rationale = typeof said === 'string' ? said.trim() : '';
  const isEnough = scorer.isTerse && (scorer.asksIfSure || isPass(scorer, value));
  if (rationale === '' && !isEnough) return { kind: 'bare', value, chars };
  const text = rationale.length > MAX_RATIONALE_CHARS ? `${rationale.slice(0, MAX_RATIONALE_CHARS)}…` : rationale;
  return { kind: 'verdict', value, rationale: text, chars };
}

/** Text that a judge may decode. */
const BASE64 = /[\w+/-]{24,}/g;
/** Letters that resemble letters of another script, mixed with them in one word. */
const LOOKALIKES =
  /\p{Script=Latin}[\p{Script=Cyrillic}\p{Script=Greek}]|[\p{Script=Cyrillic}\p{Script=Greek}]\p{Script=Latin}/u;

/** Returns the words of a text without the quotes, escapes and other marks between them. */
function wordsOf(text: string): string {
  const character = (base: number) => (_: string, code: string) => String.fromCodePoint(Number.parseInt(code, base));
  const plain = text
    .replaceAll(/(?:\\u(?=[0-9a-f]{4})|&#x)([0-9a-f]{2,4});?/gi, character(16))
    .replaceAll(/&#(\d{2,6});/g, character(10))
    .replaceAll(BASE64, (run) => `${run} ${Buffer.from(run, 'base64').toString()}`)
    .replaceAll(/\\[nrt]/g, ' ')
    .normalize('NFKC')
    .toLowerCase();
  return ` ${plain
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `;
}

const SAME_WORDS: Readonly<Record<string, string>> = { yes: 'true', no: 'false', true: 'yes', false: 'no' };

/**
 * Whether the record may contain one of these verdicts: it has the words of the question’s name and of the value. Other
 * words are not compared, because a judge may shorten and reformat quotes.
 */
function isInRecord(byScorer: ReadonlyMap<string, Reading>, record: string): boolean {
  if (LOOKALIKES.test(record)) return true;
  const words = wordsOf(record);
  const has = (text: string): boolean => words.includes(wordsOf(text));
  return [...byScorer].some(([name, reading]) => {
    if (!('value' in reading)) return false;
    const value = String(reading.value);
    // An answer to a single question needs no name.
    const isNamed = [name, ...(byScorer.size === 1 ? ['value', 'result'] : [])].some(has);
    return isNamed && [value, SAME_WORDS[value] ?? value].some(has);
  });
}

/**
 * Reads the answer to these scorers. With words around it, an answer that the record may contain is not read: the judge may
 * quote it in order to reject it.
 *
 * @param record returns the record that the judge has read
 */
export function readAnswer(
  given: ModelAnswer,
  scorers: readonly JudgeScorer[],
  record: () => string = () => '',
): AnswerReading {
  const { object, text } = given;
  const fromTool = isShallow(object) ? unwrap(object, scorers) : undefined;
  const alone = fromTool ?? aloneIn(text, scorers) ?? aloneIn(withoutThinking(text), scorers);
  const answer = alone ?? answerIn(given, scorers);
  if (typeof answer === 'string') return { readable: false, problem: answer };
  const entries = byQuestion(Object.entries(answer));
  // The last entry of a truncated answer may be incomplete, so it is asked for again.
  const last = [...entries.keys()].at(-1);
  if (given.stop === 'cut' && last !== undefined) entries.delete(last);
  const byScorer = new Map<string, Reading>();
  for (const scorer of scorers) {
    const entry = entries.get(keyOf(scorer.name));
    byScorer.set(scorer.name, entry === undefined ? { kind: 'missing' } : readEntry(scorer, entry));
  }
  if (alone === undefined && isInRecord(byScorer, record())) {
    return { readable: false, problem: 'words stood around a JSON object that the record may contain' };
  }
  return { readable: true, byScorer };
}

/** Describes the problem with a scorer's answer, for people. */
export function problemOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind !== 'value') return correctionOf(scorer, reading);
  const got = JSON.stringify(reading.got) ?? String(reading.got);
  return `${scorer.name} had the value ${got.slice(0, 80)}, it must be ${describeValues(scorer.values)}`;
}

/** Describes the problem to the judge. Leaves out the judge's own words, which may come from the record. */
export function correctionOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind === 'value') return `the value of ${scorer.name} must be ${describeValues(scorer.values)}`;
  if (reading.kind === 'bare') return `${scorer.name} had no rationale`;
  return `${scorer.name} was not answered`;
}
