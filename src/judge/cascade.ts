/**
 * A cascade of two judges: a cheap one is asked first, and says of each answer whether it is sure. The other is asked for
 * what the first one fails, is not sure of, or leaves out.
 */
import { afterAnswers, answeredBefore } from './errors.ts';
import { isPass } from './scorers/values.ts';
import type { CacheUse, Judge, JudgeResult, JudgeScorer, Verdict, VerdictUsage } from './types.ts';

/** By scorer, so that prompts and schemas are cached by its identity. */
const marked = new WeakMap<JudgeScorer, JudgeScorer>();

/** Returns the scorer as the first judge is asked. */
export function askedFirst(scorer: JudgeScorer): JudgeScorer {
  const known = marked.get(scorer) ?? { ...scorer, asksIfSure: true };
  marked.set(scorer, known);
  return known;
}

const sum = (a: VerdictUsage, b: VerdictUsage): VerdictUsage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  usd: a.usd === null || b.usd === null ? null : a.usd + b.usd,
});

function spentTogether(one: JudgeResult['spend'], other: JudgeResult['spend']): JudgeResult['spend'] {
  const cache: CacheUse = {};
  for (const name of ['cacheCalls', 'cacheReadTokens', 'cacheWriteTokens'] as const) {
    const tokens = (one[name] ?? 0) + (other[name] ?? 0);
    if (one[name] !== undefined || other[name] !== undefined) cache[name] = tokens;
  }
  return { calls: one.calls + other.calls, ...sum(one, other), ...cache };
}

/** @param first asked once about each capture, with the answer of a batch job if there is one */
export function cascade(first: Judge, main: Judge): Judge {
  /** Those of the first judge's verdicts that stand, and its share in the cost of the others. */
  const standing = (scorers: readonly JudgeScorer[], { verdicts }: JudgeResult) => {
    const stands = (verdict: Verdict): boolean => {
      const scorer = scorers.find(({ name }) => name === verdict.scorer);
      return verdict.outcome === 'verdict' && scorer !== undefined && isPass(scorer, verdict.value);
    };
    return verdicts.filter(stands).map((verdict) => ({ ...verdict, source: first.sourceId }));
  };
  const together = (scorers: readonly JudgeScorer[], early: JudgeResult, late?: JudgeResult): JudgeResult => {
    const stood = standing(scorers, early);
    const verdicts = scorers.flatMap(({ name }): Verdict[] => {
      const isIts = ({ scorer }: Verdict): boolean => scorer === name;
      const own = late?.verdicts.find(isIts);
      const before = early.verdicts.find(isIts);
      if (own !== undefined) return [before === undefined ? own : { ...own, usage: sum(own.usage, before.usage) }];
      return stood.filter(isIts);
    });
    if (late === undefined) return { verdicts, spend: early.spend };
    return { verdicts, spend: spentTogether(early.spend, late.spend) };
  };
  return {
    sourceId: main.sourceId,
    maxCostUsd(capture, scorers) {
      const costs = [first.maxCostUsd(capture, scorers.map(askedFirst)), main.maxCostUsd(capture, scorers)] as const;
      return costs[0] === null || costs[1] === null ? null : costs[0] + costs[1];
    },
    async judge(capture, scorers, signal, money) {
      const early = await first.judge(capture, scorers.map(askedFirst), signal, money).catch((error: unknown) => {
        throw afterAnswers(error as Error, together(scorers, answeredBefore(error)));
      });
      const stood = new Set(standing(scorers, early).map(({ scorer }) => scorer));
      const open = scorers.filter(({ name }) => !stood.has(name));
      if (open.length === 0) return together(scorers, early);
      const limit = { limit: money?.limit };
      const late = await main.judge(capture, open, signal, limit).catch((error: unknown) => {
        throw afterAnswers(error as Error, together(scorers, early, answeredBefore(error)));
      });
      return together(scorers, early, late);
    },
  };
}
