/** Reads a judge's answer: the verdicts in it, and the problem of each scorer without one. */

import { jsonrepair } from 'jsonrepair';
import * as z from 'zod';
import { isObject, type JsonObject, parseJson } from '../../captures/json.ts';
import { describeValues, readValue } from '../../core/values/scorer-values.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import { UNSURE } from '../prompt/build-prompt.ts';
import { isPass } from '../scorers/values.ts';
import type { JudgeScorer, ModelAnswer } from '../types.ts';

export type Reading =
  | { kind: 'verdict'; value: AssessmentValue; rationale: string; chars: number }
  /** A value without a rationale. */
  | { kind: 'bare'; value: AssessmentValue; chars: number }
  | { kind: 'missing' }
  | { kind: 'value'; got: unknown; chars: number };

/** A rationale is a few sentences. A longer text shows that the model rambles. */
const MAX_RATIONALE_CHARS = 4000;

const entrySchema = z.looseObject({
  value: z.unknown().optional(),
  rationale: z.string().optional(),
  sure: z.unknown().optional(),
});

const keyOf = (name: string): string => name.toLowerCase().replaceAll(/[\s-]+/g, '_');

/** An answer, also in a code fence. */
const BEGINS = /^\s*(?:\{|```)/;

/** Removes a model's thinking from the beginning. The mark before it may be missing, because some templates put it into the prompt. */
const withoutThinking = (text: string): string =>
  BEGINS.test(text) ? text : (/<\/(?:think|thinking|reasoning)>([\s\S]*)$/.exec(text)?.[1] ?? text);

/** Maximum depth of a value. An answer has two levels. Deeper values could overflow the stack. */
const MAX_LEVELS = 32;
const isShallow = (value: unknown, levels = MAX_LEVELS): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1)));

/**
 * Returns the value of a text. An object with two answers to one question has none: all of its keys are null.
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

/**
 * Returns the object with answers to the scorers, around which nothing stands but a code fence. Neither words nor a wrapper are
 * passed over: the object may be quoted from the record, by a judge that states it does not follow it.
 */
function answerIn({ object, text, stop }: ModelAnswer, scorers: readonly JudgeScorer[]): JsonObject | undefined {
  const expected = new Set(scorers.map(({ name }) => keyOf(name)));
  const isAnswer = (value: unknown): value is JsonObject =>
    isObject(value) && Object.keys(value).some((key) => expected.has(keyOf(key)));
  if (isAnswer(object) && isShallow(object)) return object;
  const bare = withoutThinking(text);
  if (!BEGINS.test(bare)) return undefined;
  // A text that is cut inside a quotation may be beyond repair, but its complete entries are not.
  const complete = stop === 'cut' ? bare.slice(0, bare.lastIndexOf('}') + 1) : bare;
  return [parse(bare), parse(bare, jsonrepair), parse(complete, jsonrepair)].find(isAnswer);
}

function readEntry(scorer: JudgeScorer, entry: unknown): Reading {
  const chars = JSON.stringify(entry)?.length ?? 0;
  const parsed = entrySchema.safeParse(entry);
  // A bare `"safety": "yes"` is a value without a rationale.
  const given = parsed.success ? parsed.data.value : entry;
  if (given === undefined || given === null) return { kind: 'missing' };
  const value = readValue(scorer.values, given);
  if (given === UNSURE && scorer.asksIfSure) return { kind: 'missing' };
  if (value === undefined) return { kind: 'value', got: given, chars };
  // The first model of a cascade leaves to the second what it is not sure of.
  const sure = parsed.success ? parsed.data.sure : undefined;
  if (scorer.asksIfSure && (sure === false || (sure !== true && !scorer.isTerse))) return { kind: 'missing' };
  const rationale = parsed.success ? (parsed.data.rationale?.trim() ?? '') : '';
  const isEnough = scorer.isTerse && (scorer.asksIfSure || isPass(scorer, value));
  if (rationale === '' && !isEnough) return { kind: 'bare', value, chars };
  const text = rationale.length > MAX_RATIONALE_CHARS ? `${rationale.slice(0, MAX_RATIONALE_CHARS)}…` : rationale;
  return { kind: 'verdict', value, rationale: text, chars };
}

/** Reads the answer to these scorers. @returns a reading for each, in the same order; or why the answer cannot be read */
export function readAnswer(given: ModelAnswer, scorers: readonly JudgeScorer[]): Reading[] | string {
  const answer = answerIn(given, scorers);
  if (answer === undefined) return given.text.trim() === '' ? 'it was empty' : NO_OBJECT;
  const entries = new Map<string, unknown>();
  for (const [name, entry] of Object.entries(answer)) {
    const key = keyOf(name);
    // Two answers to one question are none.
    entries.set(key, entries.has(key) ? null : entry);
  }
  // The last entry of a truncated answer may be incomplete, so it is asked for again.
  const last = [...entries.keys()].at(-1);
  if (given.stop === 'cut' && last !== undefined) entries.delete(last);
  return scorers.map((scorer) => readEntry(scorer, entries.get(keyOf(scorer.name))));
}

const NO_OBJECT = 'it was not one JSON object with the questions in it, and nothing else';

/** Describes the problem with a scorer's answer, for people. */
export function problemOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind !== 'value') return correctionOf(scorer, reading);
  const got = JSON.stringify(reading.got) ?? String(reading.got);
  return `${scorer.name} had the value ${got.slice(0, 80)}, it must be ${describeValues(scorer.values)}`;
}

/** Describes the problem for the judge, without its own words, which may come from the record. */
export function correctionOf(scorer: JudgeScorer, reading: Reading): string {
  if (reading.kind === 'value') return `the value of ${scorer.name} must be ${describeValues(scorer.values)}`;
  if (reading.kind === 'bare') return `${scorer.name} had no rationale`;
  return `${scorer.name} was not answered`;
}
