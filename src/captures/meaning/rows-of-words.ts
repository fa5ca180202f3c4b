/** Reads the rows of a table as prompts, where words answer them. Rows that a label or a number answers stay a table. */
import NAMES from '../field-names.json' with { type: 'json' };
import { isObject } from '../json.ts';
import { endsSentence, hasProse, saysWords } from '../prose.ts';
import { messageText } from '../reply-text.ts';
import type { Inference } from '../types.ts';
import { withBeside } from '../wire/beside.ts';
import { flattened } from '../wire/messages.ts';
import { asksForTalk, isAsking, promptsIn, readGenericReply, readWireReply } from '../wire/registry.ts';
import { fieldsOf, type WirePrompt, type WireReply, without } from '../wire/wire-format.ts';

/** Number of rows that are searched for questions and answers in words. A table may have a million. */
const MAX_LOOKED = 100;

type Talk = { prompt: WirePrompt; reply: WireReply | undefined };

/**
 * @param request document around the rows, with other prompt fields next to them
 * @returns `undefined` for a table, decided by its first rows: a row has no words, replies are missing or differ in
 *   number, or they may be labels. If neither side has the form of a question or an answer, at least one reply must be
 *   a sentence.
 */
export function talkIn(rows: readonly Inference[], request: unknown): Talk | undefined {
  if (rows.length > MAX_LOOKED && talkIn(rows.slice(0, MAX_LOOKED), request) === undefined) return undefined;
  const [first, ...others] = rows.map(({ features }) => features);
  const inRows = promptsIn([first]) && promptsIn([first, ...others]);
  if (inRows === undefined) return undefined;
  const outer = without(fieldsOf(request), ...NAMES.rowFields, ...Object.keys(rows[0]?.features ?? {}));
  const prompt = withBeside({ ...inRows, parameters: { ...flattened(outer), ...inRows.parameters } });
  if (rows.every((row) => !('prediction' in row))) return isAsking(prompt) ? { prompt, reply: undefined } : undefined;
  const found = rows.flatMap(({ prediction }) => replyIn(prediction) ?? []);
  const [read] = found;
  const isEven = found.every((reply) => reply.replies.length === read?.replies.length);
  if (read === undefined || found.length < rows.length || !isEven) return undefined;
  const [asks, answers] = [isAsking(prompt), found.every(({ isAnswer }) => isAnswer)];
  const replies = found.flatMap((reply) => reply.replies);
  const isSaid = (text: string): boolean => (asks || answers ? saysWords(text) : hasProse(text) && endsSentence(text));
  // A single word may answer a chat.
  if (!(asks && (answers || prompt.format === 'chat')) && !replies.map(messageText).some(isSaid)) return undefined;
  return { prompt, reply: { ...read, replies, finishReasons: found.flatMap((reply) => reply.finishReasons) } };
}

/** @returns the replies in a prediction, and whether its form marks it as an answer */
function replyIn(prediction: unknown): (WireReply & { isAnswer: boolean }) | undefined {
  const value = Array.isArray(prediction) && prediction.length === 1 ? prediction[0] : prediction;
  const texts = isObject(value) ? Object.entries(value).filter(([, text]) => typeof text === 'string') : [];
  const [[name, text] = ['', undefined], ...others] = texts;
  const isOnly = others.length === 0 && !NAMES.classes.includes(name.toLowerCase());
  const reply = readWireReply(value) ?? readGenericReply(value) ?? (isOnly ? readGenericReply(text) : undefined);
  return reply && { ...reply, isAnswer: asksForTalk(reply) || texts.some(([known]) => NAMES.answers.includes(known)) };
}
