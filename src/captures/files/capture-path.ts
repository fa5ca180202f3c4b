/** Reads S3 keys in SageMaker's layout with hour folders: `…/<endpoint>/<variant>/yyyy/mm/dd/hh/<file>.jsonl`. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** The folder next to captures with their true answers. It contains no captures. */
export const LABELS_FOLDER = 'labels';

const HOUR_PATH = /^(?<base>.*?)(?<hour>\d{4}\/\d{2}\/\d{2}\/\d{2})\/[^/]*$/s;

/**
 * Returns the part of a key before the year, with its trailing `/` or empty, and the start of the hour in epoch ms;
 * `undefined` when the key has no hour folder, or its hour folder is not a valid date.
 */
export function hourPathOf(key: string): { base: string; startMs: number } | undefined {
  const match = HOUR_PATH.exec(key);
  if (!match?.groups) return undefined;
  const { base = '', hour = '' } = match.groups;
  if (base !== '' && !base.endsWith('/')) return undefined;
  const [year = 0, month = 0, day = 0, hours = 0] = hour.split('/').map(Number);
  const startMs = Date.UTC(year, month - 1, day, hours);
  // Date.UTC rolls over a month of 13 or an hour of 25, which is not an hour folder.
  return formatHour(startMs) === hour ? { base, startMs } : undefined;
}

/**
 * Returns the parts of a key in SageMaker's layout. A key of another layout has none.
 *
 * @example
 *     capturePathOf('my-endpoint/AllTraffic/2026/11/20/09/a.jsonl')
 *     // { endpoint: 'my-endpoint', variant: 'AllTraffic', hourMs: 1795165200000 }
 */
export function capturePathOf(key: string): { endpoint?: string; variant?: string; hourMs?: number } {
  const path = hourPathOf(key);
  if (path === undefined) return {};
  const [variant, endpoint] = path.base.split('/').reverse().slice(1);
  return { hourMs: path.startMs, ...(variant ? { variant } : {}), ...(endpoint ? { endpoint } : {}) };
}

/** Formats an instant as `yyyy/mm/dd/hh` in UTC. */
export const formatHour = (ms: number): string => new Date(ms).toISOString().slice(0, 13).replace(/[-T]/g, '/');
