/** The report of `judge` as a page: what fails first, with the rationales. */

import { many, percent } from '../../src/core/text/figure-text.ts';
import { bothEnds, excerpt, namedCounts } from '../../src/core/text/terminal-text.ts';
import { dollars } from '../cli/output.ts';
import { block, bold, dim, green, type Page, type Part, red, table } from '../cli/page.ts';
import { placeText } from './inspect-text.ts';
import type { JudgeReport } from './judge-run.ts';

type Verdict = JudgeReport['verdicts'][number];
type Sum = JudgeReport['scorers'][number];

/** What comes first is listed first. */
const OUTCOMES = { error: red, fail: red, value: undefined, pass: green } as const;
const RANKS = Object.keys(OUTCOMES);

const outcomeOf = ({ passes, error }: Verdict): keyof typeof OUTCOMES =>
  error !== undefined ? 'error' : passes === undefined ? 'value' : passes ? 'pass' : 'fail';

const reasonOf = ({ value, rationale, error }: Verdict): string =>
  error === undefined
    ? [value, rationale].filter((part) => part !== undefined && part !== '').join(': ')
    : `${error.code}: ${error.message}`;

/** Characters of the request and of the reply that are shown. The judge has read all of both. */
const PREVIEW_CHARS = 240;

/** @param all whether to list what passes, too, as it is if one scorer was asked; else only what fails or is missing */
export function judgePage(report: JudgeReport, all = report.scorers.length === 1): Page {
  const { verdicts, captures, judge, scorers, spend } = report;
  const listed = verdicts
    .filter((one) => all || one.passes === false || one.error !== undefined)
    .toSorted((a, b) => RANKS.indexOf(outcomeOf(a)) - RANKS.indexOf(outcomeOf(b)));
  return [
    ...[...Map.groupBy(listed, placeText)].map(([place, own]) => block(bold(place), [captureOf(own)])),
    block(bold(`${many(captures, 'capture')}, judge ${judge ?? 'none'}, ${dollars(spend.usd)}`), [
      captures > 0 && table(scorers.map((one) => [one.name, sumText(one, spend.usd)])),
    ]),
    ...endOf(report),
  ];
}

/** A capture, and its verdicts in one line each. */
function captureOf(verdicts: readonly Verdict[]): Part {
  const { request = '', reply = '' } = verdicts[0] ?? {};
  const said = [
    ['asked', bothEnds(request, PREVIEW_CHARS)],
    ['reply', excerpt(reply, PREVIEW_CHARS)],
  ].filter(([, text]) => text !== '');
  const rows = verdicts.map((one) => {
    const outcome = outcomeOf(one);
    const row = [outcome, `${one.scorer}: ${reasonOf(one)}`];
    return OUTCOMES[outcome]?.(row) ?? row;
  });
  return table([...said.map(dim), ...rows]);
}

const passText = ({ hits, of, value, low, high }: NonNullable<Sum['passes']>): string =>
  `${hits} of ${of} pass, ${percent(value)} (${percent(low)} – ${percent(high)})`;

function sumText({ verdicts, missing, usd, kind, passes, numbers, values }: Sum, spentUsd: number | null): string {
  const found = passes
    ? passText(passes)
    : numbers
      ? `mean ${numbers.mean.toPrecision(4)} (${numbers.min} – ${numbers.max})`
      : namedCounts(values);
  const isPaid = kind !== 'code' && spentUsd !== 0;
  return [verdicts === 0 ? 'no verdict' : found, missing > 0 && `${missing} missing`, isPaid && dollars(usd)]
    .filter(Boolean)
    .join(', ');
}

function endOf(report: JudgeReport): Part[] {
  const { verdicts, missing, notJudgeable, thresholds, scorers, failure, captures, unreadable } = report;
  const [inapplicable, absent] = [notJudgeable, missing].map((counts) => namedCounts(counts));
  return [
    inapplicable && `scorers that do not apply: ${inapplicable}`,
    red(absent && `missing verdicts: ${absent}`),
    ...unreadable.map(({ file, message }) => red(`${file}: ${message}`)),
    red(failure && `${failure.name}: ${failure.message}`),
    red(verdicts.length === 0 && (captures === 0 ? 'No capture can be judged.' : 'There is no verdict.')),
    ...thresholds.map(({ scorer, atLeast, holds }) => {
      const share = scorers.find(({ name }) => name === scorer)?.passes;
      const seen = share ? passText(share) : 'no verdict';
      const text = `threshold ${scorer}:${atLeast} ${holds ? 'holds' : 'is not reached'}: ${seen}`;
      return holds ? green(text) : red(text);
    }),
  ];
}
