/** Items that are planted into every vendor form, field and split are in nothing that is made of a capture. */

import { decodeLine } from '../../../src/captures/decode.ts';
import { isObject } from '../../../src/captures/json.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import type { Capture, RawLine } from '../../../src/captures/types.ts';
import { REDACT_KINDS } from '../../../src/core/settings/redact-setting.ts';
import { captureRecord } from '../../../src/judge/prompt/record.ts';
import { codeScorers, scoreOf } from '../../../src/judge/scorers/code-scorers.ts';
import { find } from '../../../src/redact/find.ts';
import { CORPUS_ENDPOINT, corpusFiles, expectationsOf, linesOf } from '../../helpers/corpus.ts';
import { type Planted, plantedItems } from '../../helpers/planted.ts';

const redaction = {
  kinds: [...REDACT_KINDS],
  fields: [],
  patterns: [],
  allow: [],
  content: 'all' as const,
  key: 'a key',
};
const OPTIONS = { experimentId: '1', endpointName: CORPUS_ENDPOINT };
const ITEMS = plantedItems(6000, 1);

/** Returns the JSON value with a sentence at the end of every text of several words; `undefined` if it has none. */
function planted(value: unknown, next: () => string, depth = 0): unknown {
  if (depth > 40) return value;
  if (typeof value === 'string') return /\s/.test(value.trim()) ? `${value} ${next()}` : value;
  if (Array.isArray(value)) return value.map((item) => planted(item, next, depth + 1));
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, planted(inner, next, depth + 1)]));
  return value;
}

/** Writes a sentence over the texts of a stream's events, some characters in each. */
function plantedStream(text: string, next: () => string): string {
  const events = text.split('\n').length;
  const sentence = [...` ${next()} `];
  const each = Math.max(1, Math.ceil(sentence.length / Math.max(1, events / 3)));
  return text.replace(/"(content|text|generated_text|outputText)":\s?"((?:[^"\\]|\\.)*)"/g, (all, name) =>
    sentence.length === 0 ? all : `"${name}":"${JSON.stringify(sentence.splice(0, each).join('')).slice(1, -1)}"`,
  );
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
      body = JSON.stringify(planted(JSON.parse(text), next));
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

test('an item that is found in its own sentence is nowhere', async () => {
  let used = 0;
  let lines = 0;
  const left: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    for (const file of corpusFiles()) {
      const expected = expectationsOf(file);
      for (const [index, raw] of (await linesOf(file)).entries()) {
        let record: unknown;
        try {
          record = JSON.parse(raw.bytes.toString());
        } catch {
          continue;
        }
        if (!isObject(record) || !isObject(record.captureData)) continue;
        const here: Planted[] = [];
        const next = (): string => {
          const item = ITEMS[used++ % ITEMS.length] as Planted;
          here.push(item);
          return item.sentence;
        };
        const { endpointInput, endpointOutput } = record.captureData;
        const line = {
          ...record,
          captureData: {
            ...record.captureData,
            endpointInput: plantedSide(endpointInput, next),
            endpointOutput: plantedSide(endpointOutput, next),
          },
        };
        const options = expected[index]?.options ?? {};
        let text: string;
        try {
          text = JSON.stringify(line);
        } catch {
          continue;
        }
        const planting = { ...raw, bytes: Buffer.from(text) };
        const decoded = decodeLine(planting, { ...options, redaction });
        const plain = decodeLine(planting, options);
        if (decoded.kind !== 'capture' || plain.kind !== 'capture') continue;
        lines += 1;
        const all = everythingOf(decoded.capture, planting);
        for (const { kind, item, sentence } of here) {
          if (all.includes(item))
            left.push(
              `${file} ${index} ${kind} ${item} | ${sentence} | ${all.slice(Math.max(0, all.indexOf(item) - 200), all.indexOf(item) + 80)}`,
            );
        }
        if (decoded.capture.format !== plain.capture.format)
          left.push(`${file} ${index}: ${decoded.capture.format} ${plain.capture.format}`);
        const pii = codeScorers.find(({ name }) => name === 'pii_detected') as (typeof codeScorers)[0];
        const [a, b] = [decoded.capture, plain.capture].map((capture) => JSON.stringify(scoreOf(pii, capture)));
        if (a !== b) left.push(`${file} ${index} pii: ${a} ${b}`);
      }
    }
  }
  console.log(lines, used, left.length, left.slice(0, 25).join('\n'));
  void find;
});
