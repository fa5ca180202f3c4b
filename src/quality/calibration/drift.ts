/** Compares verdicts on the same items at two times to detect that the judge has changed. */
import * as z from 'zod';
import { PermanentError } from '../../core/errors/errors.ts';
import { wilson } from '../../core/statistics/share.ts';
import { mcnemar } from '../../core/statistics/share-difference.ts';

/** The judge has drifted if the probability that nothing changed is below this. */
const SIGNIFICANT = 0.05;
/**
 * It has also drifted if more than this share of verdicts changed, even if improvements and errors balance. At
 * temperature 0 few verdicts change.
 */
const MAX_CHANGED_SHARE = 0.1;

const valueSchema = z.union([z.string(), z.number(), z.boolean()]);
const baselineSchema = z.object({
  generatedAt: z.string(),
  judges: z.record(z.string(), z.number()),
  pairs: z.array(z.object({ id: z.string(), scorer: z.string(), label: valueSchema, verdict: valueSchema })),
});
type Baseline = z.infer<typeof baselineSchema>;

/** @throws PermanentError `InvalidBaseline` */
export function parseBaseline(text: string, file: string): Baseline {
  try {
    return baselineSchema.parse(JSON.parse(text));
  } catch (error) {
    const expected = 'what calibrate --json printed';
    const facts = { got: (error as Error).message, expected, where: file };
    throw new PermanentError('InvalidBaseline', 'The baseline is invalid', facts, error);
  }
}

/** A comparison of two runs on the same items. */
export type Drift = ReturnType<typeof compareWithBaseline>;

export function compareWithBaseline({ pairs }: Pick<Baseline, 'pairs'>, baseline: Baseline) {
  const earlier = new Map(baseline.pairs.map((pair) => [`${pair.scorer} ${pair.id}`, pair]));
  const both = pairs.flatMap((pair) => {
    const before = earlier.get(`${pair.scorer} ${pair.id}`)?.verdict;
    return before === undefined ? [] : [{ ...pair, before }];
  });
  const wasRight = both.filter(({ before, label }) => before === label);
  const isRight = both.filter(({ verdict, label }) => verdict === label);
  const changed = both.filter(({ before, verdict }) => before !== verdict);
  const pValue = mcnemar(
    wasRight.filter(({ verdict, label }) => verdict !== label).length,
    isRight.filter(({ before, label }) => before !== label).length,
  );
  const drifted = pValue < SIGNIFICANT || changed.length > MAX_CHANGED_SHARE * both.length;
  const verdict: 'none' | 'changed' | 'drifted' = drifted ? 'drifted' : changed.length > 0 ? 'changed' : 'none';
  return {
    baseline: { generatedAt: baseline.generatedAt, judges: baseline.judges },
    /** Number of items in both runs. */
    items: both.length,
    changed: changed.map(({ id, scorer, label, before, verdict }) => ({ id, scorer, label, before, now: verdict })),
    agreementBefore: wilson(wasRight.length, both.length),
    agreementNow: wilson(isRight.length, both.length),
    /** Result of McNemar's exact test on right and wrong verdicts. */
    pValue,
    /** Number of items that have a verdict in only one of the runs. */
    onlyInBaseline: baseline.pairs.length - both.length,
    onlyNow: pairs.length - both.length,
    verdict,
  };
}
