/** Which captures are no traffic by a rule of `NOT_TRAFFIC`, or by a window: a list of windows is in the work bucket. */
import type { Work } from '../core/aws/storage.ts';
import { changeStored } from '../core/aws/until-written.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';
import type { TrafficRule } from '../core/settings/schema.ts';
import { matchesGlob } from '../core/values/glob.ts';

/** A span of time, epoch milliseconds: from inclusive, to exclusive. */
type Span = Record<'fromMs' | 'toMs', number>;

/** All captures of a span, or those that also meet the conditions. */
export type ExcludedWindow = Span & Pick<TrafficRule, 'variant' | 'inferenceId'>;

/** The value of `notTraffic` for captures of a window, which may be taken back. */
export const WINDOW = 'window';

export const readExcluded = async ({ storage, workBucket }: Work): Promise<ExcludedWindow[]> =>
  (await storage.getJson<ExcludedWindow[]>(workBucket, ledgerKeys.excluded)) ?? [];

/** Changes the list, also while others do. @throws RetryableError `StorageUnavailable` */
export const changeExcluded = (work: Work, change: (list: ExcludedWindow[]) => ExcludedWindow[]) =>
  changeStored<ExcludedWindow[]>(work, ledgerKeys.excluded, (list = []) => change(list));

/** Returns the windows that have a part of a span. */
export const within = (windows: readonly ExcludedWindow[], { fromMs, toMs }: Span): ExcludedWindow[] =>
  windows.filter((window) => window.fromMs < toMs && fromMs < window.toMs);

/** Returns what is left of a window without a span: up to two windows. */
export const withoutSpan = (window: ExcludedWindow, { fromMs, toMs }: Span): ExcludedWindow[] =>
  [
    { ...window, toMs: Math.min(window.toMs, fromMs) },
    { ...window, fromMs: Math.max(window.fromMs, toMs) },
  ].filter((part) => part.fromMs < part.toMs);

/**
 * Returns the first of the rules or windows whose conditions a capture meets.
 *
 * @param one with the inference id that its caller chose, in the form of the trace
 */
export const firstMet = <R extends Partial<TrafficRule & Span>>(
  rules: readonly R[],
  one: { timeMs: number } & Pick<TrafficRule, 'variant' | 'inferenceId' | 'attributes'>,
): R | undefined =>
  rules.find(
    ({ fromMs, toMs, variant, inferenceId, attributes = {} }) =>
      (fromMs === undefined || fromMs <= one.timeMs) &&
      (toMs === undefined || one.timeMs < toMs) &&
      has(one.variant, variant) &&
      has(one.inferenceId, inferenceId) &&
      Object.entries(attributes).every(([name, pattern]) => has(one.attributes?.[name], pattern)),
  );

/** @param text no text: a member that every object has, if an attribute is named like it */
const has = (text: unknown, pattern: string | undefined): boolean =>
  pattern === undefined || (typeof text === 'string' && matchesGlob(pattern, text));
