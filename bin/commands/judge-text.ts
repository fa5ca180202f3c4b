/** The report of `judge` as text, for terminals of any width: what fails first, with the rationales. */

import { many, percent } from '../../src/core/text/figure-text.ts';
import { bothEnds, excerpt, singleLine, type TextOptions } from '../../src/core/text/terminal-text.ts';
import { dollars, Page } from '../cli/output.ts';
import { countsText, placeText } from './inspect-text.ts';
import type { JudgeReport } from './judge-run.ts';

type Row = JudgeReport['verdicts'][number];
type Sum = JudgeReport['scorers'][number];

/** The outcome of a row. */
const outcomeOf = ({ passes, error }: Row): string =>
  error !== undefined ? 'error' : passes === undefined ? 'value' : passes ? 'pass' : 'fail';

const reasonOf = ({ value, rationale, error }: Row): string =>
  singleLine(
    error === undefined
      ? [value, rationale].filter((part) => part !== undefined && part !== '').join(': ')
      : `${error.code}: ${error.message}`,
  );

const RANKS = ['error', 'fail', 'value', 'pass'];

/** The rows that are listed: those that fail or are missing; all if one scorer was asked, or on request. */
function listed({ verdicts, scorers }: JudgeReport, all: boolean | undefined): Row[] {
  const isAll = all || scorers.length === 1;
  return verdicts.filter((row) => isAll || row.passes === false || row.error !== undefined);
}

/** @param all whether to list what passes, too */
export function judgeText(report: JudgeReport, all: boolean | undefined, out: TextOptions): string {
  const page = new Page(out);
  const rows = listed(report, all);
  if (out.width === Number.POSITIVE_INFINITY) addLines(page, rows);
  else addCaptures(page, rows, out.width);
  addSums(page, report);
  addEnd(page, report);
  return page.text();
}

const rankOf = (row: Row): number => RANKS.indexOf(outcomeOf(row));
const ranked = (rows: readonly Row[]): Row[] => rows.toSorted((a, b) => rankOf(a) - rankOf(b));

/** One line for each verdict, for pipes. */
function addLines(page: Page, rows: readonly Row[]): void {
  for (const row of ranked(rows)) page.add(`${outcomeOf(row)}  ${placeText(row)}  ${row.scorer}  ${reasonOf(row)}`);
}

/** Lines of the request and of the reply that are shown. The judge has read all of both. */
const PREVIEW_LINES = 3;

const previewChars = (width: number): number => PREVIEW_LINES * Math.max(30, width - 10);

/** The captures, those with failures first, each with its verdicts. */
function addCaptures(page: Page, rows: readonly Row[], width: number): void {
  for (const [place, [first, ...others]] of Map.groupBy(ranked(rows), placeText)) {
    page.section(place);
    if (first === undefined) continue;
    if (first.request !== '') page.add(`  asked   ${bothEnds(first.request, previewChars(width))}`, 'dim');
    if (first.reply !== '') page.add(`  reply   ${excerpt(first.reply, previewChars(width))}`, 'dim');
    for (const row of [first, ...others]) {
      const outcome = outcomeOf(row);
      const style = outcome === 'fail' || outcome === 'error' ? 'red' : outcome === 'pass' ? 'green' : undefined;
      page.add(`  ${outcome}${' '.repeat(6 - outcome.length)}  ${row.scorer}: ${reasonOf(row)}`, style);
    }
  }
}

function valuesText({ passes, values, numbers }: Sum): string {
  if (passes !== null) {
    return `${passes.hits} of ${passes.of} pass, ${percent(passes.value)} (${percent(passes.low)} – ${percent(passes.high)})`;
  }
  if (numbers !== undefined) return `mean ${numbers.mean.toPrecision(4)} (${numbers.min} – ${numbers.max})`;
  return countsText(values);
}

function addSums(page: Page, { captures, judge, scorers, spend }: JudgeReport): void {
  page.section(`${many(captures, 'capture')}, judge ${judge ?? 'none'}, ${dollars(spend.usd)}`);
  const width = Math.max(...scorers.map(({ name }) => name.length));
  for (const scorer of captures === 0 ? [] : scorers) {
    const { name, verdicts, missing, usd, kind } = scorer;
    const facts = [
      verdicts === 0 ? 'no verdict' : valuesText(scorer),
      ...(missing === 0 ? [] : [`${missing} missing`]),
      ...(kind === 'code' || spend.usd === 0 ? [] : [dollars(usd)]),
    ];
    page.add(`  ${name.padEnd(width)}  ${facts.join(', ')}`);
  }
}

function addEnd(
  page: Page,
  { verdicts, missing, notJudgeable, thresholds, scorers, failure, captures, unreadable }: JudgeReport,
): void {
  if (Object.keys(notJudgeable).length > 0) page.add(`scorers that do not apply: ${countsText(notJudgeable)}`);
  if (Object.keys(missing).length > 0) page.add(`missing verdicts: ${countsText(missing)}`, 'red');
  for (const { file, message } of unreadable) page.add(`${file}: ${message}`, 'red');
  if (failure !== undefined) page.add(`${failure.name}: ${failure.message}`, 'red');
  if (verdicts.length === 0) page.add(captures === 0 ? 'No capture can be judged.' : 'There is no verdict.', 'red');
  for (const { scorer, atLeast, holds } of thresholds) {
    const share = scorers.find(({ name }) => name === scorer)?.passes;
    const seen = share
      ? `${percent(share.value)} pass (95% interval ${percent(share.low)} – ${percent(share.high)})`
      : 'no verdict';
    page.add(`threshold ${scorer}:${atLeast} ${holds ? 'holds' : 'is not reached'}: ${seen}`, holds ? 'green' : 'red');
  }
}
