/** Ids derived from what they name: the same line, in whatever file, chunk or order, has the same ones. */
import { createHash } from 'node:crypto';

const digest = (...parts: (string | Uint8Array)[]): string => {
  const hash = createHash('sha256');
  for (const [index, part] of parts.entries()) {
    if (index > 0) hash.update('\n');
    hash.update(part);
  }
  return hash.digest('hex');
};

/**
 * `tr-` + 32 hex digits of SHA-256(experiment id, newline, raw line).
 *
 * @param line the line without its ending and without a byte order mark: `RawLine.bytes`.
 */
export const traceIdOf = (experimentId: string, line: Uint8Array): string =>
  `tr-${digest(experimentId, line).slice(0, 32)}`;

/** 16 hex digits. */
export const rootSpanIdOf = (traceId: string): string => digest(traceId, 'root').slice(0, 16);

/** 16 hex digits. @param index of the inference within the call, from 0. */
export const childSpanIdOf = (traceId: string, index: number): string =>
  digest(traceId, 'inference', String(index)).slice(0, 16);

/** `a-` + 32 hex digits: the same verdict has the same id. @param model as recorded, e.g. `bedrock:/<model>`. */
export const assessmentIdOf = (traceId: string, scorer: string, scorerVersion: string, model: string): string =>
  `a-${digest(traceId, scorer, scorerVersion, model).slice(0, 32)}`;

/** 48 bits: the most that is exact in a number and falls on a byte. */
const SAMPLE_HEX_DIGITS = 12;
const SAMPLE_RANGE = 16 ** SAMPLE_HEX_DIGITS;

/**
 * Whether a trace is in the sample. The same trace always falls the same way, and a smaller sample lies within a
 * larger one of the same salt: what 10% judged is part of what 20% judge.
 *
 * @param rate share of the traces, 0 to 1.
 * @param salt makes samples independent of each other, e.g. a scorer's name.
 */
export function inSample(traceId: string, rate: number, salt = ''): boolean {
  const point = Number.parseInt(digest('sample', salt, traceId).slice(0, SAMPLE_HEX_DIGITS), 16);
  return point / SAMPLE_RANGE < rate;
}
