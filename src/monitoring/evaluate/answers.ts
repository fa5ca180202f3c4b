/** The judge’s answers of this process by question: by the digest of what the judge reads about a capture, whatever it is asked. */

import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { VERDICT_ERRORS } from '../../judge/errors.ts';
import type { JudgeResult, JudgeScorer, Verdict } from '../../judge/types.ts';

/** An answer to the question of one scorer. */
interface Answer {
  run: string;
  /** The trace that it was asked about. Its cost is written on the verdict on this trace alone. */
  trace: string;
  /** The version of the scorer. */
  version: string;
  verdict: Verdict;
}

/** What is kept about a question. */
export interface Kept {
  answers: readonly Answer[];
  /** Scorers that the first model of a cascade has left to the judge. */
  leftOpen: readonly { scorer: string; version: string }[];
  /** What each attempt has paid, by its chunk (see `workKeys.chunkOfRun`) and its request id. */
  paid: readonly { chunk: string; by: string; spend: JudgeSpend }[];
  job?: AskedJob | undefined;
}

/** The chunk whose batch job was asked, about this trace: of this run, or of one that it continues. */
export interface AskedJob {
  run: string;
  chunk: number;
  trace: string;
}

export const NOTHING_KEPT: Kept = { answers: [], leftOpen: [], paid: [] };

export class Answers {
  readonly #kept = new Map<string, Kept>();

  /**
   * Claims a question, unless what is kept about it is enough. Waits while another chunk asks the same.
   *
   * @returns what is kept
   * @throws RetryableError `ChunkOutOfTime` if the wait is aborted
   */
  async acquire(question: string, _isEnough: (kept: Kept) => boolean, _signal: AbortSignal): Promise<Kept> {
    return this.#kept.get(question) ?? NOTHING_KEPT;
  }

  /** Keeps answers in place of what `acquire` returned, and ends the claim. @param _spend what this attempt has paid for them */
  async keep(question: string, kept: Kept, _spend: JudgeSpend): Promise<void> {
    this.#kept.set(question, kept);
  }

  /** Lets other chunks ask at once, since this one does not ask or got no answer. */
  async release(_question: string): Promise<void> {}

  /**
   * Leaves a question to the batch job of the chunk.
   *
   * @param _isAnswered whether a job of an earlier run has answered
   * @returns what is kept; `claimed` if another chunk of the run has done so, or an earlier run and its job has answered
   */
  async acquireForJob(
    question: string,
    _trace: string,
    _isAnswered: (job: AskedJob) => Promise<boolean>,
  ): Promise<Kept | 'claimed'> {
    return this.#kept.get(question) ?? NOTHING_KEPT;
  }

  /** Returns what other attempts at the chunk have paid for these questions, by their request ids. */
  async paidByOthers(_questions: ReadonlySet<string>): Promise<Record<string, JudgeSpend>> {
    return {};
  }
}

const { guardrail, filtered, tooLong, rejected } = VERDICT_ERRORS;
/** In these the same request ends each time. Whether an answer can be read is chance. */
const RECURRING: ReadonlySet<string> = new Set([guardrail, filtered, tooLong, rejected]);

/**
 * Returns the verdicts that are known of a trace. An error is not asked about again by the run that got it; about another trace it
 * says something only if the same request always ends in it.
 */
export function knownVerdicts(
  { answers }: Kept,
  { run, traceId }: { run: string; traceId: string },
  scorers: readonly JudgeScorer[],
): Verdict[] {
  const holds = ({ verdict, ...asked }: Answer): boolean =>
    verdict.outcome === 'verdict' ||
    (asked.run === run && (asked.trace === traceId || RECURRING.has(verdict.error.code)));
  return scorers.flatMap((scorer) => {
    const known = answers.find((answer) => isAbout(scorer, answer.verdict.scorer, answer.version) && holds(answer));
    if (known === undefined) return [];
    return known.trace === traceId ? known.verdict : paidElsewhere([known.verdict]);
  });
}

/** Returns the names of the scorers about which only the judge is to be asked, not the first model of its cascade. */
export const leftToJudge = ({ leftOpen }: Kept, scorers: readonly JudgeScorer[]): ReadonlySet<string> =>
  new Set(
    scorers
      .filter((scorer) => leftOpen.some((left) => isAbout(scorer, left.scorer, left.version)))
      .map(({ name }) => name),
  );

/**
 * Returns what is kept after the judge has answered. Its answers replace older ones to the same scorers.
 *
 * @param open the scorers that it was asked for
 * @param asked the run, and the trace that it was asked about
 */
export function withResult(
  kept: Kept,
  { verdicts, leftOpen = [] }: JudgeResult,
  open: readonly JudgeScorer[],
  asked: Pick<Answer, 'run' | 'trace'>,
): Kept {
  const versionOf = (name: string): string => open.find((scorer) => scorer.name === name)?.version ?? '';
  const answers = verdicts.map((verdict) => ({ ...asked, version: versionOf(verdict.scorer), verdict }));
  const isReplaced = ({ version, verdict: { scorer } }: Answer): boolean =>
    answers.some((answer) => answer.version === version && answer.verdict.scorer === scorer);
  const left = leftOpen.map((scorer) => ({ scorer, version: versionOf(scorer) }));
  return {
    ...kept,
    answers: [...kept.answers.filter((answer) => !isReplaced(answer)), ...answers],
    leftOpen: [...kept.leftOpen, ...left],
  };
}

/** Returns verdicts whose cost is written on another trace. */
export const paidElsewhere = (verdicts: readonly Verdict[]): Verdict[] =>
  verdicts.map((verdict) => ({ ...verdict, usage: { inputTokens: 0, outputTokens: 0, usd: 0 } }));

const isAbout = ({ name, version }: JudgeScorer, scorer: string, ofVersion: string): boolean =>
  name === scorer && version === ofVersion;
