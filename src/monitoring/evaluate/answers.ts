/** The judge’s answers to a question: to the digest of its input about a capture, for any scorers. */

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

/** The stored data about a question. */
export interface Kept {
  answers: readonly Answer[];
  /** Scorers that the first model of a cascade has left to the judge. */
  leftOpen: readonly { scorer: string; version: string }[];
  /** Payments of each attempt, by its chunk (see `workKeys.chunkOfRun`) and its request id. */
  paid: readonly { chunk: string; by: string; spend: JudgeSpend }[];
  job?: AskedJob | undefined;
}

/** The chunk whose batch job was asked about this trace, in this run or in a run that it continues. */
export interface AskedJob {
  run: string;
  chunk: number;
  trace: string;
}

export const NOTHING_KEPT: Kept = { answers: [], leftOpen: [], paid: [] };

const { guardrail, filtered, tooLong, rejected } = VERDICT_ERRORS;
/** Errors that the same request always gets. Whether an answer can be read depends on chance. */
const RECURRING: ReadonlySet<string> = new Set([guardrail, filtered, tooLong, rejected]);

/**
 * Returns the known verdicts about a trace. The run that got an error does not ask again. The error applies to another
 * trace only if the same request always gets it.
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
 * Returns the data to store after the judge has answered. Its answers replace older answers to the same scorers.
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

/** Returns verdicts whose cost is recorded on another trace. */
export const paidElsewhere = (verdicts: readonly Verdict[]): Verdict[] =>
  verdicts.map((verdict) => ({ ...verdict, usage: { inputTokens: 0, outputTokens: 0, usd: 0 } }));

const isAbout = ({ name, version }: JudgeScorer, scorer: string, ofVersion: string): boolean =>
  name === scorer && version === ofVersion;
