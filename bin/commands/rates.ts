/** `inference-monitor rates`: the quality of the endpoint, its uncertainty, and changes. */
import { HOUR_MS } from '../../src/captures/files/capture-path.ts';
import type { Work } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { bracketed, dollars, many, number, percent, points, whole } from '../../src/core/text/figure-text.ts';
import { block, dim, green, type Page, type Part, red, section, table } from '../../src/core/text/page.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { besideText } from '../../src/health/facts.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import type { Coverage } from '../../src/quality/calibration/types.ts';
import { labelsByCell, type WindowLabel } from '../../src/quality/calibration/window-labels.ts';
import { type CountedCell, cellsOf, countedDays, readWindow, type TimeWindow } from '../../src/quality/counts-store.ts';
import { objectiveRates } from '../../src/quality/objective-rates.ts';
import type { ObjectiveSettings } from '../../src/quality/objectives.ts';
import { ERROR_REPLIES, measuresOf, objectivesOf } from '../../src/quality/objectives.ts';
import { quantilesText } from '../../src/quality/quantiles.ts';
import {
  differencesOf,
  type GroupRates,
  groupRates,
  type LabelsOf,
  type Rate,
  type RateDifference,
  type RatesQuery,
  scorersIn,
} from '../../src/quality/rates.ts';
import { outcomesTable, ratesCsv, representedText, sparkline, windowText } from '../../src/quality/rates-text.ts';
import { command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, aboutLine, jsonOption, notice, print } from '../cli/output.ts';
import { openStack, stackOption, stackSettings } from '../cli/stack.ts';
import { DEFAULT_FROM, hourBefore, hoursOf, isoWindow, windowFrom } from '../cli/window.ts';
import { type LabelReader, labelReader } from './reading-traces.ts';

const OPTIONS = options(
  ...windowFrom(),
  option('--compare-from <time>', 'start of an earlier window of the same length to compare with'),
  option('--by <what>', 'a table for each', { choices: ['variant', 'hour', 'day'] }),
  option('--scorer <names...>', 'only these scorers, or “error replies”'),
  option('--variant <names...>', 'only these variants of the endpoint'),
  jsonOption('print all figures as JSON').conflicts('csv'),
  option('--csv', 'print a row for each rate'),
  option('--no-labels', 'do not read people’s labels from MLflow, for which the traces of the window are read'),
  stackOption(),
);
export type RatesFlags = Partial<FlagsOf<typeof OPTIONS>>;

export type Output = About & RatesOutput;

export default command('rates', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const { about } = stack;
  const settings = await stackSettings(stack);
  const active = activeScorers(settings);
  const readLabels = flags.labels === false ? undefined : labelReader(settings, active, flags.scorer);
  const report = await ratesReport(stack.work, flags, { active, settings, nowMs: Date.now(), readLabels });
  if (flags.csv) notice(aboutLine(about));
  for (const warning of report.warnings) notice(warning);
  if (flags.csv) process.stdout.write(ratesCsv([...report.groups, ...report.shadow], report.window));
  else print<RatesOutput>(ratesOutput(report), flags.json, ratesPage(report), about);
});

type RatesReport = Awaited<ReturnType<typeof ratesReport>>;

/** The output with `--json`. */
export const ratesOutput = (report: RatesReport) => ({ ...report, window: isoWindow(report.window) });

export type RatesOutput = ReturnType<typeof ratesOutput>;

interface ReportQuery extends Pick<RatesQuery, 'active'> {
  settings: ObjectiveSettings;
  nowMs: number;
  readLabels?: LabelReader | undefined;
}

