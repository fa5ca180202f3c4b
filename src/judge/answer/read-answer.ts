/** Reading a judge's reply: the verdicts it holds, and for each scorer without one what is wrong. */
import { jsonrepair } from 'jsonrepair';
import * as z from 'zod';
import { isObject, type JsonObject } from '../../formats/json.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { ModelAnswer } from '../model-answer.ts';
import { describeValues } from '../scorers/scorer-set.ts';
import { readValue } from '../scorers/values.ts';
import type { JudgeScorer } from '../types.ts';

export type Reading =
  | { kind: 'verdict'; value: AssessmentValue; rationale: string; chars: number }
  /** A value is there, its reason is not. */
  | { kind: 'bare'; value: AssessmentValue; chars: number }
  | { kind: 'missing' }
  | { kind: 'value'; got: unknown; chars: number };

type ReplyReading = { readable: false; problem: string } | { readable: true; byScorer: Map<string, Reading> };

/** A rationale is a few sentences; what goes on for longer has lost its way. */
const MAX_RATIONALE_CHARS = 4000;

const entrySchema = z.looseObject({ value: z.unknown().optional(), rationale: z.string().optional() });

const keyOf = (name: string): string => name.toLowerCase().replaceAll(/[\s-]+/g, '_');

/** Names asked for, in whatever case a model writes them. */
const asksFor = (object: JsonObject, scorers: readonly JudgeScorer[]): boolean => {
  const wanted = new Set(scorers.map(({ name }) => keyOf(name)));
  return Object.keys(object).some((key) => wanted.has(keyOf(key)));
};

/** What a model thought aloud is not its answer. */
function withoutThinking(text: string): string {
  const open = /<(think|thinking|reasoning)>/g;
  const kept: string[] = [];
  /** Tags that are never closed: to look for their end again and again would be quadratic. */
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

/** The outermost `{…}` of a text, braces in strings left alone. The last one may be open. */
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

/** Levels of a value that is looked into: an answer has two, and two of wrapping. What is deeper could overflow the stack. */
const MAX_LEVELS = 32;
const isShallow = (value: unknown, levels = MAX_LEVELS): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1)));

/** @param repair makes JSON of what a model took for it */
function parse(text: string, repair: (text: string) => string = (same) => same): unknown {
  try {
    const value = JSON.parse(repair(text)) as unknown;
    return isShallow(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** An answer may come in a wrapper: `{"verdicts": {…}}`, or as a list of entries that name their question. */
function unwrap(value: unknown, scorers: readonly JudgeScorer[]): JsonObject | undefined {
  if (Array.isArray(value)) {
    const named = value.filter(isObject).flatMap((entry) => {
      const name = entry.name ?? entry.question ?? entry.scorer;
      return typeof name === 'string' ? [[name, entry] as const] : [];
    });
    return named.length > 0 ? unwrap(Object.fromEntries(named), scorers) : undefined;
  }
  if (!isObject(value)) return undefined;
  if (asksFor(value, scorers)) return value;
  const [only] = scorers;
  if (scorers.length === 1 && only !== undefined && 'value' in value) return { [only.name]: value };
  const inner = Object.values(value);
  return inner.length === 1 ? unwrap(inner[0], scorers) : undefined;
}

/** Whether what stands around an object sets it apart as the answer: a fence, or a line of its own at the end. */
function isSetApart(before: string, after: string): boolean {
  const line = before.slice(before.lastIndexOf('\n') + 1).trim();
  return (
    (/```(?:json)?$/i.test(before.trimEnd()) && after.trimStart().startsWith('```')) || (line + after).trim() === ''
  );
}

/**
 * The answer in a text. With words around it, it is set apart from them and the only object: any other may be a quotation
 * from the record, of which the judge says that it does not follow it.
 */
function answerIn(text: string, scorers: readonly JudgeScorer[]): JsonObject | string {
  const read = (part: string): JsonObject | undefined =>
    unwrap(parse(part), scorers) ?? unwrap(parse(part, jsonrepair), scorers);
  const whole = unwrap(parse(text.trim()), scorers);
  if (whole !== undefined) return whole;
  const bare = withoutThinking(text);
  const parts = objectsIn(bare);
  const last = parts.at(-1);
  if (last === undefined) return text.trim() === '' ? 'it was empty' : NO_OBJECT;
  const first = bare.indexOf('{');
  const start = bare.lastIndexOf(last);
  // Thoughts whose end, or beginning, is not marked.
  const before = bare.slice(0, start).replaceAll(/<\/?(?:think|thinking|reasoning)>/g, '');
  const answer = read(last);
  const others = parts.slice(0, -1).filter((part) => part !== last);
  if (answer !== undefined && others.length === 0) {
    return isSetApart(before, bare.slice(start + last.length)) ? answer : 'words stood around its JSON object';
  }
  // Quotes of another kind hide where an object ends: a text that begins with its first brace is repaired as one.
  const asOne = bare.slice(0, first).trim() === '' ? unwrap(parse(bare.slice(first), jsonrepair), scorers) : undefined;
  return asOne ?? (answer === undefined ? NO_OBJECT : 'it held several different objects');
}

const NO_OBJECT = 'it held no JSON object with the questions in it';

function readEntry(scorer: JudgeScorer, entry: unknown): Reading {
  const chars = JSON.stringify(entry)?.length ?? 0;
  const parsed = entrySchema.safeParse(entry);
  // A bare `"safety": "yes"` has its value, and no rationale.
  const given = parsed.success ? (parsed.data.value ?? parsed.data.result) : entry;
  if (given === undefined || given === null) return { kind: 'missing' };
  const value = readValue(scorer.values, given);
  if (value === undefined) return { kind: 'value', got: given, chars };
  const rationale = parsed.success ? (parsed.data.rationale?.trim() ?? '') : '';
  if (rationale === '') return { kind: 'bare', value, chars };
  const text = rationale.length > MAX_RATIONALE_CHARS ? `${rationale.slice(0, MAX_RATIONALE_CHARS)}…` : rationale;
  return { kind: 'verdict', value, rationale: text, chars };
}

/** Reads a reply for the scorers it was asked for. */
export function readAnswer(told: ModelAnswer, scorers: readonly JudgeScorer[]): ReplyReading {
  const fromTool = isShallow(told.object) ? unwrap(told.object, scorers) : undefined;
  const answer = fromTool ?? answerIn(told.text, scorers);
  if (typeof answer === 'string') return { readable: false, problem: answer };
  const entries = new Map(Object.entries(answer).map(([key, entry]) => [keyOf(key), entry]));
  // What a cut answer says last may be half of a word: it is asked again.
  const last = [...entries.keys()].at(-1);
  if (told.stop === 'cut' && last !== undefined) entries.delete(last);
  const byScorer = new Map<string, Reading>();
  for (const scorer of scorers) {
    const entry = entries.get(keyOf(scorer.name));
    byScorer.set(scorer.name, entry === undefined ? { kind: 'missing' } : readEntry(scorer, entry));
  }
  return { readable: true, byScorer };
}

/** What was wrong with a scorer's answer, for people. */
export function problemOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind !== 'value') return correctionOf(scorer, reading);
  const got = JSON.stringify(reading.got) ?? String(reading.got);
  return `${scorer.name} had the value ${got.slice(0, 80)}, it must be ${describeValues(scorer.values)}`;
}

/** The same for the judge: without its own words, which may have come from the record. */
export function correctionOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind === 'value') return `the value of ${scorer.name} must be ${describeValues(scorer.values)}`;
  if (reading.kind === 'bare') return `${scorer.name} had no rationale`;
  return `${scorer.name} was not answered`;
}
