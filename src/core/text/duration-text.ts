/** Durations for people. */

const UNITS: readonly [seconds: number, name: string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** Formats a duration as `42.0 s`, `2 h 36 min` or `274 d 8 h`. */
export function durationText(seconds: number): string {
  const first = UNITS.findIndex(([unit]) => seconds >= unit);
  if (first === -1 || seconds < 60) return `${seconds.toFixed(1)} s`;
  const [larger, smaller] = UNITS.slice(first, first + 2) as [(typeof UNITS)[number], (typeof UNITS)[number]];
  const whole = Math.floor(seconds / larger[0]);
  const rest = Math.floor((seconds - whole * larger[0]) / smaller[0]);
  return `${whole} ${larger[1]}${rest > 0 ? ` ${rest} ${smaller[1]}` : ''}`;
}
