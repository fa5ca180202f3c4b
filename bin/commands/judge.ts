/** `inference-monitor judge`: verdicts on the captures of files, on this machine, to write guidelines and scorers. */

import { bracketed, dollars, many, percent } from '../../src/core/text/figure-text.ts';
import { block, bold, dim, green, type Page, type Part, red, table } from '../../src/core/text/page.ts';
import { bothEnds, excerpt, namedCounts } from '../../src/core/text/terminal-text.ts';
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import { command, type FlagsOf } from '../cli/options.ts';
import { EXIT, notice, print } from '../cli/output.ts';
import { parseLocation, placeText } from '../offline/capture-files.ts';
import { JUDGE_OPTIONS, type JudgeReport, judgeFiles } from './judge-run.ts';

export type Output = JudgeReport;

export default command('judge', JUDGE_OPTIONS, judge);

async function judge(flags: FlagsOf<typeof JUDGE_OPTIONS>): Promise<void> {
  const { path, line } = parseLocation(flags.captures);
  const judged = async ({ signal }: Interruption): Promise<void> => {
    const report = await judgeFiles(path, { line, ...flags }, signal);
    process.exitCode = signal.aborted ? EXIT.interrupted : exitCodeOf(report);
    if (report === undefined) notice('Nothing was asked.');
    else print<JudgeReport>(report, flags.json, judgePage(report, flags.all));
  };
  await unlessInterrupted(judged, () => ['Nothing was asked.']);
}

export function exitCodeOf(report: JudgeReport | undefined): number {
  const { verdicts = [], missing = {}, failure, thresholds = [], unreadable = [] } = report ?? {};
  const isWhole = failure === undefined && Object.keys(missing).length === 0 && verdicts.length > 0;
  if (!isWhole) return EXIT.notDone;
  return thresholds.every(({ holds }) => holds) && unreadable.length === 0 ? EXIT.done : EXIT.found;
}

type Verdict = JudgeReport['verdicts'][number];
type Sum = JudgeReport['scorers'][number];

/** Outcomes in the order in which they are listed. */
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

/**
 * @param all whether to list passing verdicts too, as by default for a single scorer; else only failures and missing
 *   verdicts are listed
 */
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

const passText = (passes: NonNullable<Sum['passes']>): string =>
  `${passes.hits} of ${passes.of} pass, ${bracketed(passes, percent)}`;

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
