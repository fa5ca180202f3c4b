/** The windows of captures that are no traffic, such as those of a load test: a list in the work bucket. */
import type { Work } from '../core/aws/storage.ts';
import { changeJson } from '../core/aws/until-written.ts';
import { ledgerKeys } from '../core/contract/work-keys.ts';

/** A span of time, epoch milliseconds: from inclusive, to exclusive. */
interface Span {
  fromMs: number;
  toMs: number;
}

export interface ExcludedWindow extends Span {
  /** Absent: all variants. */
  variant?: string | undefined;
  /** Of the inference id that the caller chose; see `matchesGlob`. Absent: all captures. */
  idPattern?: string | undefined;
}

/** The value of `notTraffic` for captures of a window, which may be taken back. */
export const WINDOW = 'window';

export const readExcluded = async ({ storage, workBucket }: Work): Promise<ExcludedWindow[]> =>
  (await storage.getJson<ExcludedWindow[]>(workBucket, ledgerKeys.excluded)) ?? [];

/** Changes the list, also while others do. @throws RetryableError `StorageUnavailable` */
export const changeExcluded = (work: Work, change: (list: ExcludedWindow[]) => ExcludedWindow[]) =>
  changeJson(work, ledgerKeys.excluded, change);

/** Returns the windows that have a part of a span. */
export const within = (windows: readonly ExcludedWindow[], { fromMs, toMs }: Span): ExcludedWindow[] =>
  windows.filter((window) => window.fromMs < toMs && fromMs < window.toMs);

/** Returns the windows without a span, which may divide one in two. */
export const withoutSpan = (windows: readonly ExcludedWindow[], { fromMs, toMs }: Span): ExcludedWindow[] =>
  windows
    .flatMap((window) => [
      { ...window, toMs: Math.min(window.toMs, fromMs) },
      { ...window, fromMs: Math.max(window.fromMs, toMs) },
    ])
    .filter((window) => window.fromMs < window.toMs);

/** Whether a capture is in one of the windows. @param hasId whether its inference id has the form of a pattern */
export const isExcluded = (
  windows: readonly ExcludedWindow[],
  { timeMs, variant }: { timeMs: number; variant: string | undefined },
  hasId: (pattern: string) => boolean,
): boolean =>
  windows.some(
    (window) =>
      window.fromMs <= timeMs &&
      timeMs < window.toMs &&
      (window.variant ?? variant) === variant &&
      (window.idPattern === undefined || hasId(window.idPattern)),
  );
