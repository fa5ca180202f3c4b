/** The figures of a gate in words, the same in every output for people. */
import type { GateOutcome, ThresholdResult } from '../types.ts';

export const OUTCOME_TEXTS: Record<GateOutcome, string> = {
  passed: 'passed',
  failed: 'failed',
  'cannot-tell': 'cannot tell',
};

const UNKNOWN = 'unknown';

const rounded = (value: number): string => {
  const text = value.toFixed(Math.abs(value) < 10 ? 2 : 1);
  return value > 0 ? `+${text}` : text;
};

/** `+12.3%`, `+0.40 points`; a minus sign means better. */
const worse = (value: number | null, { unit }: ThresholdResult): string =>
  value === null || !Number.isFinite(value) ? UNKNOWN : `${rounded(value)}${unit === '%' ? '' : ' '}${unit}`;

export const estimateText = (result: ThresholdResult): string => worse(result.worse, result);

/** Both one-sided ends: `+8.10% … +16.5%`. */
export const intervalText = (result: ThresholdResult): string =>
  result.lower === null && result.upper === null
    ? UNKNOWN
    : `${worse(result.lower, result)} … ${worse(result.upper, result)}`;

export const boundText = ({ bound, unit }: ThresholdResult): string => `${bound}${unit === '%' ? '' : ' '}${unit}`;

/** `980 of 1000`, and how many of them have no verdict. */
export const pairsText = ({ seen, of, open }: ThresholdResult): string =>
  `${seen} of ${of}${open ? `, ${open} without a verdict` : ''}`;

/** How many more requests would decide the threshold; `undefined` if it is decided. */
export function moreText({ moreRequests }: ThresholdResult): string | undefined {
  if (moreRequests === undefined) return undefined;
  return moreRequests === null
    ? 'More requests would probably not decide it.'
    : `About ${moreRequests} more requests would probably decide it.`;
}
