/** Writes AWS's event-stream framing (`application/vnd.amazon.eventstream`), as InvokeEndpointWithResponseStream sends it. */
import { crc32 } from 'node:zlib';

/** Header value type 7 is a string. */
const STRING_TYPE = 7;

function encodeHeaders(headers: Record<string, string>): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of Object.entries(headers)) {
    const head = Buffer.alloc(1 + name.length + 3);
    head.writeUInt8(name.length, 0);
    head.write(name, 1, 'latin1');
    head.writeUInt8(STRING_TYPE, 1 + name.length);
    const text = Buffer.from(value, 'utf8');
    head.writeUInt16BE(text.length, 2 + name.length);
    parts.push(head, text);
  }
  return Buffer.concat(parts);
}

/** One message: prelude (total length, header length, CRC), headers, payload, CRC of all before it. */
function eventStreamMessage(headers: Record<string, string>, payload: Buffer): Buffer {
  const encoded = encodeHeaders(headers);
  const total = 12 + encoded.length + payload.length + 4;
  const message = Buffer.alloc(total);
  message.writeUInt32BE(total, 0);
  message.writeUInt32BE(encoded.length, 4);
  message.writeUInt32BE(crc32(message.subarray(0, 8)), 8);
  encoded.copy(message, 12);
  payload.copy(message, 12 + encoded.length);
  message.writeUInt32BE(crc32(message.subarray(0, total - 4)), total - 4);
  return message;
}

/** A piece of the model's reply. */
export const payloadPart = (bytes: Buffer): Buffer =>
  eventStreamMessage(
    { ':message-type': 'event', ':event-type': 'PayloadPart', ':content-type': 'application/octet-stream' },
    bytes,
  );

/** The container failed in the middle of the stream. */
export const modelStreamError = (message: string, code: string): Buffer =>
  eventStreamMessage(
    { ':message-type': 'exception', ':exception-type': 'ModelStreamError', ':content-type': 'application/json' },
    Buffer.from(JSON.stringify({ Message: message, ErrorCode: code })),
  );
