/** What `compare` prints: both runs, their differences, the replies, and the gate. */
import type { TextOptions } from '../../src/core/text/terminal-text.ts';
import { metricRows, type RunFacts, type RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import { COMPARED_METRICS } from '../../src/replay/compare/run-data.ts';
import { DIFFERENCE_COLUMNS, differenceTexts, gateText } from '../../src/replay/gate/texts.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { Page } from '../cli/output.ts';
import { addQuality } from './replay-text.ts';

/** Narrower terminals leave the column of percentages out. */
const WIDE = 90;

const factsLine = ({ run, requests, failed, cancelledOnPurpose: cancelled }: RunFacts): string =>
  `${run}, ${requests} requests, ${failed} failed${cancelled > 0 ? `, ${cancelled} canceled on purpose` : ''}`;

export function comparisonText(
  comparison: RunsComparison,
  gate: GateResult | undefined,
  written: readonly string[],
  out: TextOptions,
): string {
  const { before, after, paired, errorRate, quality } = comparison;
  const page = new Page(out);
  page.add(`before: ${factsLine(before)}`);
  page.add(`after: ${factsLine(after)}`);
  page.add(
    `in both: ${paired.requests}; newly failing ${paired.newlyFailing}, newly succeeding ${paired.newlySucceeding}`,
  );
  const { onlyBefore, onlyAfter } = paired;
  if (onlyBefore + onlyAfter > 0) page.add(`in one only: ${onlyBefore} before, ${onlyAfter} after`);
  for (const note of comparison.notes) page.add(note);
  const all = metricRows(comparison);
  const enough = all.filter(({ difference }) => !difference.tooFew);
  const rows = (enough.length > 0 ? enough : all).map(({ metric, statistic, difference }) => [
    `${COMPARED_METRICS[metric].name} ${statistic}`,
    ...differenceTexts(difference),
  ]);
  const table = [['', ...DIFFERENCE_COLUMNS], ...rows, ['Failed (%)', ...differenceTexts(errorRate, 100)]];
  const [head = [], ...cells] = out.width < WIDE ? table.map((row) => row.toSpliced(4, 1)) : table;
  page.add('');
  page.table(head, cells);
  page.add('* the interval excludes 0; metrics are of requests that succeeded in both runs');
  if (rows.length < all.length)
    page.add(`${all.length - rows.length} more rows have too few requests: comparison.json`);
  if (quality) {
    page.add('');
    addQuality(page, quality, comparison.judgeUsd);
  }
  page.add('');
  for (const line of gate ? gateText(gate) : []) page.add(line);
  page.add(`written: ${written.join('; ')}`);
  return page.text();
}
