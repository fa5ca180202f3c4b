/** Builds the record of a capture as a scorer function gets it. */
import { hash } from 'node:crypto';
import { ofContent } from '../../captures/content.ts';
import { capturePathOf } from '../../captures/files/capture-path.ts';
import { lastUserTexts, messageText, replyTexts, type Texts } from '../../captures/reply-text.ts';
import type { Capture, ChatMessage, LinePlace, Payload } from '../../captures/types.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import { QUESTION_DIGITS } from '../question.ts';
import { MAX_SIDE_BYTES, type ScorerRecord } from './contract.ts';

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** Room for the other members of a message with a text that is cut. */
const MESSAGE_BYTES = 200;

/** Returns the beginning of a text that takes at most as many bytes as JSON. */
function cutText(text: string, mostBytes: number): string {
  let kept = text.slice(0, mostBytes);
  for (let bytes = jsonBytes(kept); bytes > mostBytes; bytes = jsonBytes(kept))
    kept = kept.slice(0, Math.floor((kept.length * mostBytes) / bytes) - 1);
  return kept.length < text.length ? kept.toWellFormed() : text;
}

/** Returns the last messages that fit, at least a part of the last. */
function lastMessages(messages: readonly ChatMessage[]): ChatMessage[] {
  const kept: ChatMessage[] = [];
  let left = MAX_SIDE_BYTES;
  for (const message of messages.toReversed()) {
    left -= jsonBytes(message);
    if (left < 0) break;
    kept.unshift(message);
  }
  const last = messages.at(-1);
  if (kept.length > 0 || last === undefined) return kept;
  const role = cutText(String(last.role), MESSAGE_BYTES / 2);
  return [{ role, content: cutText(messageText(last), MAX_SIDE_BYTES - MESSAGE_BYTES) }];
}

/** @returns `undefined` if the side was not captured */
function sideOf(payload: Payload | undefined, messages: readonly ChatMessage[], words: Texts) {
  if (payload === undefined || payload.kind === 'empty') return undefined;
  const { value } = payload;
  const body = payload.text ?? (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));
  const whole = 'texts' in words ? words.texts.join('\n') : body;
  const side = { messages: lastMessages(messages), text: cutText(whole, MAX_SIDE_BYTES) };
  const hasAll = side.messages.length === messages.length && side.messages[0] === messages[0];
  return { side, isCut: !hasAll || side.text !== whole };
}

/** Returns the words of a capture, which are the same for every scorer. */
export const sidesOf = (capture: Capture): Pick<ScorerRecord, 'request' | 'reply' | 'cut'> =>
  ofContent(capture, 'scorer record', () => {
    const { messages = [], replies = [] } = capture.conversation ?? {};
    const request = sideOf(capture.request, messages, lastUserTexts(capture));
    const reply = sideOf(capture.response, replies, replyTexts(capture));
    const cut = [request?.isCut && ('request' as const), reply?.isCut && ('reply' as const)].filter((name) => !!name);
    return { request: request?.side, reply: reply?.side, ...(cut.length > 0 && { cut }) };
  });

/** The facts of a record that its capture does not have. A label may have come before the verdict. */
export interface RecordSource {
  traceId: string;
  raw: { place: Pick<LinePlace, 'key'> };
  stored?: Pick<StoredTrace, 'assessments'> | undefined;
}

/**
 * Returns the record of a capture, masked as the capture is.
 *
 * @example
 *     const { record, digest } = scorerRecord(capture, line);
 */
export function scorerRecord(capture: Capture, { traceId, raw, stored }: RecordSource) {
  const { inferenceTimeMs, call, usage = {} } = capture;
  const { inputTokens: input, outputTokens: output } = usage;
  const expected = stored?.assessments.find(({ isExpectation, valid }) => isExpectation && valid)?.value;
  const facts = {
    ...{ variant: capturePathOf(raw.place.key).variant, ...sidesOf(capture) },
    ...(expected !== undefined && { expectation: String(expected) }),
    ...(call && { durationMs: call.endMs, firstTokenMs: call.firstTokenMs }),
    ...(input === undefined && output === undefined ? {} : { tokens: { input, output } }),
  };
  const record: ScorerRecord = { traceId, time: new Date(inferenceTimeMs).toISOString(), ...facts };
  /** The digest of a record for a function: of all but its trace and time, as equal exchanges get the same answer. */
  const digest = (sourceId: string): string =>
    hash('sha256', JSON.stringify([sourceId, facts])).slice(0, QUESTION_DIGITS);
  return { record, digest };
}
