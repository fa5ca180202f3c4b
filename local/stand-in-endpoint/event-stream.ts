/** Encodes AWS event-stream messages (`application/vnd.amazon.eventstream`), as InvokeEndpointWithResponseStream sends them. */
import { EventStreamCodec } from '@smithy/core/event-streams';

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text, 'utf8'),
);

function message(headers: Record<string, string>, body: Buffer): Buffer {
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }] as const);
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body }));
}

/** A part of the model's reply. */
export const payloadPart = (bytes: Buffer): Buffer =>
  message(
    { ':message-type': 'event', ':event-type': 'PayloadPart', ':content-type': 'application/octet-stream' },
    bytes,
  );

/** The error event of a container that failed in the middle of the stream. */
export const modelStreamError = (text: string, code: string): Buffer =>
  message(
    { ':message-type': 'exception', ':exception-type': 'ModelStreamError', ':content-type': 'application/json' },
    Buffer.from(JSON.stringify({ Message: text, ErrorCode: code })),
  );
