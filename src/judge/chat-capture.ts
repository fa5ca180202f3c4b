/** A chat in the form of a capture, for questions to the judge about other exchanges than captures. */
import type { Capture, ChatMessage } from '../captures/types.ts';

/** Returns the exchange as a captured chat call would be decoded. */
export function chatCapture(
  messages: readonly ChatMessage[],
  replies: readonly ChatMessage[],
  tools?: unknown[],
): Capture {
  const payload = (value: unknown) => {
    const text = JSON.stringify(value);
    const bytes = Buffer.byteLength(text);
    return { contentType: 'application/json', encoding: 'JSON', kind: 'json' as const, value, text, bytes };
  };
  const content = { messages: [...messages], replies: [...replies], tools };
  return {
    inferenceTimeMs: 0,
    timeSource: 's3-object-time',
    format: 'chat',
    request: payload({ messages, tools }),
    response: payload({ choices: replies.map((message, index) => ({ index, message })) }),
    conversation: { ...content, parameters: {}, jsonRequested: false, finishReasons: [] },
    attributes: {},
    notes: [],
  };
}
