/** Reads the corpus of capture lines, `test/corpus/*.jsonl`, and the expectations of each line in `*.expected.json`. */
import { createReadStream, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../src/captures/json.ts';
import { type LineRead, readLines } from '../../src/captures/lines/read-lines.ts';
import { decodeBase64 } from '../../src/captures/payload/captured-data.ts';
import { openEnvelope } from '../../src/captures/record/envelope.ts';
import type { Capture, DecodeOptions, RawLine } from '../../src/captures/types.ts';
import { Scale } from '../../src/captures/weight.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** The expectations of a line. Objects are compared by the fields that they name. */
export interface Expectation {
  title: string;
  options?: DecodeOptions;
  /** S3 key of the line, if it matters. */
  key?: string;
  capture?: object;
  /** Fields that the capture must not have. */
  absent?: (keyof Capture)[];
  trace?: object;
  absentTags?: string[];
  root?: object;
  /** Attributes of the root span. */
  attributes?: Record<string, unknown>;
  absentAttributes?: string[];
  status?: object;
  children?: object[];
  /** JSON text of the root span's inputs. */
  rawRootInputs?: string;
  /** JSON text of the first inference's inputs. */
  rawInputs?: string;
  /** Name of the quarantine reason, and words that its message must contain. */
  quarantine?: string;
  words?: string[];
}

/** The endpoint of the captures. */
export const CORPUS_ENDPOINT = 'fern-house';

const CORPUS = packagePath('test', 'corpus');
const KEY = `captures/${CORPUS_ENDPOINT}/blue/2026/03/04/05/07-123-abc.jsonl`;
const OBJECT_TIME_MS = Date.UTC(2026, 0, 1);

export const corpusFiles = (): string[] => readdirSync(CORPUS).filter((file) => file.endsWith('.jsonl'));

export const expectationsOf = (file: string): Expectation[] =>
  JSON.parse(readFileSync(join(CORPUS, file.replace('.jsonl', '.expected.json')), 'utf8')) as Expectation[];

/** Reads the lines of a file, each at the key of its expectation. */
export async function linesOf(file: string): Promise<RawLine[]> {
  const source = { bucket: 'bucket', key: KEY, etag: 'e', start: 0, firstLine: 1, objectTimeMs: OBJECT_TIME_MS };
  const lines: RawLine[] = [];
  const isLine = (line: LineRead): line is Extract<LineRead, { kind: 'line' }> => line.kind === 'line';
  for await (const line of readLines(createReadStream(join(CORPUS, file)), source, { maxLineBytes: 1e9 })) {
    if (isLine(line)) lines.push(line.raw);
  }
  const expectations = expectationsOf(file);
  return lines.map((line, index) => ({ ...line, place: { ...line.place, key: expectations[index]?.key ?? KEY } }));
}

/** One side of a captured line as it was on the wire. */
export interface WireBody {
  contentType: string | null;
  bytes: Buffer;
}

/** @returns `undefined` when the side was not captured, or not as the text or base64 of a body. */
export function wireBodyOf(raw: RawLine, side: 'endpointInput' | 'endpointOutput'): WireBody | undefined {
  const opened = openEnvelope(raw.bytes, new Scale());
  if ('reason' in opened) return undefined;
  const captured = opened.envelope.captureData[side];
  if (!isObject(captured) || typeof captured.data !== 'string') return undefined;
  const encoding = typeof captured.encoding === 'string' ? captured.encoding : '';
  const bytes = encoding === 'BASE64' ? decodeBase64(captured.data) : Buffer.from(captured.data);
  if (bytes === undefined || !['JSON', 'CSV', 'BASE64', ''].includes(encoding)) return undefined;
  const observed = captured.observedContentType;
  // Only an endpoint that announced CSV is captured as CSV.
  const fallback = encoding === 'CSV' ? 'text/csv' : null;
  return { contentType: typeof observed === 'string' ? observed : fallback, bytes };
}
