/** Decodes one side of a capture, as far as its bytes, its encoding and its content type allow. */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { parseContentType } from '../content-type.ts';
import { isObject, toJson } from '../json.ts';
import { mediumOf } from '../media.ts';
import type { Payload } from '../types.ts';
import { Scale } from '../weight.ts';
import { announcedBy, capturedData } from './captured-data.ts';
import { decodeText } from './charset.ts';
import { type DecodingContext, fromText, type Reading } from './from-text.ts';
import { readTensors } from './tensors.ts';

/** A summary in place of bytes, which stay in S3. */
export interface BinarySummary {
  binary: true;
  contentType: string | null;
  bytes: number;
  sha256: string;
}

/**
 * Decodes a captured payload.
 *
 * @param captured `endpointInput` or `endpointOutput`. Values other than objects are kept unchanged.
 * @returns `undefined` if the side was not captured.
 * @throws TooHeavy
 *
 * @example
 *     const payload = decodePayload({ side: 'reply', notes, scale: new Scale() }, captureData.endpointOutput);
 */
export function decodePayload(reading: Reading, captured: unknown): Payload | undefined {
  if (captured === undefined || captured === null) return undefined;
  const announced = announcedBy(captured);
  const context = { ...reading, announced, type: parseContentType(announced.contentType) };
  if (!isObject(captured)) return undecodable(context, captured, 'captured as something other than an object');
  const data = capturedData(captured);
  if (data === undefined) return { ...announced, kind: 'empty', value: null, bytes: 0 };
  if ('problem' in data) return undecodable(context, captured.data, data.problem);
  if ('bytes' in data) return fromBytes(context, data.bytes);
  return fromText(context, data.text, Buffer.byteLength(data.text));
}

/** Decodes a body from the wire in the same way as a captured body. @throws TooHeavy */
export function payloadOfBytes(reading: Reading, bytes: Buffer, contentType: string | null): Payload {
  const announced = { contentType, encoding: '' };
  return fromBytes({ ...reading, announced, type: parseContentType(contentType) }, bytes);
}

function undecodable({ announced }: DecodingContext, captured: unknown, problem: string): Payload {
  const text = typeof captured === 'string' ? captured : (toJson(captured) ?? 'nested too deep to be written out');
  return { ...announced, kind: 'raw', value: text, text, bytes: Buffer.byteLength(text), problem };
}

function fromBytes(context: DecodingContext, bytes: Buffer): Payload {
  const { side, announced, type, notes } = context;
  if (bytes.length === 0) return { ...announced, kind: 'empty', value: null, bytes: 0 };
  if (type.announces === 'binary' || (!isUtf8(bytes) && mediumOf(bytes) !== undefined)) return binary(context, bytes);
  if (type.headerBytes !== undefined) return fromTensors(context, bytes, type.headerBytes);
  const unpacked = unpackedBody(context, bytes);
  const isText = unpacked !== undefined || type.announces !== undefined;
  const decoded = decodeText(unpacked ?? bytes, type.charset, isText);
  if ('binary' in decoded) return binary(context, bytes);
  if (decoded.note !== undefined) notes.push(`${side}: ${decoded.note}`);
  return fromText(context, decoded.text, bytes.length);
}

function fromTensors(context: DecodingContext, bytes: Buffer, headerBytes: number): Payload {
  const read = readTensors(bytes, headerBytes, context.scale);
  if ('value' in read) return { ...context.announced, kind: 'json', value: read.value, bytes: bytes.length };
  return { ...binary(context, bytes), problem: `announced as tensors behind JSON, but ${read.problem}` };
}

/** Maximum size of an unpacked body. SageMaker's own limit for a body is 25 MB. */
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

interface Compression {
  name: string;
  /** Whether the bytes begin with the mark of this compression. */
  begins(bytes: Buffer): boolean;
  unpack(bytes: Buffer, maxOutputLength: number): Buffer;
}

/**
 * HTTP's deflate has a zlib header, but some clients leave it out. Then only the result of unpacking can confirm it.
 */
