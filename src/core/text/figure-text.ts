/** Figures and times as people read them. */

export const whole = (count: number): string => Math.round(count).toLocaleString('en-US');

/** The text of a figure. One that is infinite, or no number, has too few values. */
export const finite = (value: number, text: (value: number) => string): string =>
  Number.isFinite(value) ? text(value) : 'too few';

/** A number of any size. */
export const number = (value: number): string =>
  finite(value, () => (Math.abs(value) < 10_000 ? value.toPrecision(4) : whole(value)));

export const percent = (share: number, digits = 1): string => finite(share, () => `${(share * 100).toFixed(digits)}%`);

export function points(share: number): string {
  if (!Number.isFinite(share)) return finite(share, String);
  // Neither +0.0 nor -0.0.
  const rounded = Number((share * 100).toFixed(1)) || 0;
  return `${rounded > 0 ? '+' : ''}${rounded.toFixed(1)}`;
}

/** Returns a figure with its interval, if any: `78.0% (72.3% to 82.8%)`. Returns a dash if there is no figure. */
export function bracketed(figure: Shown | null, text: (value: number) => string): string {
  if (figure === null || figure.value === null) return '–';
  const { value, low, high } = figure;
  const shown = finite(value, text);
  return low === null || high === null ? shown : `${shown} (${finite(low, text)} to ${finite(high, text)})`;
}

/** A figure that may be unknown, and may have an interval. */
export type Shown = Record<'value' | 'low' | 'high', number | null>;

/** A count in words: `1 file`, `1,200 files`. */
export const many = (count: number, noun: string, plural = `${noun}s`): string =>
  `${whole(count)} ${count === 1 ? noun : plural}`;

export const time = (at: string | number): string => `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`;

/** A price of cents needs more digits than one of dollars. */
export const dollars = (usd: number | null): string =>
  usd === null ? 'an unknown amount' : `$${usd.toFixed(usd !== 0 && usd < 1 ? 4 : 2)}`;

const MB = 1e6;
export const megabytes = (bytes: number): string =>
  bytes < MB ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / MB).toFixed(1)} MB`;
