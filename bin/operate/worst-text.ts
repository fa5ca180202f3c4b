/** The traces with the worst verdicts, as lines for a terminal of any width. */

import { singleLine, wrapped } from '../../src/core/text/terminal-text.ts';
import { PLAIN } from '../../src/quality/rates-text.ts';
import type { TextOptions } from '../cli/output.ts';
import type { StandingVerdict } from './standing-verdicts.ts';
import type { WorstTrace } from './worst.ts';

/** Characters of the judge's words, and of a request or a reply. `--json` has all of them. */
const MAX_WORDS = 300;
const MAX_PREVIEW = 120;

const shortened = (text: string, most: number): string => {
  const line = singleLine(text).trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
};

/** @param link of the trace, or how to open it */
function traceLines(trace: WorstTrace, place: number, link: string, { width, style }: TextOptions): string[] {
  const { failing, verdicts, time, variant, request, reply } = trace;
  const when = singleLine(time).slice(0, 16).replace('T', ' ');
  const title = `${place}. ${failing.length} of ${verdicts} verdicts fail, ${when}, ${singleLine(variant)}`;
  const about = (what: string, text: string): string[] =>
    text === '' ? [] : [`   ${what}: ${shortened(text, MAX_PREVIEW)}`];
  return [
    ...wrapped(title, width).map((line) => style('bold', line)),
    ...failing.map(verdictLine).flatMap((line) => wrapped(line, width).map((part) => style('red', part))),
    ...[...about('request', request), ...about('reply', reply)].flatMap((line) => wrapped(line, width)),
    // A link is not wrapped: a terminal opens it whole.
    style('dim', `   ${link}`),
  ];
}

function verdictLine({ scorer, value, by, source, rationale }: StandingVerdict): string {
  const who = by === 'person' ? ` (${singleLine(source)})` : '';
  const words = rationale === '' ? '' : `: ${shortened(rationale, MAX_WORDS)}`;
  return `   ${singleLine(scorer)} ${singleLine(String(value))}${who}${words}`;
}

/** Returns the lines of the traces, in their order, each followed by an empty line. */
export const worstLines = (
  worst: readonly WorstTrace[],
  linkOf: (trace: WorstTrace) => string,
  shape: TextOptions = { width: Number.POSITIVE_INFINITY, style: PLAIN },
): string[] => worst.flatMap((trace, index) => [...traceLines(trace, index + 1, linkOf(trace), shape), '']);
