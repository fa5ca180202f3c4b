/** Reading a judge's reply: the verdicts it holds, and for each scorer without one what is wrong. */
import { jsonrepair } from 'jsonrepair';
import * as z from 'zod';
import type { AssessmentValue } from '../mlflow/types.ts';
import { describeValues } from './scorers.ts';
import type { Told } from './transport.ts';
import type { JudgeScorer } from './types.ts';
import { readValue } from './values.ts';

export type Reading =
  | { kind: 'verdict'; value: AssessmentValue; rationale: string; chars: number }
  /** A value is there, its reason is not. */
  | { kind: 'bare'; value: AssessmentValue; chars: number }
  | { kind: 'missing' }
  | { kind: 'value'; got: unknown; chars: number };

export type ReplyReading = { readable: false; problem: string } | { readable: true; byScorer: Map<string, Reading> };

/** A rationale is a few sentences; what goes on for longer has lost its way. */
const MAX_RATIONALE_CHARS = 4000;

const entrySchema = z.looseObject({ value: z.unknown().optional(), rationale: z.string().optional() });
type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields =>
  value !== null && typeof value === 'object' && !Array.isArray(value);
const keyOf = (name: string): string => name.toLowerCase().replaceAll(/[\s-]+/g, '_');

/** Names asked for, in whatever case a model writes them. */
const asksFor = (object: Fields, scorers: readonly JudgeScorer[]): boolean => {
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function repaired(text: string): unknown {
  try {
    return JSON.parse(jsonrepair(text)) as unknown;
  } catch {
    return undefined;
  }
}

/** An answer may come in a wrapper: `{"verdicts": {…}}`, or as a list of entries that name their question. */
function unwrap(value: unknown, scorers: readonly JudgeScorer[]): Fields | undefined {
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

/**
 * The answer in a text. Where several objects answer the same questions, none is taken: one of them may be a quotation
 * from the record.
 */
function answerIn(text: string, scorers: readonly JudgeScorer[]): Fields | string {
  const whole = unwrap(parse(text.trim()), scorers);
  if (whole !== undefined) return whole;
  const bare = withoutThinking(text);
  const parts = objectsIn(bare);
  const read = (texts: readonly string[], how: (text: string) => unknown): Fields[] =>
    texts.map((part) => unwrap(how(part), scorers)).filter((answer) => answer !== undefined);
  const answers = read(parts, parse);
  if (answers.length === 0 && bare.includes('{')) {
    answers.push(...read(parts, repaired));
    // Quotes of another kind hide where an object ends: then the text from its first brace on is repaired as one.
    const asOne = answers.length === 0 ? unwrap(repaired(bare.slice(bare.indexOf('{'))), scorers) : undefined;
    if (asOne !== undefined) answers.push(asOne);
  }
  const [first] = answers;
  if (first === undefined)
    return text.trim() === '' ? 'it was empty' : 'it held no JSON object with the questions in it';
  const different = answers.some((answer) => JSON.stringify(answer) !== JSON.stringify(first));
  return different ? 'it held several different answers' : first;
}

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
export function readReply(told: Told, scorers: readonly JudgeScorer[]): ReplyReading {
  const fromTool = told.object === undefined ? undefined : unwrap(told.object, scorers);
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
