/** The state of an endpoint and its findings, for a terminal of any width. */

import { singleLine, wrapped } from '../core/text/terminal-text.ts';
import type { Style } from '../quality/rates-text.ts';
import type { Finding, Health, HealthState } from './findings.ts';

/** A sign for each state, so that nothing depends on color. */
export const SIGNS: Readonly<Record<HealthState, string>> = {
  bad: '✗',
  'needs a look': '!',
  'could not ask': '?',
  'too little to tell': '·',
  healthy: '✓',
};
const COLORS: Partial<Record<HealthState, 'red' | 'green'>> = { bad: 'red', healthy: 'green' };

/** Returns when a finding was true: the time, with its day unless that is today (UTC). */
const asOfText = (asOf: string, nowMs: number): string =>
  asOf.slice(asOf.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10) ? 11 : 0, 16).replace('T', ' ');

/** The state in words, and why. */
export const stateLines = ({ state, words }: Pick<Health, 'state' | 'words'>, width: number, style: Style): string[] =>
  wrapped(`${SIGNS[state]} ${singleLine(words)}`, width).map((line) =>
    style('bold', COLORS[state] === undefined ? line : style(COLORS[state], line)),
  );

/** A line for each finding. @param nowMs absent: without the time that it is of */
export function findingLines(findings: readonly Finding[], width: number, style: Style, nowMs?: number): string[] {
  return findings.flatMap(({ state, message, asOf }) => {
    const when = nowMs === undefined ? '' : ` (as of ${asOfText(asOf, nowMs)})`;
    const color = COLORS[state];
    const lines = wrapped(`${SIGNS[state]} ${singleLine(message)}${when}`, width);
    return color === 'red' ? lines.map((line) => style(color, line)) : lines;
  });
}

/** The command of the worst finding that has one. */
export function nextLines({ findings }: Health, style: Style): string[] {
  const next = findings.find(({ command }) => command !== undefined);
  // A command is not wrapped, so that it can be copied.
  return next?.command === undefined ? [] : ['', `Next: ${style('bold', next.command)}`];
}
