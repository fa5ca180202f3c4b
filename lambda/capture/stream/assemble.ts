/**
 * Puts the events of a streamed reply together to the document that the same server would have sent unstreamed, so
 * that all behind it reads streamed and unstreamed replies alike.
 */
import { isObject, type JsonObject } from '../json.ts';
import { assembleAnthropic, assembleConverse } from './blocks.ts';
import type { EventStream } from './events.ts';
import { assembleChat, assembleCompletion } from './openai.ts';
import {
  assembleCohere,
  assembleGemini,
  assembleOllama,
  assembleResponses,
  assembleText,
  assembleTgi,
} from './vendors.ts';

/** A reply put together from events of one dialect. */
export interface Assembly {
  value: JsonObject;
  /** The stream told its end: a finish reason, a last event. `undefined` where its dialect does not tell. */
  ended: boolean | undefined;
}

export interface Assembled {
  value: unknown;
  /** As in `Assembly`. */
  ended: boolean | undefined;
  notes: string[];
}

/** In server-sent events any text is a piece of the reply; JSON Lines may as well be rows of a table. */
export type StreamSource = 'events' | 'lines';

/** @returns `undefined` when the events are of another dialect. */
type Assembler = (events: JsonObject[]) => Assembly | undefined;

const ASSEMBLERS: readonly Assembler[] = [
  assembleChat,
  assembleCompletion,
  assembleAnthropic,
  assembleConverse,
  assembleResponses,
  assembleGemini,
  assembleCohere,
  assembleTgi,
  assembleOllama,
];

/** @returns `undefined` when no dialect fits; never throws. */
export function assembleStream(stream: EventStream, source: StreamSource): Assembled | undefined {
  const documents = stream.events.map((event) => event.data);
  const objects = documents.filter(isObject);
  // An error may be the only event, or the last one of a reply that began well.
  const error = source === 'events' ? objects.find(isErrorEvent) : undefined;
  const content = error === undefined ? objects : objects.filter((event) => event !== error);
  if (source === 'events' && objects.length === 0) return assemblePlain(documents, stream);
  const assembly = content.length === 0 ? undefined : firstFit(content, source);
  if (assembly === undefined) {
    return error === undefined ? undefined : { value: error, ended: undefined, notes: [] };
  }
  if (error !== undefined) {
    return {
      value: { ...assembly.value, error: error.error ?? error.message },
      ended: assembly.ended,
      notes: ['the stream ends with an error'],
    };
  }
  return { ...assembly, notes: endNotes(stream.done || assembly.ended) };
}

function endNotes(ended: boolean | undefined): string[] {
  if (ended === undefined) return ['the stream does not tell its end: whether it is whole is not known'];
  return ended ? [] : ['the stream breaks off before its end was told'];
}

function firstFit(events: JsonObject[], source: StreamSource): Assembly | undefined {
  for (const assemble of source === 'events' ? [...ASSEMBLERS, assembleText] : ASSEMBLERS) {
    const assembly = assemble(events);
    if (assembly !== undefined) return assembly;
  }
  return undefined;
}

const isErrorEvent = (event: JsonObject): boolean =>
  isObject(event.error) ||
  event.object === 'error' ||
  (typeof event.error === 'string' && event.error !== '' && !('choices' in event) && !('token' in event));

/** Bare text behind `data:`: the reply is all of it. */
function assemblePlain(documents: unknown[], stream: EventStream): Assembled | undefined {
  if (documents.length === 0 || !documents.every((data) => typeof data === 'string')) return undefined;
  const ended = stream.done || undefined;
  return { value: { generated_text: documents.join('') }, ended, notes: endNotes(ended) };
}
