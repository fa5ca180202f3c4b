/** Parts of the page about rates. */
import type { Measured } from '../../src/core/statistics/sampled-mean.ts';
import { many, number, percent, points, whole } from '../../src/core/text/figure-text.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { ERROR_REPLIES } from '../../src/quality/objectives.ts';
import type { ScorerOutcomes } from '../../src/quality/outcomes.ts';
import { quantilesText } from '../../src/quality/quantiles.ts';
import type { GroupRates, Rate, RateDifference } from '../../src/quality/rates.ts';
import { OUTCOMES, sparkline } from '../../src/quality/rates-text.ts';
import { block, dim, green, type Part, red, section, table } from '../cli/page.ts';

export function groupPart({ group, shadow, totals, rates, outcomes }: GroupRates, by: string | undefined): Part {
  const mark = shadow ? ' (shadow: not in the rates of the endpoint)' : '';
  const { captures = 0, errorReplies = 0, inputTokens = 0, outputTokens = 0, judgeUsd = 0 } = totals;
  const empty = totals.replies?.words?.empty ?? 0;
  const calls = namedCounts(totals.failedCalls);
  const counted = [
    many(captures, 'capture'),
    many(errorReplies, 'error reply', 'error replies'),
    empty > 0 && many(empty, 'empty reply', 'empty replies'),
    `${whole(inputTokens)} + ${whole(outputTokens)} tokens`,
    rates.length > 0 && judgeUsd > 0 && `judge $${judgeUsd.toFixed(2)}`,
  ];
  return section(
    by === undefined ? '' : `${by} ${group}${mark}`,
    counted.filter(Boolean).join(', '),
    calls && `calls without a reply, in no rate: ${calls}`,
    table(
      rates.map((rate) => (rate.judge ? cellsOf(rate) : dim(cellsOf(rate)))),
      ['scorer', 'n', 'sampled', 'rate', '95% interval', 'corrected', 'trend'],
    ),
    ...rates.map(({ scorer, quantiles }) => quantiles && `${scorer}: ${quantilesText(quantiles)}`),
    by === undefined && block(outcomesTable(outcomes)),
  );
}

/** Whether the figure is a mean and no share. */
const isMean = ({ is, scorer }: Pick<Rate, 'is' | 'scorer'>): boolean => is === undefined && scorer !== ERROR_REPLIES;
const figure = (rate: Rate, value: number): string => (isMean(rate) ? number(value) : percent(value));

function intervalOf(rate: Rate, { low, high }: Measured): string {
  return low === null || high === null ? 'too few' : `${figure(rate, low)} – ${figure(rate, high)}`;
}

/** Names the captures that labels speak for, if it is not all. */
const coveredText = (covered: number | null): string =>
  covered === null ? '' : `, of ${whole(covered)} captures picked from`;

/** What a figure is of: what is good, if something is. */
function nameOf({ scorer, is, good }: Pick<Rate | RateDifference, 'scorer' | 'is' | 'good'>): string {
  if (scorer === ERROR_REPLIES) return 'without error';
  return good === null ? `${scorer} = ${is}` : `${scorer}: good`;
}

/** The columns of a rate. */
function cellsOf(rate: Rate): string[] {
  const { scorer, n, captures, empty = 0, judge, good, share, low, high, method, labels, covered, trend } = rate;
  const name = isMean(rate) ? `${scorer} (mean)` : judge === null ? scorer : nameOf(rate);
  const sampled = captures > 0 ? percent(n / captures) : '–';
  // Of a judge's verdicts, the value that is good is counted.
  const shown = method === 'computed' && good !== null ? good : judge;
  const seen = shown === null ? '–' : figure(rate, shown.value);
  const ofJudge = shown === null ? '–' : intervalOf(rate, shown);
  const ofEmpty = empty > 0 ? `; ${whole(empty)} empty` : '';
  const corrected =
    share === null || low === null || high === null
      ? `${method}${ofEmpty}`
      : `${percent(share)}  (${percent(low)} – ${percent(high)}) ${method}, ${whole(labels)} labels${coveredText(covered)}${ofEmpty}`;
  return [name, whole(n), sampled, seen, ofJudge, corrected, sparkline(good?.trend ?? trend)];
}

/** Reasons why a scorer does not apply that are named. */
const MAX_REASONS = 3;

/** What became of the captures, by scorer. */
export function outcomesTable(outcomes: readonly ScorerOutcomes[]): Part {
  const seen = OUTCOMES.filter(([outcome]) => outcomes.some((one) => one[outcome] !== 0));
  const rows = outcomes.map((one) => [
    one.scorer,
    ...seen.map(([outcome]) => whole(one[outcome])),
    namedCounts(one.reasons, MAX_REASONS),
  ]);
  return table(rows, [`of ${many(outcomes[0]?.captures ?? 0, 'capture')}`, ...seen.map(([, name]) => name), '']);
}

/** One whose interval excludes 0 is colored, if something is good or bad. */
export function differencePart(difference: RateDifference): Part {
  const { good, judge, share, method, covered } = difference;
  const { value, low, high } = good ?? { ...difference, value: share ?? judge.value };
  const text = `${nameOf(difference)} ${points(value)} points (${points(low)} to ${points(high)}), ${method}${coveredText(covered)}`;
  if (good === null) return text;
  return high < 0 ? red(text) : low > 0 ? green(text) : text;
}
