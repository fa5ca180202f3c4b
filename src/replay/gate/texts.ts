/** The results of a gate as text, the same in every output for people. */
import { finite } from '../../core/text/figure-text.ts';
import type { Difference } from '../compare/differences.ts';
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
const signed = (value: number, digits = 2): string =>
  finite(value, () => `${value >= 0 ? '+' : ''}${value.toFixed(digits)}`);

export const DIFFERENCE_COLUMNS = ['before', 'after', 'change', '%', '95% interval'] as const;

/** The cells of these columns; `*`: the interval excludes 0. @param scale 100 for a difference of two shares, which is in percentage points */
export function differenceTexts(found: Difference, scale = 1): string[] {
  const { before, after, difference, relative, low, high, tooFew, significant } = found;
  const sign = (value: number): string => signed(scale * value);
  return [
    ...[before, after].map((value) => finite(scale * value, (shown) => shown.toFixed(2))),
    sign(difference),
    relative === null || scale !== 1 ? '' : signed(relative * 100, 1),
    tooFew ? 'too few requests' : `${sign(low)} … ${sign(high)}${significant ? ' *' : ''}`,
  ];
}

const withUnit = (value: number | string, unit: GateUnit): string => `${value}${unit === '%' ? '' : ' '}${unit}`;

/** `12.3%`, `0.40 points` */
export const amountText = (value: number, unit: GateUnit): string =>
  finite(value, () => withUnit(value.toFixed(Math.abs(value) < 10 ? 2 : 1), unit));

/** `+12.3%`; a minus sign means better. */
const worse = (value: number | null, { unit }: ThresholdResult): string =>
  value === null ? UNKNOWN : `${value > 0 ? '+' : ''}${amountText(value, unit)}`;

/**
 * Returns the facts about a threshold that every output for people shows, in this order. `interval`: both one-sided
 * ends, `+8.10% … +16.5%`.
 */
export function factsOf(result: ThresholdResult) {
  const { lower, upper, bound, unit, seen, of, open } = result;
  return {
    worse: worse(result.worse, result),
    interval: lower === null && upper === null ? UNKNOWN : `${worse(lower, result)} … ${worse(upper, result)}`,
    allowed: withUnit(bound, unit),
    requests: `${seen} of ${of}${open ? `, ${open} without a verdict` : ''}`,
    why: [result.reason, moreText(result)].filter((text) => text !== undefined).join(' '),
  };
}

/** `3,000`: rounded up to two digits, since an estimate has no more. */
export function inDigits(count: number): string {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(count)) - 1);
  return (Math.ceil(count / step) * step).toLocaleString('en-US');
}

/**
 * Estimates how many more requests would decide the threshold. Returns `undefined` if it is decided or nothing was
 * measured.
 */
function moreText({ moreRequests, worse: found }: ThresholdResult): string | undefined {
  if (typeof moreRequests === 'number')
    return `About ${inDigits(moreRequests)} more requests would probably decide it.`;
  return moreRequests === null && found !== null ? 'More requests would probably not decide it.' : undefined;
}

/** Describes the result of a free scorer without a threshold. */
export function observedText({ scorer, newlyFailing, seen, of, lower, upper }: Observed): string {
  const [from, to] = [lower, upper].map((end) => amountText(end ?? Number.NaN, '%'));
  return `newly failing ${scorer}: ${newlyFailing} of ${seen}${of > seen ? `, ${of - seen} unknown` : ''} (${from} … ${to}), no threshold`;
}

/** Returns the last line of a gate: whether a judge has read the replies. */
export const contentText = (content: ContentJudged): string =>
  `content: ${content}${content === 'not judged' ? ' (--judge, or judge: in the gate file, asks about it)' : ''}`;

/** Returns the text for the terminal: a line for each threshold, and a last line for the gate. */
export function gateText({ outcome, thresholds, observed, content }: GateResult): string[] {
  const lines = thresholds.map((one) => {
    const facts = factsOf(one);
    const by = one.worse === null ? facts.worse : `${facts.worse} (${facts.interval})`;
    const text = `worse by ${by}, allowed ${facts.allowed}, requests ${facts.requests}. ${facts.why}`;
    return `${outcomeText(one).toUpperCase().padEnd(12)}${one.threshold}: ${text}`;
  });
  return [
    ...lines,
    ...observed.map(observedText),
    `Gate: ${OUTCOME_TEXTS[outcome].toUpperCase()}`,
    contentText(content),
  ];
}
