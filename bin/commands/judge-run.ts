/** Chooses scorers, judge and captures for `judge`, says what it will cost, and asks. */

import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { PermanentError, toNamedError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/values/nearest.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { cascadeOf } from '../../src/judge/connect.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { judgeModels, judgeName } from '../../src/judge/judge-id.ts';
import { expectedCalls } from '../../src/judge/pricing/estimate.ts';
import { priceOptions, requireKnownPrice } from '../../src/judge/pricing/prices.ts';
import { isCodeScorer } from '../../src/judge/scorers/scorer-set.ts';
import { canFail } from '../../src/judge/scorers/values.ts';
import { standInTransport } from '../../src/judge/stand-in/transport.ts';
import type { Judge, Scorer } from '../../src/judge/types.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';
import { confirmed } from '../cli/confirm.ts';
import { dollars, notice, some } from '../cli/output.ts';
import { bar, startProgress } from '../cli/progress.ts';
import { type OfflineLine, offlineLines, openCaptures } from '../offline/capture-files.ts';
import { judgeCaptures, type SelectedCapture, selectCaptures, unsampled } from '../offline/judge-captures.ts';
import type { JudgeFlags } from './judge.ts';
import { type CommandSettings, commandSettings } from './settings.ts';

const QUIET_MS = 1_000;

/** Spending more than this needs a person's consent, in US dollars. */
const CONFIRM_USD = 1;

/**
 * Judges the captures at a path.
 *
 * @returns `undefined` if the person does not agree to the cost
 * @throws PermanentError `UnknownName`, `NoScorer`, `JudgePriceUnknown`, `NotConfirmed`, those of the files, and the judge's failure
 *   before the first verdict
 */
export async function judgeFiles(path: string, flags: JudgeFlags, signal: AbortSignal, variables?: NodeJS.ProcessEnv) {
  const settings = settingsOf(flags, variables);
  const scorers = chosenScorers(flags, settings);
  const opened = await openCaptures(path);
  try {
    return await judgeOpened(new JudgedFiles(opened.files, flags, settings, scorers), flags, signal);
  } finally {
    await opened.dispose();
  }
}

async function judgeOpened(files: JudgedFiles, flags: JudgeFlags, signal: AbortSignal) {
  const { settings, scorers } = files;
  const judge = flags.judge === 'real' ? cascadeOf(settings) : standIn(settings);
  const isAsked = flags.judge === 'real' && scorers.some(({ kind }) => kind === 'judge');
  if (isAsked && !(await agreed(files, judge, flags))) return undefined;
  const limit = flags.judge !== 'real' || flags.budget === 0 ? undefined : new OwnLimit(flags.budget);
  const progress = startProgress(process.stderr);
  const startedAt = Date.now();
  const onCapture = (done: number): void => {
    // What ends at once needs no progress.
    if (Date.now() - startedAt < QUIET_MS) return;
    const of = Math.max(done, files.found);
    progress.show(`judged ${process.stderr.isTTY ? bar(done, of) : `${done} of ${of}`}`);
  };
  const { report, failure } = await judgeCaptures(files.captures(), { judge, limit, scorers, signal, onCapture });
  progress.end();
  if (failure !== undefined && report.verdicts.length === 0 && !signal.aborted) throw failure;
  for (const remark of files.remarks()) notice(remark);
  const thresholds = (flags.atLeast ?? []).map(({ scorer, atLeast }) => {
    const share = report.scorers.find(({ name }) => name === scorer)?.passes;
    return { scorer, atLeast, holds: share !== null && share !== undefined && share.value >= atLeast };
  });
  const named = failure === undefined || signal.aborted ? undefined : (awsFailure(failure) ?? toNamedError(failure));
  return {
    /** The id of the judge; absent if only code scorers ran. */
    judge: flags.judge === 'none' ? undefined : judge.sourceId,
    ...report,
    /** Files that cannot be read, or not to their end. */
    unreadable: files.unreadable,
    thresholds,
    /** What ended the judging early. */
    failure: named,
  };
}

export type JudgeReport = NonNullable<Awaited<ReturnType<typeof judgeFiles>>>;

function settingsOf({ judgeModel, guideline }: JudgeFlags, variables?: NodeJS.ProcessEnv): CommandSettings {
  const settings = commandSettings({ BEDROCK_MODEL_ID: judgeModel }, variables);
  return { ...settings, JUDGE_GUIDELINES: { ...settings.JUDGE_GUIDELINES, ...guideline } };
}

/** Those that are named; else the guidelines that are given; else all. */
function chosenScorers({ scorer, guideline, judge, atLeast = [] }: JudgeFlags, settings: CommandSettings): Scorer[] {
  const all = unsampled(activeScorers(settings));
  const known = all.map(({ name }) => name);
  checkNames('scorer', scorer, known);
  const given = Object.keys(guideline ?? {});
  const names = scorer === undefined ? (guideline === undefined ? known : given) : [...scorer, ...given];
  const chosen = all.filter((one) => names.includes(one.name) && (judge !== 'none' || isCodeScorer(one)));
  if (chosen.length === 0) {
    const facts = { got: names.join(', '), expected: 'a code scorer, or --judge real or stand-in' };
    throw new PermanentError('NoScorer', 'Without a judge there is no scorer to run', facts);
  }
  const passing = chosen.filter(canFail).map(({ name }) => name);
  const limited = atLeast.map((one) => one.scorer);
  checkNames('chosen scorer that can fail', limited, passing);
  return chosen;
}

const standIn = ({ JUDGE_CALLS: calls }: CommandSettings): Judge =>
  createJudgeOver(standInTransport(), { calls, price: () => 0 });

/** The captures to judge, read as often as they are needed. */
class JudgedFiles {
  /** Captures that a scorer applies to, as far as they were counted. */
  found = 0;
  /** Files of a folder that cannot be read, or not to their end. */
  unreadable: { file: string; message: string }[] = [];
  readonly settings: CommandSettings;
  readonly scorers: readonly Scorer[];
  readonly #files: readonly SourceFile[];
  readonly #flags: JudgeFlags;
  #counts = { quarantined: 0, selected: 0, isEnd: false };

  constructor(files: readonly SourceFile[], flags: JudgeFlags, settings: CommandSettings, scorers: readonly Scorer[]) {
    this.#files = files;
    this.#flags = flags;
    this.settings = settings;
    this.scorers = scorers;
  }

  async *captures(): AsyncGenerator<SelectedCapture> {
    this.#counts = { quarantined: 0, selected: 0, isEnd: false };
    for await (const selected of selectCaptures(this.#lines(), this.scorers, this.#flags.limit)) {
      this.#counts.selected += 1;
      this.found = Math.max(this.found, this.#counts.selected);
      yield selected;
    }
  }

  async *#lines(): AsyncGenerator<OfflineLine> {
    this.unreadable = [];
    const addUnreadable = (file: string, message: string) => void this.unreadable.push({ file, message });
    const lines = offlineLines(this.#files, this.settings, { addUnreadable }, this.#flags.line);
    for await (const line of lines) {
      if (line.kind === 'quarantine') this.#counts.quarantined += 1;
      yield line;
    }
    this.#counts.isEnd = true;
  }

  remarks(): string[] {
    const { quarantined, selected, isEnd } = this.#counts;
    return [
      ...(isEnd ? [] : [`Only the first ${selected} captures were judged: --limit ${this.#flags.limit}.`]),
      ...(quarantined === 0 ? [] : [`Lines that are no captures: ${quarantined}. inference-monitor inspect says why.`]),
      ...(selected > 0 || quarantined === 0 ? [] : [`Expected: ${CAPTURE_FILES}.`]),
    ];
  }
}

/** Says what the real judge will cost, and asks if that is much. */
async function agreed(files: JudgedFiles, judge: Judge, { budget, yes }: JudgeFlags): Promise<boolean> {
  const { settings } = files;
  const models = judgeModels(settings);
  for (const model of models) requireKnownPrice(model, budget, priceOptions(settings), '--budget 0');
  let likely: number | null = 0;
  let most: number | null = 0;
  for await (const { pending, read } of files.captures()) {
    if (pending.judge.length === 0) continue;
    const { usd } = expectedCalls(settings, read(), pending.judge);
    const worst = judge.maxCostUsd(read(), pending.judge);
    likely = likely === null || usd === null ? null : likely + usd;
    most = most === null || worst === null ? null : most + worst;
  }
  const cap = budget === 0 ? most : Math.min(budget, most ?? budget);
  const limit = budget === 0 ? 'without a limit (--budget 0)' : `and never more than ${dollars(budget)} (--budget)`;
  const cost = most === 0 ? 'it costs nothing' : `about ${dollars(likely)}, ${limit}`;
  notice(`Asking ${models.map(judgeName).join(' behind ')} about ${some(files.found, 'capture')}: ${cost}.`);
  if (cap !== null && cap <= CONFIRM_USD) return true;
  return confirmed(`This may cost ${cap === null ? 'an unknown amount' : `up to ${dollars(cap)}`}. Go on?`, yes);
}
