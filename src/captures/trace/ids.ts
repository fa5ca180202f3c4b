/** Derives ids from content: the same line has the same ids, regardless of its file, chunk or order. */
import { createHash } from 'node:crypto';

const digest = (...parts: (string | Uint8Array)[]): string => {
  const hash = createHash('sha256');
  for (const [index, part] of parts.entries()) {
    if (index > 0) hash.update('\n');
    hash.update(part);
  }
  return hash.digest('hex');
};

/** The tag that names the run which wrote the trace. A run counts the captures that it wrote itself. */
export const RUN_TAG = 'monitoring_run';
/**
 * The tag of requests sent by the stack's own replays. A `replay_run` attribute alone is not proof, because callers can
 * set it.
 */
export const REPLAY_TAG = 'sent_by_replay';
/** The tag of other requests that were no traffic when they were traced. */
export const NOT_TRAFFIC_TAG = 'not_traffic';

/** Why a request is no traffic of the endpoint's users: it is traced, but neither judged nor counted with the others. */
export interface NotTraffic {
  /** A rule is one of `NOT_TRAFFIC`, a window one of `traffic exclude`. */
  by: 'replay' | 'rule' | 'window';
  /** The run of the replay; `rule <name>`; `window`. */
  name: string;
}

/**
 * Returns the trace id: `tr-` and 32 hex digits of SHA-256(experiment id, newline, raw line).
 *
 * @param line `RawLine.bytes`: the line without line ending and byte order mark
 *
 * @example
 *     traceIdOf(experiment.id, raw.bytes)   // 'tr-16c10dfd2a1bf2524789fa04db59df3d'
 */
export const traceIdOf = (experimentId: string, line: Uint8Array): string =>
  `tr-${digest(experimentId, line).slice(0, 32)}`;

/** Returns 16 hex digits. */
export const rootSpanIdOf = (traceId: string): string => digest(traceId, 'root').slice(0, 16);

/** Returns 16 hex digits. @param index the position of the inference within the call, from 0 */
export const childSpanIdOf = (traceId: string, index: number): string =>
  digest(traceId, 'inference', String(index)).slice(0, 16);

/** Returns `a-` and 32 hex digits; the same verdict has the same id. @param model as recorded, such as `bedrock:/<model>` */
export const assessmentIdOf = (traceId: string, scorer: string, scorerVersion: string, model: string): string =>
  `a-${digest(traceId, scorer, scorerVersion, model).slice(0, 32)}`;

/** 48 bits: the maximum number of whole bytes that a JavaScript number holds exactly. */
const SAMPLE_HEX_DIGITS = 12;
const SAMPLE_RANGE = 16 ** SAMPLE_HEX_DIGITS;

/**
 * Returns the number of a trace from 0 to 1, by which samples are drawn. It is pseudo-random and always the same.
 * @param salt makes samples independent of each other, such as the name of a scorer
 */
export const drawOf = (traceId: string, salt: string): number =>
  Number.parseInt(digest('sample', salt, traceId).slice(0, SAMPLE_HEX_DIGITS), 16) / SAMPLE_RANGE;

/**
 * Whether a trace is in the sample. Every call decides the same, and a smaller sample is part of a larger sample with
 * the same salt: the 10% sample is within the 20% sample.
 *
 * @param rate the share of the traces, from 0 to 1
 */
export const inSample = (traceId: string, rate: number, salt = ''): boolean => drawOf(traceId, salt) < rate;