/** Reads the counts of the windows and computes the rates. @throws PermanentError `NoCounts`, `UnknownName`, `InvalidTime` */
export async function ratesReport(work: Work, flags: RatesFlags, { active, settings, nowMs, readLabels }: ReportQuery) {
  const { SHADOW_VARIANTS: shadow } = settings;
  const window = hoursOf(flags.from ?? DEFAULT_FROM, flags.to, nowMs);
  const isShadow = ({ variant }: { variant: string }): boolean => shadow.includes(variant);
  const isAsked = flags.by === 'variant' || (flags.variant?.every((variant) => shadow.includes(variant)) ?? false);
  const isBeside = (cell: CountedCell): boolean => !isAsked && isShadow(cell);
  const labels: WindowLabel[] = [];
  const covered = new Map<string, Coverage[]>();
  const warnings: string[] = [];
  const measures = measuresOf(objectivesOf(settings));
  const read = async (of: TimeWindow): Promise<CountedCell[]> => {
    const cells = cellsOf(await readWindow(work, of, measures));
    if (cells.length === 0) throw noCounts(of, await countedDays(work));
    const known = [...new Set(cells.map(({ variant }) => variant))];
    checkNames('variant', flags.variant, known);
    const found = await readLabels?.(of);
    for (const label of found?.labels ?? []) labels.push(label);
    for (const [scorer, own] of found?.covered ?? []) covered.set(scorer, [...(covered.get(scorer) ?? []), ...own]);
    warnings.push(...(found?.warnings ?? []));
    return cells;
  };
  const isChosen = ({ variant }: CountedCell): boolean => flags.variant?.includes(variant) ?? true;
  const counted = await read(window);
  const all = counted.filter(isChosen);
  const cells = all.filter((cell) => !isBeside(cell));
  checkNames('scorer', flags.scorer, [...active, ...scorersIn(all)]);
  // A window to compare with may bring more labels.
  const labelsOf: LabelsOf = (scorer, of) => {
    // People's labels on a shadow variant's replies do not affect the endpoint's figures.
    const own = of.some(isShadow) ? labels : labels.filter((label) => !isShadow(label));
    return labelsByCell(own, covered)(scorer, of);
  };
  const query: RatesQuery = { window, by: flags.by, scorers: flags.scorer, active, shadow, labelsOf };
  const groups = groupRates(cells, query);
  const beside = groupRates(all.filter(isBeside), { ...query, by: 'variant' });
  const isServed = (cell: CountedCell): boolean => isChosen(cell) && !isBeside(cell);
  const earlier = flags.compareFrom === undefined ? undefined : earlierWindow(flags.compareFrom, window, nowMs);
  const before = earlier && (await read(earlier)).filter(isServed);
  return {
    window,
    by: flags.by,
    groups,
    /** The shadow variants that are in no group, each by itself. */
    shadow: beside,
    /** The objectives of the deployed stack in the window, for all scorers and variants. */
    objectives: await objectiveRates(work, settings, counted),
    /** The windows or variants that were compared, if any. */
    compared:
      earlier && before
        ? {
            before: windowText(earlier),
            after: windowText(window),
            differences: differencesOf(before, cells, query),
          }
        : betweenVariants(cells, groups, query),
    warnings,
  };
}

/** Returns the window of the same length from an earlier time on. @throws PermanentError `InvalidTime` */
function earlierWindow(from: string, window: TimeWindow, nowMs: number): TimeWindow {
  const fromMs = hourBefore(from, nowMs);
  const end = fromMs + window.toMs - window.fromMs;
  // A window that begins at an age is up to an hour longer than this age.
  const toMs = end - window.fromMs === HOUR_MS ? window.fromMs : end;
  if (toMs <= window.fromMs || window.toMs <= fromMs) return { fromMs, toMs };
  const got = `${windowText({ fromMs, toMs })}, and ${windowText(window)}`;
  throw new PermanentError('InvalidTime', 'The windows overlap', { got, expected: 'windows without a common hour' });
}

/** Compares two variants if there are no others. */
function betweenVariants(cells: readonly CountedCell[], groups: readonly GroupRates[], query: RatesQuery) {
  const [a, b, ...more] = groups;
  if (query.by !== 'variant' || a === undefined || b === undefined || more.length > 0) return undefined;
  const of = ({ group }: GroupRates) => cells.filter(({ variant }) => variant === group);
  return { before: a.group, after: b.group, differences: differencesOf(of(a), of(b), query) };
}

function noCounts(window: TimeWindow, days: Awaited<ReturnType<typeof countedDays>>): PermanentError {
  const expected = days
    ? `a window within ${days.first} to ${days.last} (UTC)`
    : 'captures of any run; there are none yet';
  return new PermanentError('NoCounts', 'There are no captures in the window', { got: windowText(window), expected });
}

