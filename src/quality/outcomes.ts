/** The outcomes of captures for a scorer. They add up to all captures. */

import type { QualityCell } from '../core/contract/quality.ts';
import { countOf } from '../core/statistics/log-bins.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import { addTree } from './count-tree.ts';

/** Captures by outcome. */
export interface Outcomes {
  /** Verdicts of a scorer for which no value is good or bad, such as a language, are under `other`. */
  good: number;
  bad: number;
  other: number;
  /** Empty replies, which the scorer is not asked about. */
  empty: number;
  error: number;
  notDrawn: number;
  /** Captures held by the budget. */
  held: number;
  failed: number;
  /**
   * The rest, such as captures of other forms, or captures older than the scorer. `reasons` are the reasons that a run
   * counted.
   */
  doesNotApply: number;
}

export interface ScorerOutcomes extends Outcomes {
  scorer: string;
  captures: number;
  reasons: Record<string, number>;
}

/** The outcomes with names of their own, by the reason that runs count. */
const REASONS = {
  emptyReply: 'empty',
  errorReply: 'error',
  notSampled: 'notDrawn',
  held: 'held',
  failed: 'failed',
} as const;

/** Returns the outcomes of each scorer of a sum of counts, in the order of `active`. */
export function outcomesIn(all: QualityCell, active: readonly Scorer[]): ScorerOutcomes[] {
  const { captures = 0, notJudged = {}, scorers = {} } = all;
  return active.flatMap((scorer): ScorerOutcomes[] => {
    const { [scorer.name]: without = {} } = notJudged;
    const samples = Object.values(scorers[scorer.name] ?? {});
    if (samples.length === 0 && Object.keys(without).length === 0) return [];
    const found = { good: 0, bad: 0, other: 0, empty: 0, error: 0, notDrawn: 0, held: 0, failed: 0 };
    const good = goodValue(scorer);
    for (const { values = {}, numbers } of samples) {
      for (const [value, count] of Object.entries(values)) {
        found[good === undefined ? 'other' : value === String(good) ? 'good' : 'bad'] += count;
      }
      found.other += countOf(numbers?.bins ?? {});
    }
    const reasons: Record<string, number> = {};
    for (const [reason, count] of Object.entries(without)) {
      if (Object.hasOwn(REASONS, reason)) found[REASONS[reason as keyof typeof REASONS]] += count;
      else addTree(reasons, { [reason]: count });
    }
    return [{ scorer: scorer.name, captures, ...found, doesNotApply: captures - sum(Object.values(found)), reasons }];
  });
}

/** Returns how many verdicts are missing of all scorers, by reason. */
export function missingBy(notJudged: QualityCell['notJudged'] = {}): Record<string, number> {
  const total: Record<string, number> = {};
  for (const reasons of Object.values(notJudged)) addTree(total, reasons);
  return total;
}
