/** Determines the time of an inference: as captured, else the hour of the S3 path, else the time of the object. */

import { capturePathOf } from '../files/capture-path.ts';
import type { Capture, LinePlace } from '../types.ts';

/** `2026-11-20T10:00:01Z`, also with fractional seconds, with an offset, with a space for the T, or without a zone. */
const ISO_TIME =
  /^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,12}))?)? ?(Z|UTC|[+-]\d{2}:?\d{2})?$/i;

/** Data Capture exists since 2019. MLflow keeps nanoseconds in 63 bits, which end in 2262. */
const EARLIEST_MS = Date.UTC(2000, 0, 1);
const LATEST_MS = Date.UTC(2200, 0, 1);

/** Kiribati has the largest offset from UTC. */
const MAX_OFFSET_HOURS = 14;

const plausible = (ms: number): number | undefined =>
  ms >= EARLIEST_MS && ms < LATEST_MS ? Math.trunc(ms) : undefined;

/** Returns the epoch milliseconds of a captured time, in UTC when it has no offset. `undefined` when it is unreadable. */
export function parseInferenceTime(captured: unknown): number | undefined {
  // The size distinguishes seconds from milliseconds since 1970: 10^11 s is the year 5138, 10^11 ms is 1973.
  if (typeof captured === 'number') return plausible(captured < 1e11 ? captured * 1000 : captured);
  if (typeof captured !== 'string') return undefined;
  const text = captured.trim();
  if (/^\d{10}(?:\.\d+)?$|^\d{13}$/.test(text)) return parseInferenceTime(Number(text));
  const match = ISO_TIME.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second = '0', fraction = '0', zone = 'Z'] = match;
  const ms = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  // A 13th month, the 31st of a short one or a 24th hour rolls over, so this is not a time. Second 60 is a leap second.
  const minuteStart = new Date(ms - Number(second) * 1000).toISOString();
  if (!minuteStart.startsWith(`${year}-${month}-${day}T${hour}:${minute}`) || Number(second) > 60) return undefined;
  const sign = zone.startsWith('-') ? -1 : 1;
  const digits = zone.replace(/[^0-9]/g, '').padEnd(4, '0');
  const [offsetHours, offsetMinutes] = [Number(digits.slice(0, 2)), Number(digits.slice(2, 4))];
  if (offsetHours > MAX_OFFSET_HOURS || offsetMinutes > 59) return undefined;
  const offsetMs = sign * (offsetHours * 60 + offsetMinutes) * 60_000;
  return plausible(ms + Math.floor(Number(`0.${fraction}`) * 1000) - offsetMs);
}

type InferenceTime = Pick<Capture, 'inferenceTimeMs' | 'timeSource' | 'capturedInferenceTime'>;

/** @param notes receives a note when the captured time cannot be used. */
export function inferenceTimeOf(captured: unknown, place: LinePlace, notes: string[]): InferenceTime {
  const text = typeof captured === 'string' || typeof captured === 'number' ? String(captured) : undefined;
  const given = text === undefined ? {} : { capturedInferenceTime: text };
  const time = parseInferenceTime(captured);
  if (time !== undefined) return { inferenceTimeMs: time, timeSource: 'inferenceTime', ...given };
  const { hourMs } = capturePathOf(place.key);
  const instead = hourMs === undefined ? 'the time of the S3 object' : 'the hour of the S3 path';
  const why =
    text === undefined ? 'no inferenceTime was captured' : `inferenceTime “${text.slice(0, 60)}” cannot be read`;
  notes.push(`${why}: the time is ${instead}`);
  if (hourMs !== undefined) return { inferenceTimeMs: hourMs, timeSource: 's3-path', ...given };
  return { inferenceTimeMs: Math.trunc(place.objectTimeMs) || 0, timeSource: 's3-object-time', ...given };
}
