/** Keys in SageMaker's layout, with the hour folders that Data Capture writes: `…/<endpoint>/<variant>/yyyy/mm/dd/hh/<file>.jsonl`. */

export const HOUR_MS = 3_600_000;

const HOUR_PATH = /^(?<base>.*?)(?<hour>\d{4}\/\d{2}\/\d{2}\/\d{2})\/[^/]*$/s;

interface HourPath {
  /** All before the year, with its ending `/` (or empty). */
  base: string;
  /** Start of the hour, epoch ms. */
  startMs: number;
}

/** @returns `undefined` when the key has no hour folder, or one that is no date. */
export function hourPathOf(key: string): HourPath | undefined {
  const match = HOUR_PATH.exec(key);
  if (!match?.groups) return undefined;
  const { base = '', hour = '' } = match.groups;
  if (base !== '' && !base.endsWith('/')) return undefined;
  const [year = 0, month = 0, day = 0, hours = 0] = hour.split('/').map(Number);
  const startMs = Date.UTC(year, month - 1, day, hours);
  // A month of 13 or an hour of 25 rolls over in Date.UTC: then it was no hour folder.
  return formatHour(startMs) === hour ? { base, startMs } : undefined;
}

/** What a key tells of its captures; nothing where it has no hour folder. */
interface CapturePath {
  variant?: string;
  hourMs?: number;
}

export function capturePathOf(key: string): CapturePath {
  const path = hourPathOf(key);
  if (path === undefined) return {};
  const variant = path.base.split('/').at(-2);
  return { hourMs: path.startMs, ...(variant ? { variant } : {}) };
}

/** `yyyy/mm/dd/hh` of an instant, UTC. */
export function formatHour(ms: number): string {
  const date = new Date(ms);
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${date.getUTCFullYear()}/${two(date.getUTCMonth() + 1)}/${two(date.getUTCDate())}/${two(date.getUTCHours())}`;
}
