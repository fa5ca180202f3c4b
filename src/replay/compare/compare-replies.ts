/** Compares a new reply with an old one without a judge: shared words, equality for readers, tool calls, refusals. */

import { isBlankText } from '../../captures/blank.ts';
import { parseJson } from '../../captures/json.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { ReplyKind } from '../reply/content.ts';
import type { ComparableReply } from './reply.ts';

/** How the outcome of the call changed. */
type StatusChange = 'both-ok' | 'both-failed' | 'newly-failing' | 'newly-succeeding';

export interface ReplyComparison {
  status: StatusChange;
  /** The content is equal byte by byte. The envelope's ids, times and usage do not count. */
  identical: boolean;
  /** Equal after normalizing Unicode, case, quotes and spacing; for documents: equal values. */
  same: boolean;
  /** The new reply has no content, or neither words nor a tool call where the earlier one had some. */
  emptied?: true;
  /** Kinds of the two replies, if they are different: JSON before and a page after, for example. */
  kinds?: [before: ReplyKind, after: ReplyKind];
  /** F1 of the shared words, 0 to 1; set for texts. */
  overlap?: number;
  /** Number of words before and after; set for texts. */
  words?: [before: number, after: number];
  /** Set if either side is JSON: a reply without text, or a text that is a JSON document. */
  json?: { before: boolean; after: boolean } & Partial<JsonComparison>;
  /** Whether each reply is a refusal; set for texts. */
  refusal?: { before: boolean; after: boolean };
  /** Whether the same tools are called in the same order; set if either side calls one. */
  sameTools?: boolean;
  /** Name of the error that stopped the comparison. If set, only the status is known. */
  problem?: string;
}

const statusOf = (before: ComparableReply, after: ComparableReply): StatusChange =>
  before.ok ? (after.ok ? 'both-ok' : 'newly-failing') : after.ok ? 'newly-succeeding' : 'both-failed';

const FENCE = '```';

/** Removes a fence of three backticks around the text. */
function unfenced(text: string): string {
  if (!text.startsWith(FENCE) || !text.endsWith(`\n${FENCE}`)) return text;
  const opened = text.indexOf('\n');
  const language = text.slice(FENCE.length, opened).trim();
  return language === '' || language === 'json' ? text.slice(opened + 1, -FENCE.length).trim() : text;
}

