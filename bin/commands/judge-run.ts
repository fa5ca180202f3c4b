/** The options of `judge`; chooses scorers, judge and captures, announces the cost, and asks for confirmation. */

import { InvalidArgumentError } from 'commander';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { PermanentError, toNamedError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { dollars, many } from '../../src/core/text/figure-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { cascadeOf } from '../../src/judge/connect.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { judgeModels, judgeName } from '../../src/judge/judge-id.ts';
import { expectedCalls, usdRange } from '../../src/judge/pricing/estimate.ts';
import { isModelScorer } from '../../src/judge/scorers/scorer-set.ts';
import { canFail } from '../../src/judge/scorers/values.ts';
import { addUsd } from '../../src/judge/spend.ts';
import { standInTransport } from '../../src/judge/stand-in/transport.ts';
import type { Judge, Scorer } from '../../src/judge/types.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';
import { confirmed } from '../cli/confirm.ts';
import { requireJudge } from '../cli/judge-access.ts';
import { argument, type FlagsOf, JUDGE_BUDGET, numbers, option, options, parsed } from '../cli/options.ts';
import { jsonOption, notice, progress } from '../cli/output.ts';
import { type CommandSettings, commandSettings } from '../cli/settings.ts';
import { openCaptures } from '../offline/capture-files.ts';
import {
  judgeCaptures,
  type Seen,
  type SelectedCapture,
  selectCaptures,
  unsampled,
} from '../offline/judge-captures.ts';
import { openScorerFile, type ScorerFile } from '../offline/scorer-file.ts';

/** At about two cents each, within the budget. */
const DEFAULT_LIMIT = 50;
const DEFAULT_BUDGET_USD = 1;

export const JUDGE_OPTIONS = options(
  argument('<captures>', 'a capture file, file:line, or a folder'),
  option('--scorer <names...>', 'only these scorers'),
  option('--scorer-file <file>', 'scorers in Python: docs/scorers.md'),
  option('--python <program>', 'the Python for them (default: python3)'),
  option('--guideline <name=sentence>', 'a sentence that the reply must comply with (may be repeated)', addGuideline),
  option('--judge-model <id>', 'the judge to ask (default: BEDROCK_MODEL_ID); stand-in: simple rules; none'),
  option('--limit <count>', 'judge at most this many captures', parsed(numbers.count, DEFAULT_LIMIT)),
  option('--budget <dollars>', JUDGE_BUDGET, parsed(numbers.amount, DEFAULT_BUDGET_USD)),
  option('--at-least <scorer:share>', 'fail if a smaller share passes (may be repeated)', addObjective),
  option('--all', 'list verdicts that pass, too'),
  option('--yes', 'do not ask before more than a dollar is spent'),
  jsonOption(),
);
export type JudgeFlags = Omit<FlagsOf<typeof JUDGE_OPTIONS>, 'captures' | 'all' | 'json'> & {
  line?: number | undefined;
};

function addGuideline(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  const [name, sentence] = [text.slice(0, at).trim(), text.slice(at + 1).trim()];
  if (at > 0 && name !== '' && sentence !== '') return { ...before, [name]: sentence };
  throw new InvalidArgumentError('expected name="A sentence about the reply."');
}

type Objective = { scorer: string; atLeast: number };

function addObjective(text: string, before: Objective[] = []): Objective[] {
  const at = text.lastIndexOf(':');
  const [scorer, share] = [text.slice(0, at), text.slice(at + 1)];
  const atLeast = Number(share);
  if (at > 0 && share.trim() !== '' && atLeast >= 0 && atLeast <= 1) return [...before, { scorer, atLeast }];
  throw new InvalidArgumentError('expected a scorer and a share from 0 to 1, such as safety:0.95');
}

// ------------------------------------------------------------------------------------------------------- the judging

/** Spending more than this needs a person's consent, in US dollars. */
const CONFIRM_USD = 1;

/** Whether the judge is a model, instead of the stand-in with its simple rules, or no judge. */
const isReal = ({ judgeModel = '' }: JudgeFlags): boolean => !['stand-in', 'none'].includes(judgeModel);

/**
 * Judges the captures at a path.
 *
 * @returns `undefined` if the user does not agree to the cost
 * @throws PermanentError `UnknownName`, `NoScorer`, `JudgePriceUnknown`, `NotConfirmed`, the errors of the files, and
 *   the judge's failure before the first verdict
 */
export async function judgeFiles(path: string, flags: JudgeFlags, signal: AbortSignal, variables?: NodeJS.ProcessEnv) {
  const model = isReal(flags) ? flags.judgeModel : undefined;
  const own = commandSettings({ BEDROCK_MODEL_ID: model }, variables);
  // Functions are asked by the stack alone.
  const settings = { ...own, SCORER_FUNCTIONS: {}, JUDGE_GUIDELINES: { ...own.JUDGE_GUIDELINES, ...flags.guideline } };
  const file =
    flags.scorerFile === undefined ? undefined : await openScorerFile(flags.scorerFile, flags.python, signal);
  try {
    const asked = { settings, flags, file, scorers: chosenScorers(flags, settings, file?.scorers) };
    const opened = await openCaptures(path);
    return await judgeOpened(opened.files, asked, signal).finally(opened.dispose);
  } finally {
    file?.close();
  }
}

interface Asked {
  settings: CommandSettings;
  flags: JudgeFlags;
  file: ScorerFile | undefined;
  scorers: readonly Scorer[];
}

async function judgeOpened(files: readonly SourceFile[], asked: Asked, signal: AbortSignal) {
  const { flags, settings, file, scorers } = asked;
  const asksModel = scorers.some(isModelScorer);
  const isPaid = isReal(flags) && asksModel;
  const judge = isPaid ? cascadeOf(settings) : createJudgeOver(standInTransport(), { price: () => 0 });
  const { seen, captures: all } = selectCaptures(files, settings, scorers, flags);
  // What they cost is told before the first is asked about. Captures that cost nothing may be too many to keep.
  const captures = isPaid ? await Array.fromAsync(all) : all;
  if (Array.isArray(captures) && !(await agreed(captures, asked, judge))) return undefined;
  const limit = !isPaid || flags.budget === 0 ? undefined : new OwnLimit(flags.budget);
  const onCapture = (done: number): void =>
    progress.show({ facts: [`judged ${done} of ${seen.selected}`], share: done / seen.selected });
  const options = { judge, functions: file?.functions, limit, scorers, signal, onCapture };
  const { report, failure } = await judgeCaptures(captures, options);
  if (failure !== undefined && report.verdicts.length === 0 && !signal.aborted) throw failure;
  for (const remark of remarks(seen, flags.limit)) notice(remark);
  const thresholds = (flags.atLeast ?? []).map(({ scorer, atLeast }) => {
    const share = report.scorers.find(({ name }) => name === scorer)?.passes;
    return { scorer, atLeast, holds: share !== null && share !== undefined && share.value >= atLeast };
  });
  const named = failure === undefined || signal.aborted ? undefined : (awsFailure(failure) ?? toNamedError(failure));
  return {
    /** The id of the judge; absent if no scorer asks it. */
    judge: asksModel ? judge.sourceId : undefined,
    ...report,
    /** Files that cannot be read, or not to their end. */
    unreadable: seen.unreadable,
    thresholds,
    /** The error that ended the judging early. */
    failure: named,
  };
}

export type JudgeReport = NonNullable<Awaited<ReturnType<typeof judgeFiles>>>;

/** Returns the named scorers; else those of the file and the given guidelines; else all scorers. */
function chosenScorers(
  { scorer, guideline, judgeModel, atLeast = [] }: JudgeFlags,
  settings: CommandSettings,
  ofFile: readonly Scorer[] = [],
): Scorer[] {
  const own = ofFile.map(({ name }) => name);
  const all = [...unsampled(activeScorers(settings)).filter(({ name }) => !own.includes(name)), ...ofFile];
  checkNames('scorer', scorer, all);
  const given = [...Object.keys(guideline ?? {}), ...(scorer === undefined ? own : [])];
  const names =
    scorer === undefined && given.length === 0 ? all.map(({ name }) => name) : [...(scorer ?? []), ...given];
  const chosen = all.filter((one) => names.includes(one.name) && (judgeModel !== 'none' || !isModelScorer(one)));
  if (chosen.length === 0) {
    const facts = { got: names.join(', '), expected: 'a code scorer, or a judge: --judge-model' };
    throw new PermanentError('NoScorer', 'Without a judge there is no scorer to run', facts);
  }
  const limited = atLeast.map((one) => one.scorer);
  checkNames('chosen scorer that can fail', limited, chosen.filter(canFail));
  return chosen;
}

const remarks = ({ quarantined, selected, isEnd }: Seen, limit: number): string[] => [
  ...(isEnd ? [] : [`Only the first ${selected} captures were judged: --limit ${limit}.`]),
  ...(quarantined === 0 ? [] : [`Lines that are no captures: ${quarantined}. inference-monitor inspect says why.`]),
  ...(selected > 0 || quarantined === 0 ? [] : [`Expected: ${CAPTURE_FILES}.`]),
];

/** Announces the cost of the real judge, and asks for confirmation of a high cost. @returns whether the user agrees */
async function agreed(captures: readonly SelectedCapture[], { settings, flags: { budget, yes } }: Asked, judge: Judge) {
  await requireJudge(settings, budget);
  const asked = captures
    .map(({ pending, read }) => ({ models: pending.judge.filter(isModelScorer), read }))
    .filter(({ models }) => models.length > 0);
  const likely = asked.map(({ models, read }) => expectedCalls(settings, read(), models).usd).reduce(addUsd, 0);
  const most = asked.map(({ models, read }) => judge.maxCostUsd(read(), models)).reduce(addUsd, 0);
  const cap = budget === 0 ? most : Math.min(budget, most ?? budget);
  const limit = budget === 0 ? 'without a limit (--budget 0)' : `and never more than ${dollars(budget)} (--budget)`;
  const range = usdRange(settings, likely)?.map(dollars).join(' to ');
  const cost = most === 0 ? 'it costs nothing' : `about ${dollars(likely)}${range ? ` (${range})` : ''}, ${limit}`;
  notice(
    `Asking ${judgeModels(settings).map(judgeName).join(' behind ')} about ${many(captures.length, 'capture')}: ${cost}.`,
  );
  const ask = `This may cost ${cap === null ? 'an unknown amount' : `up to ${dollars(cap)}`}. Go on?`;
  return (cap !== null && cap <= CONFIRM_USD) || confirmed(ask, yes);
}
