/** Whether a reply is still right, as far as it can be told without a judge. */
import { parseJson } from '../../formats/json.ts';
import { toNamedError } from '../../shared/errors.ts';
import { compareJson, type JsonComparison } from './json-diff.ts';
import type { ComparableReply } from './reply.ts';
import { isRefusal, readAlike, wordOverlap, wordsOf } from './text.ts';

/** What happened to the success of the call. */
type StatusChange = 'both-ok' | 'both-failed' | 'newly-failing' | 'newly-succeeding';

export interface ReplyComparison {
  status: StatusChange;
  /** To the byte, as far as the content goes (ids, times and usage of the envelope do not count). */
  identical: boolean;
  /** After normalising Unicode, case, quotes and spacing; for documents: equal values. */
  same: boolean;
  /** F1 of the shared words, 0 to 1; there for texts. */
  overlap?: number;
  /** Words before and after; there for texts. */
  words?: [before: number, after: number];
  /** There when either side is JSON: a reply without text, or a text that is a JSON document. */
  json?: { before: boolean; after: boolean } & Partial<JsonComparison>;
  /** A model that declines; there for texts. */
  refusal?: { before: boolean; after: boolean };
  /** Names of the called tools are the same in the same order; there when either side calls one. */
  sameTools?: boolean;
  /** Name of the error for which there is no more than the status. */
  problem?: string;
}

const statusOf = (before: ComparableReply, after: ComparableReply): StatusChange =>
  before.ok ? (after.ok ? 'both-ok' : 'newly-failing') : after.ok ? 'newly-succeeding' : 'both-failed';

const FENCE = '```';

/** What stands in a fence of three backticks; other texts as they are. */
function unfenced(text: string): string {
  if (!text.startsWith(FENCE) || !text.endsWith(`\n${FENCE}`)) return text;
  const opened = text.indexOf('\n');
  const language = text.slice(FENCE.length, opened).trim();
  return language === '' || language === 'json' ? text.slice(opened + 1, -FENCE.length).trim() : text;
}

/** A text that is a JSON document, bare or in a fence. */
function documentIn(text: string): { value: unknown } | undefined {
  const inner = unfenced(text.trim());
  if (!/^[[{]/.test(inner)) return undefined;
  const parsed = parseJson(inner);
  return parsed.ok ? { value: parsed.value } : undefined;
}

const documentOf = (reply: ComparableReply): { value: unknown } | undefined =>
  reply.document === undefined ? documentIn(reply.text) : { value: reply.document };

/** What the further choices say, each beside the one of the same place. */
const furtherPairs = ({ further: before = [] }: ComparableReply, { further: after = [] }: ComparableReply) =>
  Array.from({ length: Math.max(before.length, after.length) }, (_, i) => [before[i], after[i]] as const);

const toolNames = (calls: unknown[] | undefined): string =>
  JSON.stringify((calls ?? []).map((call) => (call as { function?: { name?: unknown } })?.function?.name ?? null));

/** Arguments as their values: models write the same object in many ways. */
function toolCallsEqual(before: unknown[] | undefined, after: unknown[] | undefined): boolean {
  const values = (calls: unknown[] | undefined): unknown[] =>
    (calls ?? []).map((call) => {
      const { name, arguments: given } =
        (call as { function?: { name?: unknown; arguments?: unknown } })?.function ?? {};
      return [name, typeof given === 'string' ? (documentIn(given)?.value ?? given) : given];
    });
  return compareJson(values(before), values(after)).differences.length === 0;
}

/** Whatever a reply does to what compares it, it is that pair which cannot be compared. */
export function compareReplies(before: ComparableReply, after: ComparableReply): ReplyComparison {
  const status = statusOf(before, after);
  try {
    return compared(status, before, after);
  } catch (error) {
    return { status, identical: false, same: false, problem: toNamedError(error).name };
  }
}

function compared(status: StatusChange, before: ComparableReply, after: ComparableReply): ReplyComparison {
  if (status !== 'both-ok') {
    const identical = status === 'both-failed' && before.error?.code === after.error?.code;
    return { status, identical, same: identical };
  }
  const sameTools = toolNames(before.toolCalls) === toolNames(after.toolCalls);
  const equalCalls = toolCallsEqual(before.toolCalls, after.toolCalls);
  const further = furtherPairs(before, after);
  const result: ReplyComparison = {
    status,
    identical:
      before.text === after.text && before.digest === after.digest && equalCalls && further.every(([a, b]) => a === b),
    same: false,
    ...(before.toolCalls || after.toolCalls ? { sameTools } : {}),
  };
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
      Object.assign(result.json, compareJson(documents[0].value, documents[1].value));
      equalDocuments = result.json.differences?.length === 0;
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

/** What went from right to wrong, the worst first; empty for a reply that is no worse as far as can be told. */
export const REGRESSIONS = [
  'newly-failing',
  'not-comparable',
  'new-refusal',
  'json-broken',
  'json-structure',
  'tools-changed',
  'judged-worse',
  'little-in-common',
] as const;
export type Regression = (typeof REGRESSIONS)[number];

/** Below this share of words in common, two answers to the same question are seldom the same answer. */
const LITTLE_IN_COMMON = 0.2;

export function regressionsOf(comparison: ReplyComparison): Regression[] {
  const { status, refusal, json, sameTools, overlap } = comparison;
  const found: Regression[] = [];
  if (status === 'newly-failing') found.push('newly-failing');
  if (comparison.problem) found.push('not-comparable');
  if (refusal?.after && !refusal.before) found.push('new-refusal');
  if (json?.before && !json.after) found.push('json-broken');
  if (json?.before && json.after && json.sameStructure === false) found.push('json-structure');
  if (sameTools === false) found.push('tools-changed');
  if (overlap !== undefined && overlap < LITTLE_IN_COMMON && !comparison.same) found.push('little-in-common');
  return found;
}
