/** The options of a window of time, as instants. */

import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import { parseInferenceTime } from '../../src/captures/record/inference-time.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { DEFAULT_DAYS, type TimeWindow } from '../../src/quality/counts-store.ts';
import { type FlagsOf, option, options } from './options.ts';

const FROM = 'start of the window: an instant, a day, or an age such as 12h, 7d';
const TO = option('--to <time>', 'end of the window (default: now)');

/** The options of a window of time. */
export const windowOptions = () => options(option('--from <time>', FROM), TO);

/** Default start of the window, for all commands about the endpoint's state. */
export const DEFAULT_FROM = `${DEFAULT_DAYS}d`;
export const windowFrom = () => options(option('--from <time>', FROM, { initial: DEFAULT_FROM }), TO);

export type WindowFlags = FlagsOf<ReturnType<typeof windowOptions>>;

/**
 * @returns epoch milliseconds; an end that is not given is absent.
 * @throws PermanentError `InvalidTime`
 *
 * @example
 *     const { fromMs, toMs } = windowOfFlags({ from: '7d', to: '1d' });
 */
export function windowOfFlags({ from, to }: WindowFlags, nowMs = Date.now()): { fromMs?: number; toMs?: number } {
  const fromMs = from === undefined ? undefined : instantMs(from, nowMs);
  const toMs = to === undefined ? undefined : instantMs(to, nowMs);
  if (fromMs !== undefined && fromMs >= (toMs ?? nowMs)) {
    const got = `${new Date(fromMs).toISOString()} to ${new Date(toMs ?? nowMs).toISOString()}`;
    throw new PermanentError('InvalidTime', 'The window is empty', { got, expected: '--from before --to' });
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}

const AGE = /^(\d{1,5})([hdw])$/;
const HOURS = { h: 1, d: 24, w: 168 };
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Returns epoch milliseconds.
 *
 * @param text an age such as `12h`, `7d` or `2w`, a day, or an instant, which is UTC unless it has an offset
 * @throws PermanentError `InvalidTime`
 *
 * @example
 *     instantMs('12h', Date.now())   // twelve hours ago
 */
export function instantMs(text: string, nowMs: number): number {
  const [, count, unit] = AGE.exec(text) ?? [];
  if (count !== undefined) return nowMs - Number(count) * HOURS[unit as keyof typeof HOURS] * HOUR_MS;
  const ms = parseInferenceTime(DAY.test(text) ? `${text}T00:00Z` : text);
  if (ms !== undefined) return ms;
  const expected =
    'an instant such as 2026-11-20T09:00:00Z, a day such as 2026-11-20 (UTC), or an age such as 12h, 7d, 2w';
  throw new PermanentError('InvalidTime', 'A time cannot be read', { got: text, expected });
}

/** A window in ISO 8601. */
export const isoWindow = ({ fromMs, toMs }: TimeWindow) => ({
  from: new Date(fromMs).toISOString(),
  to: new Date(toMs).toISOString(),
});

/** Returns the start of the hour of an instant. @throws PermanentError `InvalidTime` */
export const hourBefore = (text: string, nowMs: number): number =>
  Math.floor(instantMs(text, nowMs) / HOUR_MS) * HOUR_MS;

/** Returns a window of whole hours. @throws PermanentError `InvalidTime` */
export function hoursOf(from: string, to: string | undefined, nowMs: number): TimeWindow {
  const { fromMs = nowMs, toMs = nowMs } = windowOfFlags({ from, to }, nowMs);
  return { fromMs: Math.floor(fromMs / HOUR_MS) * HOUR_MS, toMs: Math.ceil(toMs / HOUR_MS) * HOUR_MS };
}
