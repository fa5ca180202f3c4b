/** Chats that nobody captured, as captures. */
import type { Capture, ChatMessage } from '../captures/types.ts';

/** Returns a chat as the judge reads it. */
export const chatCapture = (messages: readonly ChatMessage[], replies: ChatMessage[]): Capture => ({
  inferenceTimeMs: 0,
  timeSource: 'inferenceTime',
  format: 'chat',
  conversation: { messages: [...messages], replies, parameters: {}, jsonRequested: false, finishReasons: [] },
  attributes: {},
  notes: [],
});
