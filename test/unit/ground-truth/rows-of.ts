/** The predictions that the index keeps of a call, by the inference's id without the call's. */
import type { DecodeOptions } from '../../../src/captures/types.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { predictionRows } from '../../../src/ground-truth/predictions/predictions.ts';
import { captureOf, decodedOf, lineOf, type Side, sideOf } from '../captures/arbitraries.ts';

const place = { key: 'c/e/v/2026/03/04/05/f.jsonl', endpointName: 'e' };
const side = (mode: Side['mode'], body: unknown): Side | undefined => {
  if (body === undefined) return undefined;
  if (typeof body !== 'string') return sideOf(mode, JSON.stringify(body), 'application/json', 'plain');
  const [, type = 'text/csv', text = body] = /^(\w+\/[\w-]+)\|(.*)$/s.exec(body) ?? [];
  return sideOf(mode, text, type, type.startsWith('text/') ? 'plain' : 'base64');
};

/** @param request JSON, or a text: CSV, or behind its content type and `|`. Types other than text are captured in base64. */
export function rowsOf(request: unknown, reply: unknown, options: DecodeOptions = {}, given: object = {}) {
  const capture = decodedOf(lineOf(captureOf(side('INPUT', request), side('OUTPUT', reply))), options);
  const rows = predictionRows(capture, 'tr-1', place, groundTruthSchema.parse(given));
  const found = Object.fromEntries(rows.map(({ id, prediction }) => [id.replace('event', ''), prediction]));
  return { found, notes: capture.notes.join('; '), capture };
}

/** A prediction with the scores of its classes. */
export const scored = (value: string | number | undefined, scores: number[], ...classes: string[]) => ({
  ...(value !== undefined && { value }),
  scores,
  classes,
});
export const values = (...list: unknown[]) => Object.fromEntries(list.map((value, index) => [`_${index}`, { value }]));
export const lists = (...list: number[][]) =>
  Object.fromEntries(list.map((scores, index) => [`_${index}`, { scores }]));
export const classed = (...list: [string, number][]) =>
  Object.fromEntries(list.map(([value, p], index) => [`_${index}`, { value, scores: [p], classes: [value] }]));
