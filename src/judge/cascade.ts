/**
 * A cascade of two judges. The cheap judge is asked first, and states for each answer whether it is sure. The main
 * judge is asked about scorers that the cheap judge fails, is unsure of, or leaves out.
 */
import { afterAnswers, answeredBefore } from './errors.ts';
import { memoByScorer } from './memo.ts';
import { isPass } from './scorers/values.ts';
import { spentTogether, sumUsage } from './spend.ts';
import type { Judge, JudgeResult, JudgeScorer, Verdict } from './types.ts';

/** Returns the scorer as the first judge is asked. */
export const askedFirst = memoByScorer((scorer) => ({ ...scorer, asksIfSure: true }));

/**
 * Merges the results of both judges. Verdicts of the main judge win, and include the first judge's cost for the same
 * scorer.
 *
 * @param scorers the scorers that the first judge was asked about
 */
function merged(
  scorers: readonly JudgeScorer[],
  early: JudgeResult,
  standing: Verdict[],
  late: JudgeResult,
): JudgeResult {
  const verdicts = scorers.flatMap(({ name }): Verdict[] => {
    const isIts = isOf(name);
    const own = late.verdicts.find(isIts);
    const before = early.verdicts.find(isIts);
    if (own === undefined) return standing.filter(isIts);
    return [before === undefined ? own : { ...own, usage: sumUsage(own.usage, before.usage) }];
  });
  const decided = verdicts.filter(({ outcome }) => outcome === 'verdict');
  const leftOpen = without(scorers, decided).map(({ name }) => name);
  return { verdicts, spend: spentTogether([early.spend, late.spend]), leftOpen };
}

/** Returns the first judge's passing verdicts, under its name. */
const standingOf = (first: Judge, scorers: readonly JudgeScorer[], { verdicts }: JudgeResult): Verdict[] =>
  scorers.flatMap((scorer) => {
    const verdict = verdicts.find(isOf(scorer.name));
    const stands = verdict?.outcome === 'verdict' && isPass(scorer, verdict.value);
    return stands ? [{ ...verdict, source: first.sourceId }] : [];
  });

const isOf =
  (name: string) =>
  ({ scorer }: Verdict): boolean =>
    scorer === name;

const without = (scorers: readonly JudgeScorer[], standing: readonly Verdict[]): JudgeScorer[] =>
  scorers.filter(({ name }) => !standing.some(isOf(name)));

/** @param first asked once about each capture, with the answer of a batch job if there is one */
export function cascade(first: Judge, main: Judge): Judge {
  return {
    sourceId: main.sourceId,
    maxCostUsd(capture, scorers) {
      const early = first.maxCostUsd(capture, scorers.map(askedFirst));
      const late = main.maxCostUsd(capture, scorers);
      return early === null || late === null ? null : early + late;
    },
    async judge(capture, scorers, signal, money) {
      // Read the answer of a batch job in any case, whatever was left open before.
      const left = money?.answer === undefined ? money?.leftOpen : undefined;
      const asked = scorers.filter(({ name }) => !left?.has(name)).map(askedFirst);
      const early = await first.judge(capture, asked, signal, money).catch((error: unknown) => {
        const before = answeredBefore(error);
        const answered = scorers.filter(({ name }) => left?.has(name) || before.verdicts.some(isOf(name)));
        const standing = standingOf(first, answered, before);
        throw afterAnswers(error as Error, merged(answered, before, standing, answeredBefore(undefined)));
      });
      const standing = standingOf(first, scorers, early);
      const open = without(scorers, standing);
      if (open.length === 0) return { ...early, verdicts: standing };
      const late = await main.judge(capture, open, signal, { limit: money?.limit }).catch((error: unknown) => {
        throw afterAnswers(error as Error, merged(scorers, early, standing, answeredBefore(error)));
      });
      return merged(scorers, early, standing, late);
    },
  };
}
