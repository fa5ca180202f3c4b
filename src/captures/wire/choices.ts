/** Reads the `choices` of OpenAI’s replies, whole and streamed. */
import type { JsonObject } from '../json.ts';
import { type Assembly, fieldsOf, numberOr, objectsIn } from './wire-format.ts';

/** Returns the choices in the order of their index. `undefined` when the list is empty, or contains another kind of value. */
export function choicesOf(body: JsonObject, isOurs: (choice: JsonObject) => boolean): JsonObject[] | undefined {
  const choices = objectsIn(body.choices);
  if (choices.length === 0 || choices.length < (body.choices as unknown[]).length || !choices.every(isOurs))
    return undefined;
  return choices.toSorted((a, b) => numberOr(a.index, 0) - numberOr(b.index, 0));
}

const byIndex = <T>(map: Map<number, T>): [number, T][] => [...map].sort(([a], [b]) => a - b);

/** Fields that chunks share. The last value wins, since usage comes with the last chunk. */
const COMMON_FIELDS = ['id', 'created', 'model', 'system_fingerprint', 'service_tier', 'usage'];

/**
 * Assembles streamed choices to a reply.
 *
 * @param object `object` of the reply.
 * @param begin creates an empty choice.
 * @param add adds the choice's part of one event.
 * @param finish returns the fields of the unstreamed choice.
 */
export function assembleChoices<T>(
  object: string,
  events: JsonObject[],
  begin: () => T,
  add: (choice: T, item: JsonObject) => void,
  finish: (choice: T) => JsonObject,
): Assembly {
  const common: JsonObject = {};
  const choices = new Map<number, { content: T; reason: unknown }>();
  for (const event of events) {
    for (const name of COMMON_FIELDS) common[name] = event[name] ?? common[name];
    common.usage = fieldsOf(event.x_groq).usage ?? common.usage;
    for (const item of objectsIn(event.choices)) {
      const index = numberOr(item.index, 0);
      const choice = choices.get(index) ?? { content: begin(), reason: null };
      choices.set(index, choice);
      add(choice.content, item);
      choice.reason = item.finish_reason ?? choice.reason;
      common.usage = item.usage ?? common.usage;
    }
  }
  const assembled = byIndex(choices).map(([index, { content, reason }]) => ({
    index,
    ...finish(content),
    finish_reason: reason,
  }));
  const said = Object.fromEntries(Object.entries(common).filter(([, value]) => value !== undefined));
  return {
    value: { object, ...said, choices: assembled },
    ended: assembled.every((choice) => choice.finish_reason !== null),
  };
}