export const ratesPage = ({ window, by, groups, shadow, compared }: RatesReport): Page => [
  windowText(window),
  ...groups.map((group) => groupPart(group, by)),
  ...shadow.map((group) => groupPart(group, 'variant')),
  compared &&
    section(
      `${compared.after} against ${compared.before}`,
      ...compared.differences.map(differencePart),
      compared.differences.length === 0 && 'no scorer has verdicts in both',
    ),
];

export function groupPart({ group, shadow, totals, rates, outcomes }: GroupRates, by: string | undefined): Part {
  const mark = shadow ? ' (shadow: not in the rates of the endpoint)' : '';
  const { captures = 0, errorReplies = 0, inputTokens = 0, outputTokens = 0, judgeUsd = 0 } = totals;
  const empty = totals.replies?.words?.empty ?? 0;
  const calls = namedCounts(totals.failedCalls);
  const counted = [
    `${many(captures, 'capture')}${besideText(totals)}`,
    many(errorReplies, 'error reply', 'error replies'),
    empty > 0 && many(empty, 'empty reply', 'empty replies'),
    `${whole(inputTokens)} + ${whole(outputTokens)} tokens`,
    rates.length > 0 && judgeUsd > 0 && `judge ${dollars(judgeUsd)}`,
  ];
  return section(
    by === undefined ? '' : `${by} ${group}${mark}`,
    counted.filter(Boolean).join(', '),
    calls && `calls without a reply, in no rate: ${calls}`,
    table(
      rates.map((rate) => (rate.judge ? rateCells(rate) : dim(rateCells(rate)))),
      ['scorer', 'n', 'sampled', 'rate (95% interval)', 'corrected', 'trend'],
    ),
    ...rates.map(({ scorer, quantiles }) => quantiles && `${scorer}: ${quantilesText(quantiles)}`),
    by === undefined && block(outcomesTable(outcomes)),
  );
}

/** Whether the figure is a mean instead of a share. */
const isMean = ({ is, scorer }: Pick<Rate, 'is' | 'scorer'>): boolean => is === undefined && scorer !== ERROR_REPLIES;

/** Names the captures that labels speak for, if it is not all. */
const coveredText = (covered: number | null): string =>
  covered === null ? '' : `, of ${whole(covered)} captures picked from`;

/** Returns the name of a figure: the share of good captures, if the scorer has good values. */
function nameOf({ scorer, is, good }: Pick<Rate | RateDifference, 'scorer' | 'is' | 'good'>): string {
  if (scorer === ERROR_REPLIES) return 'without error';
  return good === null ? `${scorer} = ${is}` : `${scorer}: good`;
}

/** The columns of a rate. */
function rateCells(rate: Rate): string[] {
  const { scorer, n, captures, empty = 0, judge, good, share, low, high, method, labels, covered, trend } = rate;
  const name = isMean(rate) ? `${scorer} (mean)` : judge === null ? scorer : nameOf(rate);
  const sampled = captures > 0 ? percent(n / captures) : '–';
  // For a judge's verdicts, the good value is counted.
  const shown = method === 'computed' && good !== null ? good : judge;
  const seen = `${bracketed(shown, isMean(rate) ? number : percent)}${shown?.low === null ? ' (too few)' : ''}`;
  const ofEmpty = empty > 0 ? `; ${whole(empty)} empty` : '';
  const corrected =
    share === null
      ? `${method}${ofEmpty}${representedText(rate)}`
      : `${bracketed({ value: share, low, high }, percent)} ${method}, ${whole(labels)} labels${coveredText(covered)}${ofEmpty}${representedText(rate)}`;
  return [name, whole(n), sampled, seen, corrected, sparkline(good?.trend ?? trend)];
}

/** Returns a difference, colored if its interval excludes 0 and the scorer has good or bad values. */
export function differencePart(difference: RateDifference): Part {
  const { good, judge, share, method, covered } = difference;
  const { value, low, high } = good ?? { ...difference, value: share ?? judge.value };
  const text = `${nameOf(difference)} ${points(value)} points (${points(low)} to ${points(high)}), ${method}${coveredText(covered)}`;
  if (good === null) return text;
  return high < 0 ? red(text) : low > 0 ? green(text) : text;
}
