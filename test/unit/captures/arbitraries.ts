/** Generates the data of the decoder's property tests: captures of every format, in every encoding. */
import fc from 'fast-check';
import { decodeLine } from '../../../src/captures/decode.ts';
import type { Capture, ChatMessage, DecodeOptions, RawLine } from '../../../src/captures/types.ts';
import { type Redaction, redactRules } from '../../../src/core/settings/redact-setting.ts';
import { anyText } from '../../helpers/any-text.ts';

export interface Side {
  observedContentType: string | null;
  mode: 'INPUT' | 'OUTPUT';
  data: string;
  encoding: 'JSON' | 'CSV' | 'BASE64';
}

export type Encoding = 'plain' | 'base64' | 'utf-16le';
export const encodings = fc.constantFrom<Encoding>('plain', 'base64', 'utf-16le');

/** A body as Data Capture writes it. */
export function sideOf(mode: Side['mode'], body: string, contentType: string, encoding: Encoding): Side {
  if (encoding === 'plain') {
    return {
      observedContentType: contentType,
      mode,
      data: body,
      encoding: contentType === 'text/csv' ? 'CSV' : 'JSON',
    };
  }
  const isUtf16 = encoding === 'utf-16le';
  return {
    observedContentType: isUtf16 ? `${contentType}; charset=utf-16le` : contentType,
    mode,
    data: Buffer.from(body, isUtf16 ? 'utf16le' : 'utf8').toString('base64'),
    encoding: 'BASE64',
  };
}

export const jsonSide = (mode: Side['mode'], body: unknown, encoding: Encoding): Side =>
  sideOf(mode, JSON.stringify(body), 'application/json', encoding);

export function lineOf(record: unknown): RawLine {
  return rawLine(Buffer.from(JSON.stringify(record)));
}

export const rawLine = (bytes: Buffer): RawLine => ({
  bytes,
  place: {
    bucket: 'bucket',
    key: 'fern-house/blue/2026/03/04/05/file.jsonl',
    etag: 'e',
    line: 1,
    start: 0,
    end: Math.max(0, bytes.length - 1),
    objectTimeMs: 0,
  },
});

export const captureOf = (input: Side | undefined, output: Side | undefined): object => ({
  captureData: {
    ...(input === undefined ? {} : { endpointInput: input }),
    ...(output === undefined ? {} : { endpointOutput: output }),
  },
  eventMetadata: { eventId: 'event', inferenceTime: '2026-03-04T05:06:07Z' },
  eventVersion: '0',
});

/** @returns the record of a call with two bodies in JSON */
export const jsonRecord = (request: unknown, reply: unknown): object =>
  captureOf(jsonSide('INPUT', request, 'plain'), jsonSide('OUTPUT', reply, 'plain'));

/** Decodes a line. @throws Error if it is quarantined */
export function decodedOf(raw: RawLine, options: DecodeOptions = {}): Capture {
  const line = decodeLine(raw, options);
  if (line.kind !== 'capture') throw new Error(line.reason.message);
  return line.capture;
}

/** The rules of `REDACT`, with a key. */
export const redactionBy = (rules: string, more: Partial<Redaction> = {}): Redaction => ({
  ...redactRules(rules),
  ...{ allow: [], content: 'all', key: 'a key', keyVersion: '1' },
  ...more,
});

/** Any Unicode text, including line endings and quotes. */
export const texts = anyText({ maxLength: 40 });
export const someText = texts.filter((text) => text.trim() !== '');

export interface Talk {
  system: string | undefined;
  turns: { role: 'user' | 'assistant'; text: string }[];
  reply: string;
  usage: { input: number; output: number };
}

const counts = fc.integer({ min: 0, max: 1e6 });

export const talks: fc.Arbitrary<Talk> = fc.record({
  system: fc.option(someText, { nil: undefined }),
  turns: fc
    .array(texts, { minLength: 1, maxLength: 5 })
    .map((list) =>
      list.map((text, index) => ({ role: index % 2 === 0 ? ('user' as const) : ('assistant' as const), text })),
    ),
  reply: texts,
  usage: fc.record({ input: counts, output: counts }),
});

/** Cuts a text into the pieces of a stream. Characters stay whole, as servers keep them. */
export const piecesOf = (text: string): fc.Arbitrary<string[]> =>
  fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 8 }).map((lengths) => {
    const characters = [...text];
    const pieces: string[] = [];
    for (let at = 0, index = 0; at < characters.length; index += 1) {
      const length = lengths[index % lengths.length] as number;
      pieces.push(characters.slice(at, at + length).join(''));
      at += length;
    }
    return pieces;
  });

export const messagesOf = ({ system, turns }: Talk): ChatMessage[] => [
  ...(system === undefined ? [] : [{ role: 'system', content: system }]),
  ...turns.map(({ role, text }) => ({ role, content: text })),
];

export const sse = (events: unknown[], ending: string): string =>
  events
    .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}${ending}${ending}`)
    .join('');
