/** The state of an endpoint and its findings, for a terminal of any width. */

import { type Style, singleLine, wrapped } from '../core/text/terminal-text.ts';
import type { Finding, Health } from './findings.ts';
import type { HealthState } from './known.ts';
import STATES from './states.json' with { type: 'json' };

/** A sign for each state, so that nothing depends on color. */
export const SIGNS = STATES.signs;

/** Returns the sign of a finding, and its state in words: what is not beyond its bound may still not be clearly within it. */
export const signOf = ({ state, isWithin }: Pick<Finding, 'state' | 'isWithin'>): [sign: string, words: string] =>
  state === 'healthy' && isWithin === false ? ['·', 'not clearly within'] : [SIGNS[state], state];

const COLORS: Partial<Record<HealthState, 'red' | 'green'>> = { bad: 'red', healthy: 'green' };

/** Returns when a finding was true: the time, with its day unless that is today (UTC). */
const asOfText = (asOf: string, nowMs: number): string =>
  asOf.slice(asOf.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10) ? 11 : 0, 16).replace('T', ' ');

/** The state as text, and why. */
export const stateLines = ({ state, words }: Pick<Health, 'state' | 'words'>, width: number, style: Style): string[] =>
  wrapped(`${SIGNS[state]} ${singleLine(words)}`, width).map((line) =>
    style('bold', COLORS[state] === undefined ? line : style(COLORS[state], line)),
  );

/** The state, a line for each finding, and the command of the worst one that has one. @param nowMs absent: without the time that each is of */
export function healthLines(
  health: Health,
  { width, style }: { width: number; style: Style },
  about: readonly string[] = [],
  nowMs?: number,
): string[] {
  const found = health.findings.flatMap((one) => {
    const { state, message, asOf } = one;
    const when = nowMs === undefined ? '' : ` (as of ${asOfText(asOf, nowMs)})`;
    const lines = wrapped(`${signOf(one)[0]} ${singleLine(message)}${when}`, width);
    return state === 'bad' ? lines.map((line) => style('red', line)) : lines;
  });
  const next = health.findings.find(({ command }) => command !== undefined)?.command;
  // A command is not wrapped, so that it can be copied.
  const last = next === undefined ? [] : ['', `Next: ${style('bold', next)}`];
  return [...stateLines(health, width, style), ...about, ...found, ...last];
}
