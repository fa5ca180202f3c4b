/** Decoded captures, for tests of the code after the decoder. */
import type { Capture, ChatMessage, Conversation, Payload } from '../../src/captures/types.ts';

/** A payload of a text, or of JSON. */
export const payload = (value: unknown, extra: Partial<Payload> = {}): Payload => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return {
    contentType: 'application/json',
    encoding: 'JSON',
    kind: typeof value === 'string' ? 'text' : 'json',
    value,
    text,
    bytes: Buffer.byteLength(text),
    ...extra,
  };
};

const base = {
  eventId: '6f7a1c1e-6d3a-4c39-9a55-3a8c9a1f0a11',
  inferenceId: '6f7a1c1e-6d3a-4c39-9a55-3a8c9a1f0a11',
  inferenceTimeMs: Date.UTC(2026, 10, 20, 9, 0, 0),
  timeSource: 'inferenceTime' as const,
  attributes: {},
  notes: [],
};

/** Returns a chat, from its messages or the text of the user, and the text of the reply or a message per choice. */
export function chatCapture(
  request: string | ChatMessage[],
  reply: string | ChatMessage[] | undefined,
  extra: Partial<Conversation> & { usage?: Capture['usage'] } = {},
): Capture {
  const { usage, ...conversation } = extra;
  const messages = typeof request === 'string' ? [{ role: 'user', content: request }] : request;
  const replies =
    reply === undefined ? [] : typeof reply === 'string' ? [{ role: 'assistant', content: reply }] : reply;
  return {
    ...base,
    format: 'chat',
    request: payload({ messages }),
    ...(reply === undefined ? {} : { response: payload({ choices: replies.map((message) => ({ message })) }) }),
    conversation: { messages, replies, parameters: {}, jsonRequested: false, finishReasons: [], ...conversation },
    ...(usage === undefined ? {} : { usage }),
  };
}

/** Returns a capture whose reply is an error with a JSON or plain-text body. */
export function errorCapture(body: unknown, message = 'Model error', statusCode = 424): Capture {
  return {
    ...base,
    format: 'error',
    request: payload({ messages: [{ role: 'user', content: 'Hello there' }] }),
    response: payload(body, { contentType: null, encoding: 'BASE64' }),
    conversation: {
      messages: [{ role: 'user', content: 'Hello there' }],
      replies: [],
      parameters: {},
      jsonRequested: false,
      finishReasons: [],
    },
    error: { statusCode, message },
  };
}

/** Returns a capture of tabular features, with two rows. */
export function tabularCapture(): Capture {
  return {
    ...base,
    format: 'tabular-csv',
    request: payload('1,2\n3,4', { kind: 'csv', encoding: 'CSV', contentType: 'text/csv' }),
    response: payload('0.1\n0.9', { kind: 'csv', encoding: 'CSV', contentType: 'text/csv' }),
    inferences: [
      { inferenceId: 'a_0', index: 0, features: { '0': 1, '1': 2 }, prediction: 0.1 },
      { inferenceId: 'a_1', index: 1, features: { '0': 3, '1': 4 }, prediction: 0.9 },
    ],
  };
}

/** Returns a capture whose two sides are plain text. */
export function textCapture(request: string, reply: string): Capture {
  return {
    ...base,
    format: 'text',
    request: payload(request, { contentType: 'text/plain', encoding: 'BASE64' }),
    response: payload(reply, { contentType: 'text/plain', encoding: 'BASE64' }),
  };
}