const COMPRESSIONS: readonly Compression[] = [
  {
    name: 'gzip',
    begins: (bytes) => bytes[0] === 0x1f && bytes[1] === 0x8b,
    unpack: (bytes, maxOutputLength) => gunzipSync(bytes, { maxOutputLength }),
  },
  {
    name: 'deflate',
    begins: (bytes) => bytes.length > 2 && (bytes[0] as number) % 16 === 8 && bytes.readUInt16BE(0) % 31 === 0,
    unpack: (bytes, maxOutputLength) => inflateSync(bytes, { maxOutputLength }),
  },
  { name: 'deflate', begins: (bytes) => !isUtf8(bytes), unpack: inflateRawText },
];

/** @throws if the bytes are not, as a whole, a text without the header. */
function inflateRawText(bytes: Buffer, maxOutputLength: number): Buffer {
  const read: unknown = inflateRawSync(bytes, { maxOutputLength, info: true });
  const { buffer, engine } = read as { buffer: Buffer; engine: { bytesWritten: number } };
  if (engine.bytesWritten !== bytes.length || !isUtf8(buffer)) throw new Error('another form of bytes');
  return buffer;
}

/** Returns the content of a compressed body. The header that announces the compression is not captured. */
function unpackedBody({ side, scale, notes }: Reading, bytes: Buffer): Buffer | undefined {
  const most = Math.min(MAX_UNPACKED_BYTES, Math.ceil(scale.charactersLeft) + 1);
  for (const { name, begins, unpack } of COMPRESSIONS) {
    if (!begins(bytes)) continue;
    let content: Buffer | undefined;
    try {
      content = unpack(bytes, most);
    } catch (error) {
      // A damaged body, or one that is not compressed in this way, is kept as bytes.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') continue;
    }
    scale.characters(content?.length ?? most);
    notes.push(
      content === undefined
        ? `${side}: unpacks to more than ${MAX_UNPACKED_BYTES} bytes, and is kept as bytes`
        : `${side}: compressed by ${name}`,
    );
    return content;
  }
  return undefined;
}

/** Whether a body is compressed. */
export const isCompressed = (bytes: Buffer): boolean =>
  unpackedBody({ side: 'reply', notes: [], scale: new Scale() }, bytes) !== undefined;

function binary({ announced, type }: DecodingContext, bytes: Buffer): Payload {
  const value: BinarySummary = {
    binary: true,
    contentType: announced.contentType,
    bytes: bytes.length,
    sha256: hash('sha256', bytes),
  };
  const isSurprise = type.announces !== undefined && type.announces !== 'binary';
  const problem = isSurprise ? { problem: `announced as ${type.media} but the bytes are not text` } : {};
  return { ...announced, kind: 'binary', value, bytes: bytes.length, ...problem };
}

/** Whether the side was captured and is not empty. */
export const isThere = (payload: Payload | undefined): payload is Payload =>
  payload !== undefined && payload.kind !== 'empty';

/** Returns a payload as people read it: its text, its JSON, or a description of its bytes. */
export function payloadText({ kind, contentType, bytes, text = '', value }: Payload): string {
  if (kind === 'binary') return `${contentType ?? 'binary'}, ${bytes} bytes`;
  if (kind === 'text' || kind === 'raw' || kind === 'csv') return text;
  return toJson(value) ?? text;
}

/** Kinds of payload whose value is JSON. */
export const DOCUMENT_KINDS: ReadonlySet<Payload['kind']> = new Set(['json', 'event-stream', 'jsonlines']);

/** Returns the payload's JSON value, if it has one. For a single JSON line, returns the line's value. */
export function documentOf(payload: Payload | undefined): unknown {
  if (payload === undefined || !DOCUMENT_KINDS.has(payload.kind)) return undefined;
  const { kind, value } = payload;
  return kind === 'jsonlines' && Array.isArray(value) && value.length === 1 ? value[0] : value;
}
