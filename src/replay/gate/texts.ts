/** The results of a gate as text, the same in every output for people. */
import type { ContentJudged, GateOutcome, GateResult, GateUnit, Observed, ThresholdResult } from './types.ts';

export const OUTCOME_TEXTS = {
  passed: 'passed',
  failed: 'failed',
  'cannot-tell': 'cannot tell',
} as const satisfies Record<GateOutcome, string>;

/** `too few`: it has no effect on the gate. */
export const outcomeText = ({ outcome, counts }: ThresholdResult): string =>
  counts === false ? 'too few' : OUTCOME_TEXTS[outcome];

const UNKNOWN = 'unknown';

/** A number with its sign. */
export const signed = (value: number, digits = 2): string => `${value >= 0 ? '+' : ''}${value.toFixed(digits)}`;

const withUnit = (value: number | string, unit: GateUnit): string => `${value}${unit === '%' ? '' : ' '}${unit}`;

/** `12.3%`, `0.40 points` */
export const amountText = (value: number, unit: GateUnit): string =>
  withUnit(value.toFixed(Math.abs(value) < 10 ? 2 : 1), unit);

/** `+12.3%`; a minus sign means better. */
const worse = (value: number | null, { unit }: ThresholdResult): string =>
  value === null ? UNKNOWN : `${value > 0 ? '+' : ''}${amountText(value, unit)}`;

export const estimateText = (result: ThresholdResult): string => worse(result.worse, result);

/** Both one-sided ends: `+8.10% … +16.5%`. */
export const intervalText = (result: ThresholdResult): string =>
  result.lower === null && result.upper === null
    ? UNKNOWN
    : `${worse(result.lower, result)} … ${worse(result.upper, result)}`;

export const boundText = ({ bound, unit }: ThresholdResult): string => withUnit(bound, unit);

/** `980 of 1000`, and how many of them have no verdict. */
export const pairsText = ({ seen, of, open }: ThresholdResult): string =>
  `${seen} of ${of}${open ? `, ${open} without a verdict` : ''}`;

/** `3,000`: rounded up to two digits. */
export const inDigits = (count: number): string => roughly(count).toLocaleString('en-US');

/** Rounded up to two digits: an estimate has no more. */
function roughly(count: number): number {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(count)) - 1);
  return Math.ceil(count / step) * step;
}

/** How many more requests would decide the threshold; `undefined` if it is decided, or nothing was measured. */
function moreText({ moreRequests, worse: found }: ThresholdResult): string | undefined {
  if (typeof moreRequests === 'number') return `About ${roughly(moreRequests)} more requests would probably decide it.`;
  return moreRequests === null && found !== null ? 'More requests would probably not decide it.' : undefined;
}

/** Why, and what would decide it. */
export const whyText = (result: ThresholdResult): string =>
  [result.reason, moreText(result)].filter((text) => text !== undefined).join(' ');

/** What a free scorer without a threshold shows. */
export function observedText({ scorer, newlyFailing, seen, of, lower, upper }: Observed): string {
  const [from, to] = [lower, upper].map((end) => amountText(end ?? Number.NaN, '%'));
  return `newly failing ${scorer}: ${newlyFailing} of ${seen}${of > seen ? `, ${of - seen} unknown` : ''} (${from} … ${to}), no threshold`;
}

/** The last line of a gate: whether anybody has read the replies. */
export const contentText = (content: ContentJudged): string =>
  `content: ${content}${content === 'not judged' ? ' (--judge, or judge: in the gate file, asks about it)' : ''}`;

/** For the terminal: a line for each threshold, and a last one for the gate. */
export function gateText({ outcome, thresholds, observed, content }: GateResult): string[] {
  const lines = thresholds.map((one) => {
    const interval = one.worse === null ? '' : ` (${intervalText(one)})`;
    const facts = `worse by ${estimateText(one)}${interval}, allowed ${boundText(one)}, requests ${pairsText(one)}`;
    return `${outcomeText(one).toUpperCase().padEnd(12)}${one.threshold}: ${facts}. ${whyText(one)}`;
  });
  return [
    ...lines,
    ...observed.map(observedText),
    `Gate: ${OUTCOME_TEXTS[outcome].toUpperCase()}`,
    contentText(content),
  ];
}
