/** Capture lines that take much more memory than their size, and long lines that do not. */
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';

type Body = (bytes: number) => [contentType: string, body: string | Buffer];

const fill = (unit: string, bytes: number): string => unit.repeat(Math.ceil(bytes / Buffer.byteLength(unit)));
const list = (unit: string, bytes: number): string => `[${fill(`${unit},`, bytes)}${unit}]`;
const numbered = (bytes: number, item: (index: number) => string): string[] =>
  Array.from({ length: Math.ceil(bytes / (item(99_999).length + 1)) }, (_, index) => item(index));
const asJson =
  (body: (bytes: number) => string): Body =>
  (bytes) => ['application/json', body(bytes)];
const asText =
  (unit: string): Body =>
  (bytes) => ['text/plain', fill(unit, bytes)];

const noise = (bytes: number): Buffer => {
  const blocks = numbered(bytes * 3, String).slice(0, Math.ceil(bytes / 64));
  return Buffer.concat(blocks.map((block) => createHash('sha512').update(block).digest()));
};
const vector = `[${Array.from({ length: 1024 }, (_, index) => Math.sin(index).toFixed(8)).join(',')}]`;

const BODIES = {
  text: asText('The quick brown fern, which has no flowers, grows. '),
  words: asText('a '),
  'text in Chinese': asText('蕨类植物没有花。'),
  binary: (bytes) => ['image/png', noise(bytes)],
  events: (bytes) => [
    'text/event-stream',
    fill('data: {"choices":[{"index":0,"delta":{"content":"fern "},"finish_reason":null}]}\n\n', bytes),
  ],
  embeddings: asJson((bytes) => `{"data":${list(`{"index":0,"embedding":${vector}}`, bytes)}}`),
  'wide CSV': (bytes) => ['text/csv', fill('0.123456,', bytes)],
  'CSV of short rows': (bytes) => ['text/csv', fill('1\n', bytes)],
  digits: asJson((bytes) => list('1', bytes)),
  'long numbers': asJson((bytes) => list('12345678901234567890', bytes)),
  objects: asJson((bytes) => list('{}', bytes)),
  lists: asJson((bytes) => list('[]', bytes)),
  'nested lists': asJson((bytes) => list('['.repeat(150) + ']'.repeat(150), bytes)),
  keys: asJson((bytes) => `[${numbered(bytes, (index) => `{"k${index}":1}`).join(',')}]`),
  'one object': asJson((bytes) => `{${numbered(bytes, (index) => `"k${index}":1`).join(',')}}`),
  NaN: asJson((bytes) => list('NaN', bytes)),
  instances: asJson((bytes) => `{"instances":${list('[1]', bytes)}}`),
  'JSON lines': (bytes) => ['application/jsonlines', fill('{}\n', bytes)],
  messages: asJson((bytes) => `{"messages":${list('{"role":"user","content":"a"}', bytes)}}`),
} satisfies Record<string, Body>;

export type Kind = keyof typeof BODIES;
export const KINDS = Object.keys(BODIES) as Kind[];

const RECORD = { eventMetadata: { eventId: 'event', inferenceTime: '2026-03-04T05:06:07Z' }, eventVersion: '0' };

function side(mode: string, [contentType, body]: ReturnType<Body>, packed: boolean): object {
  const bytes = Buffer.from(body);
  const data = (packed ? gzipSync(bytes) : bytes).toString('base64');
  return { observedContentType: contentType, mode, data, encoding: 'BASE64' };
}

/** Returns a line with `bytes` bytes in its two sides, as BASE64; or with that many in its packed request. */
export function heavyLine(kind: Kind, bytes: number, packed = false): string {
  // Base64 has 4 characters for 3 bytes.
  const body = BODIES[kind](packed ? bytes : (bytes / 2) * 0.75);
  const endpointInput = side('INPUT', body, packed);
  const endpointOutput = side('OUTPUT', packed ? ['text/plain', 'yes'] : body, false);
  return JSON.stringify({ captureData: { endpointInput, endpointOutput }, ...RECORD });
}

/** Returns a line that differs from every other line of its chunk. */
export function numberedLine(index: number, kind: Kind, bytes: number, packed = false): string {
  const record = JSON.parse(heavyLine(kind, bytes, packed)) as { eventMetadata: object };
  return JSON.stringify({ ...record, eventMetadata: { ...record.eventMetadata, eventId: `event ${index}` } });
}

/** Lines that are heavy outside of their payloads, by name. */
export const ODD_LINES: Record<string, (bytes: number) => string> = {
  'a record of lists': (bytes) => `{"captureData":{},"more":${list('[]', bytes)}}`,
  'no record': (bytes) => fill('x', bytes),
};
