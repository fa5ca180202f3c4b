/** What labels may say to the question of a scorer. */
import type { LabelScorer } from '../../core/contract/ground-truth.ts';
import type { Scorer } from '../types.ts';
import { askedOf } from './scorer-set.ts';

/** A code scorer that can fail says yes or no, others say anything. What was measured, nobody labels. */
export const labelScorers = (scorers: readonly Scorer[]): LabelScorer[] =>
  askedOf(scorers).map((scorer) => {
    const { name } = scorer;
    if (scorer.kind === 'judge') return { name, values: scorer.values };
    return scorer.fails === undefined ? { name } : { name, values: { kind: 'boolean' } };
  });
