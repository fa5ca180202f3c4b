/**
 * A gate as Markdown, for the summary of a CI job. Names and replies come from captures, so they must not act as
 * Markdown or HTML, load an image, or mention a person. They are inside code spans and `<pre>`, where GitHub and GitLab
 * interpret no syntax.
 */
import { cut } from '../../../captures/trace/text.ts';
import type { RunFacts, RunsComparison } from '../../compare/compare-runs.ts';
import { isRegressed, type RegressionRow } from '../../compare/quality.ts';
import { contentText, factsOf, OUTCOME_TEXTS, observedText, outcomeText } from '../texts.ts';
import type { GateOutcome, GateResult, ThresholdResult } from '../types.ts';

/** GitHub accepts 1 MiB for the summary of a step. */
const MAX_REPLIES = 5;
const MAX_TEXT_CHARS = 1_500;
const MAX_NAME_CHARS = 200;
const MAX_NOTES = 20;

const SIGNS: Record<GateOutcome, string> = { passed: '✅', failed: '❌', 'cannot-tell': '⚠️' };

/** Control characters other than tab and line feed, and marks that reverse the direction of the text after them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: names the characters that are replaced
const UNSHOWABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

const shown = (text: string, max: number): string =>
  cut(text.slice(0, max * 2).replace(/\r\n?|[\u2028\u2029]/g, '\n'), max)
    .replace(UNSHOWABLE, '\ufffd')
    .toWellFormed();

/** Foreign text on one line. */
function codeSpan(text: string): string {
  const line = shown(text, MAX_NAME_CHARS).replace(/\s+/g, ' ').trim() || ' ';
  const longest = Math.max(0, ...(line.match(/`+/g) ?? []).map(({ length }) => length));
  const fence = '`'.repeat(longest + 1);
  // Without the spaces, a backtick at an end of the text would become a part of the fence.
  return line.startsWith('`') || line.endsWith('`') ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** Foreign text with its line breaks. The block ends at `</pre>`, which escaped text cannot contain. */
const block = (text: string): string =>
  `<pre>\n${shown(text, MAX_TEXT_CHARS).replace(/[&<>]/g, (char) => `&#${char.charCodeAt(0)};`)}\n</pre>`;

/** Our own sentence in a cell of a table. It may quote a name. */
const cell = (text: string): string =>
  shown(text, MAX_TEXT_CHARS)
    .replace(/\s+/g, ' ')
    .replace(
      /[\\`*{}[\]<>#|~!&$@]|(?<![a-z0-9])_|_(?![a-z0-9])|:(?=\/\/)|(?<=www)\./gi,
      (char) => `&#${char.charCodeAt(0)};`,
    )
    // After the invisible joiner, neither a mention nor a reference to an issue is recognized.
    .replace(/&#(?:64|35);/g, '$&\u2060');

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

function thresholdTable(thresholds: readonly ThresholdResult[]): string[] {
  return [
    row(['outcome', 'threshold', 'worse by', 'at least … at most', 'allowed', 'requests', 'why']),
    '| --- | --- | ---: | ---: | ---: | ---: | --- |',
    ...thresholds.map((result) => {
      const facts = Object.values(factsOf(result));
      return row([`${SIGNS[result.outcome]} ${outcomeText(result)}`, codeSpan(result.threshold), ...facts.map(cell)]);
    }),
  ];
}

const details = (title: string, text: string | undefined): string[] =>
  text ? ['<details>', `<summary>${title}</summary>`, '', block(text), '', '</details>', ''] : [];

function reply(found: RegressionRow, at: number): string[] {
  const { regressions, key, file, line } = found;
  return [
    `**${at}. ${regressions.join(', ')}:** ${codeSpan(key)}, captured in ${codeSpan(file)}, line ${line}`,
    '',
    ...details('why, in the judge’s words', found.rationale),
    ...details('request', found.input),
    ...details('reply before', found.before),
    ...details('reply after', found.after),
  ];
}

const runText = (name: string, { run, requests, failed }: RunFacts): string =>
  `${name}: ${codeSpan(run)}, ${requests} requests, ${failed} failed`;

const EXPLANATION =
  'A threshold passes if the second run is at most as much worse as allowed, and fails if it is more than that, each with 95% ' +
  'confidence. “At least” and “at most” are the ends of the one-sided 95% intervals. Negative means better.';

/**
 * Returns the summary: the outcome, the thresholds with their intervals, and the five gravest replies.
 *
 * @param report path of the HTML comparison, if it is written
 */
export function markdownSummary(comparison: RunsComparison, gate: GateResult, report?: string): string {
  const { before, after, paired, quality, notes, judgeFailure, regressions } = comparison;
  const worst = regressions.filter((found) => isRegressed(found.regressions)).slice(0, MAX_REPLIES);
  const lines = [
    `## ${SIGNS[gate.outcome]} Release gate: ${OUTCOME_TEXTS[gate.outcome]}`,
    '',
    `${runText('Before', before)}. ${runText('After', after)}. ${paired.requests} requests are in both.${gate.runs > 1 ? ` These are the first of ${gate.runs} pairs of runs; the thresholds are of all.` : ''}`,
    '',
    ...thresholdTable(gate.thresholds),
    '',
    ...gate.observed.map((one) => `- ${cell(observedText(one))}`),
    `- ${cell(contentText(gate.content))}`,
    '',
    EXPLANATION,
    '',
    ...(judgeFailure ? [`The judge failed: ${cell(judgeFailure.message)}`, ''] : []),
  ];
  if (worst.length > 0) {
    lines.push(`### The gravest ${worst.length} of ${quality?.regressed ?? worst.length} replies that got worse`, '');
    for (const [i, found] of worst.entries()) lines.push(...reply(found, i + 1));
    if (report) lines.push(`All of them, side by side: ${codeSpan(report)}`, '');
  }
  lines.push(...details('Notes', notes.slice(0, MAX_NOTES).join('\n')));
  return `${lines.join('\n').trimEnd()}\n`;
}
