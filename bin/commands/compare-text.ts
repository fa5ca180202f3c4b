/** What `compare` prints: both runs, their differences, the replies, and the gate. */
import { metricRows, type RunFacts, type RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import { COMPARED_METRICS } from '../../src/replay/compare/run-data.ts';
import { DIFFERENCE_COLUMNS, differenceTexts, gateText } from '../../src/replay/gate/texts.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { block, type Page, table } from '../cli/page.ts';
import { qualityPage } from './replay-text.ts';

const factsLine = ({ run, requests, failed, cancelledOnPurpose: cancelled }: RunFacts): string =>
  `${run}, ${requests} requests, ${failed} failed${cancelled > 0 ? `, ${cancelled} canceled on purpose` : ''}`;

export function comparisonPage(
  comparison: RunsComparison,
  gate: GateResult | undefined,
  written: readonly string[],
): Page {
  const { before, after, paired, errorRate, quality } = comparison;
  const { onlyBefore, onlyAfter } = paired;
  const all = metricRows(comparison);
  const enough = all.filter(({ difference }) => !difference.tooFew);
  const rows = (enough.length > 0 ? enough : all).map(({ metric, statistic, difference }) => [
    `${COMPARED_METRICS[metric].name} ${statistic}`,
    ...differenceTexts(difference),
  ]);
  return [
    `before: ${factsLine(before)}`,
    `after: ${factsLine(after)}`,
    `in both: ${paired.requests}; newly failing ${paired.newlyFailing}, newly succeeding ${paired.newlySucceeding}`,
    onlyBefore + onlyAfter > 0 && `in one only: ${onlyBefore} before, ${onlyAfter} after`,
    ...comparison.notes,
    block(
      table([...rows, ['Failed (%)', ...differenceTexts(errorRate, 100)]], ['', ...DIFFERENCE_COLUMNS]),
      '* the interval excludes 0; metrics are of requests that succeeded in both runs',
      rows.length < all.length && `${all.length - rows.length} more rows have too few requests: comparison.json`,
    ),
    block(...(quality ? qualityPage(quality, comparison.judgeUsd) : [])),
    block(...(gate ? gateText(gate) : []), `written: ${written.join('; ')}`),
  ];
}
