/** Writes the comparison of two runs to files: `comparison.json`, and `comparison.html` for people. */
import { join } from 'node:path';
import type { RunsComparison } from '../compare/compare-runs.ts';
import type { RunData } from '../compare/run-data.ts';
import type { GateResult } from '../gate/types.ts';
import { writeWhole } from '../results/line-writer.ts';

/** The files that `writeComparison` writes. */
export const COMPARISON_FILES = { json: 'comparison.json', page: 'comparison.html' } as const;

export async function writeComparison(
  directory: string,
  comparison: RunsComparison,
  gate: GateResult | undefined,
  runs: readonly [before: RunData, after: RunData],
  withPage: boolean,
): Promise<void> {
  const json = JSON.stringify({ ...comparison, gate }, null, 1);
  await writeWhole(join(directory, COMPARISON_FILES.json), `${json}\n`);
  if (withPage) {
    // The charting library is larger than everything else.
    const { runsReport } = await import('./runs-report.ts');
    await writeWhole(join(directory, COMPARISON_FILES.page), await runsReport(comparison, gate, runs));
  }
}
