/** What labels may say to the question of a scorer. */
import type { LabelScorer } from '../../core/contract/ground-truth.ts';
import type { Scorer } from '../types.ts';

/** A code scorer that can fail says yes or no, others say anything. */
export const labelScorers = (scorers: readonly Scorer[]): LabelScorer[] =>
  scorers.map((scorer) => {
    const { name } = scorer;
    if (scorer.kind === 'judge') return { name, values: scorer.values };
    return scorer.fails === undefined ? { name } : { name, values: { kind: 'boolean' } };
  });