/** Parses a text that is a JSON document, with or without a fence. */
function documentIn(text: string): { value: unknown } | undefined {
  const inner = unfenced(text.trim());
  if (!/^[[{]/.test(inner)) return undefined;
  const parsed = parseJson(inner);
  return parsed.ok ? { value: parsed.value } : undefined;
}

const documentOf = (reply: ComparableReply): { value: unknown } | undefined =>
  reply.document === undefined ? documentIn(reply.text) : { value: reply.document };

/** The other choices in pairs, by their position. */
const furtherPairs = ({ further: before = [] }: ComparableReply, { further: after = [] }: ComparableReply) =>
  Array.from({ length: Math.max(before.length, after.length) }, (_, i) => [before[i], after[i]] as const);

const toolNames = ({ toolCalls = [] }: ComparableReply): string =>
  JSON.stringify(toolCalls.map((call) => call.function.name));

/** Names and arguments as values, because models write the same object in many ways. */
const toolValues = ({ toolCalls = [] }: ComparableReply): unknown[] =>
  toolCalls.map(({ function: { name, arguments: given } }) => [name, documentIn(given)?.value ?? given]);

/** Returns the texts of all choices. JSON in an unknown form has no texts. */
const textsOf = ({ unread, text, further = [] }: ComparableReply): string[] => (unread ? [] : [text, ...further]);

function isEmptied(before: ComparableReply, after: ComparableReply): boolean {
  if (!before.ok || before.blank) return false;
  if (after.blank) return true;
  if (!after.ok || after.digest !== undefined || after.toolCalls) return false;
  const texts = textsOf(after);
  const isGone = (was: string, i: number): boolean => !isBlankText(was) && isBlankText(texts[i] ?? '');
  return textsOf(before).some(isGone) || (before.toolCalls !== undefined && isBlankText(texts[0] ?? ''));
}

/** Never throws: an error affects only this pair. */
export function compareReplies(before: ComparableReply, after: ComparableReply): ReplyComparison {
  const status = statusOf(before, after);
  const emptied = isEmptied(before, after) ? { emptied: true as const } : {};
  try {
    return { ...compared(status, before, after), ...emptied };
  } catch (error) {
    return { status, identical: false, same: false, problem: toNamedError(error).name, ...emptied };
  }
}

function compared(status: StatusChange, before: ComparableReply, after: ComparableReply): ReplyComparison {
  if (status !== 'both-ok') {
    const identical = status === 'both-failed' && before.error?.code === after.error?.code;
    return { status, identical, same: identical };
  }
  const sameTools = toolNames(before) === toolNames(after);
  const equalCalls = compareJson(toolValues(before), toolValues(after)).equal;
  const further = furtherPairs(before, after);
  const result: ReplyComparison = {
    status,
    identical:
      before.text === after.text && before.digest === after.digest && equalCalls && further.every(([a, b]) => a === b),
    same: false,
    ...(before.toolCalls || after.toolCalls ? { sameTools } : {}),
  };
  if (before.kind && after.kind && before.kind !== after.kind) result.kinds = [before.kind, after.kind];
  if (before.text !== '' || after.text !== '') {
    const [was, is] = [wordsOf(before.text), wordsOf(after.text)];
    result.overlap = wordOverlap(was.words, is.words);
    result.words = [was.count, is.count];
    result.refusal = { before: isRefusal(before.text), after: isRefusal(after.text) };
  }
  const documents = [documentOf(before), documentOf(after)] as const;
  let equalDocuments = true;
  if (documents[0] || documents[1]) {
    result.json = { before: documents[0] !== undefined, after: documents[1] !== undefined };
    if (documents[0] && documents[1]) {
      const found = compareJson(documents[0].value, documents[1].value);
      Object.assign(result.json, found);
      equalDocuments = found.equal;
      if (before.document !== undefined)
        result.identical &&= equalDocuments && JSON.stringify(before.document) === JSON.stringify(after.document);
    } else {
      equalDocuments = false;
      result.identical = false;
    }
  }
  const equalText =
    (documents[0] && documents[1] ? equalDocuments : readAlike(before.text, after.text)) &&
    further.every(([was = '', is = '']) => readAlike(was, is));
  result.same = result.identical || (equalText && equalDocuments && equalCalls && before.digest === after.digest);
  return result;
}

/** Ways in which a reply can get worse, the gravest first. */
export const REGRESSIONS = [
  'new-harm',
  'newly-failing',
  'empty-reply',
  'not-comparable',
  'another-kind',
  'new-refusal',
  'json-broken',
  'json-structure',
  'tools-changed',
  'judged-worse',
  'little-in-common',
] as const;
export type Regression = (typeof REGRESSIONS)[number];

/** Below this overlap, two replies to the same question are rarely the same answer. */
const LITTLE_IN_COMMON = 0.2;

/** Lists the ways in which the reply got worse; empty if no regression is found. */
export function regressionsOf(comparison: ReplyComparison): Regression[] {
  const { status, emptied, kinds, refusal, json, sameTools, overlap } = comparison;
  const found: Regression[] = [];
  if (status === 'newly-failing') found.push('newly-failing');
  if (emptied) found.push('empty-reply');
  if (comparison.problem) found.push('not-comparable');
  if (kinds) found.push('another-kind');
  if (refusal?.after && !refusal.before) found.push('new-refusal');
  if (json?.before && !json.after) found.push('json-broken');
  if (json?.before && json.after && json.sameStructure === false) found.push('json-structure');
  if (sameTools === false) found.push('tools-changed');
  if (overlap !== undefined && overlap < LITTLE_IN_COMMON && !comparison.same) found.push('little-in-common');
  return found;
}

/** Removes differences that readers do not see: Unicode compatibility forms, quotes, case and spacing. */
export const normalize = (text: string): string =>
  text.normalize('NFKC').replace(/[‘’‛]/g, "'").replace(/[“”]/g, '"').replace(/\s+/g, ' ').trim().toLowerCase();

/** Maximum length of a compared text, in characters: a text of megabytes would delay sending by a second. */
const MAX_COMPARED = 256 * 1024;

/** Whether two texts look the same to a reader. Texts above the limit must be identical. */
const readAlike = (a: string, b: string): boolean =>
  a === b || (Math.max(a.length, b.length) <= MAX_COMPARED && normalize(a) === normalize(b));

/** Words and, for scripts without spaces, single characters. For a longer text, `count` is extrapolated from its beginning. */
export function wordsOf(text: string): { words: string[]; count: number } {
  const begin = text.slice(0, MAX_COMPARED).toLowerCase();
  const word = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{N}]+/gu;
  const words = begin.match(word) ?? [];
  return { words, count: Math.round((words.length * text.length) / Math.max(1, Math.min(text.length, MAX_COMPARED))) };
}

/**
 * F1 of the shared words with their multiplicity (ROUGE-1): 1 for the same words, 0 for no shared word.
 *
 * @example
 *     wordOverlap(['a', 'b'], ['b', 'c'])   // 0.5
 */
export function wordOverlap(a: readonly string[], b: readonly string[]): number {
  if (a.length === 0 && b.length === 0) return 1;
  if (a.length === 0 || b.length === 0) return 0;
  const counts = new Map<string, number>();
  for (const word of a) counts.set(word, (counts.get(word) ?? 0) + 1);
  let shared = 0;
  for (const word of b) {
    const left = counts.get(word) ?? 0;
    if (left === 0) continue;
    counts.set(word, left - 1);
    shared++;
  }
  return (2 * shared) / (a.length + b.length);
}

/** Beginnings of refusals. A heuristic for common English, German, French and Spanish forms. */
const REFUSALS = [
  /^(i'?m (really |very )?sorry|sorry|i apologi[sz]e|unfortunately)\b.{0,60}\b(can'?t|cannot|can not|unable|won'?t|not able|not (allowed|permitted))\b/,
  /^i (can'?t|cannot|can not|could not|won'?t|will not|must decline|am unable|'m unable|am not able|'m not able)\b/,
  /^i'm (unable|not able|not allowed)\b/,
  /^as an ai\b.{0,80}\b(can'?t|cannot|unable|not able|don'?t)\b/,
  /^(es tut mir leid|leider)\b.{0,60}\b(kann|darf) (ich )?(dir |ihnen |dabei |dazu |das |diese )*.{0,30}nicht\b/,
  /^(je suis désolée?|désolée?)\b.{0,60}\bne (peux|puis) pas\b/,
  /^lo siento\b.{0,60}\bno puedo\b/,
];
/** Number of characters at the beginning of a text that are searched for a refusal. */
const REFUSAL_CHARACTERS = 240;

export function isRefusal(text: string): boolean {
  const start = normalize(text.slice(0, REFUSAL_CHARACTERS * 2)).slice(0, REFUSAL_CHARACTERS);
  return REFUSALS.some((pattern) => pattern.test(start));
}

// ---------------------------------------------------------------------------------------------------------------- JSON
// Compares two JSON values: whether they are equal, and if not, whether they have the same structure.

export interface JsonComparison {
  equal: boolean;
  /** Whether keys, types and list lengths are the same, and no text has become empty. */
  sameStructure: boolean;
}

/** Deeper values are compared as text, to bound the recursion over untrusted input. */
const MAX_DEPTH = 64;
/** Relative difference up to which two numbers are equal: the same number, written or computed differently. */
const NUMBER_TOLERANCE = 1e-9;

const typeOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value);

const hasLostText = (before: unknown, after: unknown): boolean =>
  typeof before === 'string' && typeof after === 'string' && isBlankText(after) && !isBlankText(before);

export function compareJson(before: unknown, after: unknown, depth = 0): JsonComparison {
  const type = typeOf(before);
  if (type !== typeOf(after) || hasLostText(before, after)) return { equal: false, sameStructure: false };
  if (depth >= MAX_DEPTH || (type !== 'object' && type !== 'list'))
    return { equal: areEqual(before, after), sameStructure: true };
  const [was, is] = [before as Record<string, unknown>, after as Record<string, unknown>];
  const keys = Object.keys(was);
  const sameStructure = keys.length === Object.keys(is).length && keys.every((key) => Object.hasOwn(is, key));
  const found = { equal: sameStructure, sameStructure };
  for (const key of keys) {
    if (!found.sameStructure) break;
    const inner = compareJson(was[key], is[key], depth + 1);
    found.equal &&= inner.equal;
    found.sameStructure = inner.sameStructure;
  }
  return found;
}

function areEqual(before: unknown, after: unknown): boolean {
  if (typeof before !== 'number' || typeof after !== 'number')
    return before === after || JSON.stringify(before) === JSON.stringify(after);
  return Math.abs(before - after) <= NUMBER_TOLERANCE * Math.max(Math.abs(before), Math.abs(after));
}
