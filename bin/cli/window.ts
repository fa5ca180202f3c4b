/** Reads options that a person gives: windows of time, instants and names. */
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import { parseInferenceTime } from '../../src/captures/record/inference-time.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/values/nearest.ts';

const AGE = /^(\d{1,5})([hdw])$/;
const HOURS = { h: 1, d: 24, w: 168 };
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Returns epoch milliseconds.
 *
 * @param text an age such as `12h`, `7d` or `2w`, a day, or an instant, which is UTC unless it has an offset
 * @throws PermanentError `InvalidTime`
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

/** @throws PermanentError `UnknownName` with the nearest name */
export function checkNames(what: string, given: readonly string[] | undefined, known: readonly string[]): void {
  for (const name of given ?? []) {
    if (known.includes(name)) continue;
    const meant = nearest(name, known);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    const facts = { got: name, expected: `one of ${known.toSorted().join(', ')}` };
    throw new PermanentError('UnknownName', `There is no ${what} of this name${hint}`, facts);
  }
}

export interface WindowFlags {
  from?: string;
  to?: string;
}

export const FROM_OPTION = [
  '--from <time>',
  'start of the window: an instant, a day, or an age such as 12h, 7d',
] as const;
export const TO_OPTION = ['--to <time>', 'end of the window (default: now)'] as const;

/** @returns epoch milliseconds; an end that is not given is absent. @throws PermanentError `InvalidTime` */
export function windowOfFlags({ from, to }: WindowFlags, nowMs = Date.now()): { fromMs?: number; toMs?: number } {
  const fromMs = from === undefined ? undefined : instantMs(from, nowMs);
  const toMs = to === undefined ? undefined : instantMs(to, nowMs);
  if (fromMs !== undefined && fromMs >= (toMs ?? nowMs)) {
    const got = `${new Date(fromMs).toISOString()} to ${new Date(toMs ?? nowMs).toISOString()}`;
    throw new PermanentError('InvalidTime', 'The window is empty', { got, expected: '--from before --to' });
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}
