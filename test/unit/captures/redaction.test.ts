/** Items that are planted into every vendor form, field and split are in nothing that is made of a capture. */

import { decodeLine } from '../../../src/captures/decode.ts';
import { isObject, toJson } from '../../../src/captures/json.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { Capture, RawLine } from '../../../src/captures/types.ts';
import { REDACT_KINDS } from '../../../src/core/settings/redact-setting.ts';
import { jsonIn } from '../../../src/core/values/json-in.ts';
import { captureRecord } from '../../../src/judge/prompt/record.ts';
import { codeScorers, scoreOf } from '../../../src/judge/scorers/code-scorers.ts';
import { CORPUS_ENDPOINT, corpusFiles, expectationsOf, linesOf } from '../../helpers/corpus.ts';
import { type Planted, plantedItems } from '../../helpers/planted.ts';

const all = { kinds: [...REDACT_KINDS], fields: [], patterns: [], allow: [] };
const redaction = { ...all, content: 'all' as const, key: 'a key' };
const OPTIONS = { experimentId: '1', endpointName: CORPUS_ENDPOINT };
const ITEMS = 10_000;
/** In each place. */
const SENTENCES = 30;

/** Returns the JSON value with a sentence at the end of every text of several words; `undefined` if it has none. */
function plantedValue(value: unknown, next: () => string, depth = 0): unknown {
  if (depth > 40) return value;
  if (typeof value === 'string') return /\s/.test(value.trim()) ? `${value} ${next()}` : value;
  if (Array.isArray(value)) return value.map((item) => plantedValue(item, next, depth + 1));
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plantedValue(inner, next, depth + 1)]));
  return value;
}

/** Writes a sentence over the texts of a stream's events, some characters in each; in turn, if it has several choices. */
function plantedStream(text: string, next: () => string): string {
  const lines = text.split('\n');
  const indexOf = (line: string): string => /"index":\s?(\d+)/.exec(line)?.[1] ?? '';
  const isInTurn = new Set(lines.map(indexOf)).size <= 4;
  const left = new Map<string, { sentence: string[]; each: number }>();
  const written = lines.map((line) => {
    const index = isInTurn ? indexOf(line) : '';
    const count = isInTurn ? lines.filter((other) => indexOf(other) === index).length : lines.length;
    return line.replace(/"(content|text|generated_text|outputText)":\s?"((?:[^"\\]|\\.)*)"/g, (all, name) => {
      const sentence = left.get(index)?.sentence ?? [...` ${next()} `];
      const each = left.get(index)?.each ?? Math.ceil(sentence.length / Math.max(1, count / 3));
      left.set(index, { sentence, each });
      return sentence.length === 0 ? all : `"${name}":${JSON.stringify(sentence.splice(0, each).join(''))}`;
    });
  });
  return written.join('\n');
}

function plantedSide(side: unknown, next: () => string): unknown {
  if (!isObject(side) || typeof side.data !== 'string') return side;
  const isBase64 = side.encoding === 'BASE64';
  const text = isBase64 ? Buffer.from(side.data, 'base64').toString() : side.data;
  if (text.includes('\ufffd')) return side;
  let body: string;
  if (/^\s*(data|event):/m.test(text)) body = plantedStream(text, next);
  else {
    try {
      body = JSON.stringify(plantedValue(JSON.parse(text), next));
    } catch {
      body = text.includes('\n') || !/\s/.test(text) ? text : `${text} ${next()}`;
    }
  }
  return { ...side, data: isBase64 ? Buffer.from(body).toString('base64') : body };
}

const everythingOf = (capture: Capture, raw: RawLine): string =>
  JSON.stringify([
    { ...capture, results: undefined },
    buildTrace(capture, raw, OPTIONS),
    captureRecord(capture, 100_000),
    codeScorers.map((scorer) => {
      try {
        return scoreOf(scorer, capture);
      } catch {
        return undefined;
      }
    }),
  ]);

/** Returns the line with sentences planted into both sides, and the items; `undefined` if it is no record. */
function plantedLine(raw: RawLine, items: Iterator<Planted>): { line: RawLine; here: Planted[] } | undefined {
  const record = jsonIn(raw.bytes.toString());
  if (!isObject(record) || !isObject(record.captureData)) return undefined;
  const here: Planted[] = [];
  const next = (): string => {
    const some = Array.from({ length: SENTENCES }, () => items.next().value as Planted);
    here.push(...some);
    return some.map(({ sentence }) => sentence).join(' ');
  };
  const { endpointInput, endpointOutput } = record.captureData;
  const captureData = {
    ...record.captureData,
    endpointInput: plantedSide(endpointInput, next),
    endpointOutput: plantedSide(endpointOutput, next),
  };
  // The deepest lines cannot be written again.
  const text = toJson({ ...record, captureData });
  return text === undefined ? undefined : { line: { ...raw, bytes: Buffer.from(text) }, here };
}

const pii = codeScorers.find(({ name }) => name === 'pii_detected') as (typeof codeScorers)[number];
const verdictOf = (capture: Capture): string => JSON.stringify(scoreOf(pii, capture));

test('an item that is found in its own sentence is nowhere, and pii_detected is as without masking', async () => {
  const items = plantedItems(2 * ITEMS, 1).values();
  let planted = 0;
  const left: string[] = [];
  const differs: string[] = [];
  for (const file of corpusFiles()) {
    const expected = expectationsOf(file);
    for (const [index, raw] of (await linesOf(file)).entries()) {
      const planting = plantedLine(raw, items);
      if (planting === undefined) continue;
      const { line, here } = planting;
      const options = expected[index]?.options ?? {};
      const masked = decodeLine(line, { ...options, redaction });
      const plain = decodeLine(line, options);
      if (masked.kind !== 'capture' || plain.kind !== 'capture') continue;
      planted += here.length;
      const where = `${file} ${index}`;
      const all = everythingOf(masked.capture, line);
      left.push(...here.filter(({ item }) => all.includes(item)).map(({ kind, item }) => `${where} ${kind} ${item}`));
      if (masked.capture.masked?.['not masked']) continue;
      if (masked.capture.format !== plain.capture.format) differs.push(`${where}: ${masked.capture.format}`);
      if (verdictOf(masked.capture) !== verdictOf(plain.capture))
        differs.push(
          `${where}: ${verdictOf(plain.capture)} ${verdictOf(masked.capture)} ${JSON.stringify(masked.capture.response)} ${JSON.stringify(plain.capture.response)}`,
        );
    }
  }
  expect({ left, differs }).toEqual({ left: [], differs: [] });
  expect(planted).toBeGreaterThanOrEqual(ITEMS);
});
