/** Reads the fields next to a prompt: system prompts, earlier turns, documents, and media in base64. */
import NAMES from '../field-names.json' with { type: 'json' };
import { isObject, toJson } from '../json.ts';
import { isMediaMark, withoutMedia } from '../media.ts';
import { containsProse, hasProse } from '../prose.ts';
import type { ChatMessage } from '../types.ts';
import { allMessages, isMessageList, systemMessages, userMessages } from './messages.ts';
import { fieldsOf, type ReadPrompt, textsOf, without } from './wire-format.ts';

const textOf = ({ content, tool_calls: calls }: ChatMessage): string =>
  typeof content === 'string' ? content : (toJson(content ?? calls) ?? '');

/** Writes messages as one text, with the roles of several where they matter. */
export const transcript = (messages: ChatMessage[], hasRoles = messages.length > 1): string =>
  messages.map((message) => (hasRoles ? `${message.role}: ` : '') + textOf(message)).join('\n\n');

/** Returns the texts in a value: in documents, in lists of documents, and in their fields. */
function textsIn(value: unknown): string[] {
  const isFields = isObject(value);
  const texts = isFields || Array.isArray(value) ? Object.values(value).flatMap(textsIn) : textsOf([value]);
  return isFields && texts.length > 0 ? [texts.join('\n')] : texts;
}

/**
 * Reads earlier turns: messages, pairs of a question and its answer (lists or objects), or texts of which the last is an
 * answer.
 *
 * @param answers to questions without them
 */
function turnsIn(value: unknown, answers?: unknown[]): ChatMessage[] {
  // A single word is the id of a conversation.
  if (!Array.isArray(value)) return userMessages(textsIn(value).filter((text) => hasProse(text)));
  if (isMessageList(value)) return allMessages(value);
  const isTexts = answers === undefined && value.every((turn) => typeof turn === 'string');
  const pairs = value.map((turn, at) => (answers ? [turn, answers[at]] : Object.values(turn ?? []).slice(0, 2)));
  const said = isTexts ? value : pairs.flat();
  const roleAt = (at: number): string => ((isTexts ? said.length - at : at) % 2 === 1 ? 'assistant' : 'user');
  return said.flatMap((part, at) => textsIn(part).map((content) => ({ role: roleAt(at), content })));
}

/** Moves the fields next to a prompt in front of it. In a batch they become part of each prompt. */
export function withBeside<T extends ReadPrompt>(prompt: T): T {
  const { parameters, messages, batch } = prompt;
  const taken = ['generated_responses'];
  const take = (names: readonly string[], read: (value: unknown) => ChatMessage[]): ChatMessage[] =>
    names.flatMap((name) => {
      const found = read(parameters[name]);
      if (found.length > 0) taken.push(name);
      return found;
    });
  const before = [
    ...take(NAMES.system, (value) => systemMessages(fieldsOf(value).parts ?? value)),
    ...take(NAMES.history, turnsIn),
    ...take(['past_user_inputs'], (value) => turnsIn(value, [parameters.generated_responses].flat())),
  ];
  // An object may be a setting, such as the format of a text.
  const context = [
    ...take([...NAMES.asking, ...NAMES.context], (value) => (isObject(value) ? [] : userMessages(textsIn(value)))),
    ...take(Object.keys(parameters), (value) => userMessages(textsIn(value).map(withoutMedia).filter(isMediaMark))),
  ];
  if (taken.length === 1) return prompt;
  const about = context.length > 0 ? userMessages([transcript(context, false)]) : [];
  const rest = { ...prompt, parameters: without(parameters, ...taken) };
  // Behind an answer comes the question.
  const isAnswered = messages.at(-1)?.role === 'assistant';
  const last = isAnswered ? messages.length : messages.findLastIndex(({ role }) => role === 'user');
  const all = [...before, ...messages.slice(0, last), ...about, ...messages.slice(last)];
  const prompts = batch?.map((text) => transcript([...before, ...about, ...userMessages([text])], false));
  return prompts ? { ...rest, messages: userMessages(prompts), batch: prompts } : { ...rest, messages: all };
}

/** Returns the names of parameters that contain words and are not settings, and so are not read. */
export const unreadIn = (parameters: Record<string, unknown>): string[] =>
  Object.keys(parameters).filter((name) => !NAMES.settings.includes(name) && containsProse(parameters[name]));
