/** Writes what two runs show as files: `comparison.json`, and `comparison.html` for people. */
import { join } from 'node:path';
import type { RunsComparison } from '../compare/compare-runs.ts';
import { METRIC_TAGS, type RunData } from '../compare/run-data.ts';
import type { GateResult } from '../gate/types.ts';
import { Distribution } from '../measure/distribution.ts';
import { writeWhole } from '../results/whole-file.ts';

/** The files that `writeComparison` writes. */
export const COMPARISON_FILES = { json: 'comparison.json', page: 'comparison.html' } as const;

export interface WrittenComparison {
  comparison: RunsComparison;
  gate: GateResult | undefined;
  runs: [before: RunData, after: RunData];
}

export async function writeComparison(
  directory: string,
  { comparison, gate, runs }: WrittenComparison,
  withPage: boolean,
): Promise<void> {
  const json = JSON.stringify({ ...comparison, gate }, null, 1);
  await writeWhole(join(directory, COMPARISON_FILES.json), `${json}\n`);
  if (withPage) {
    // The charting library is larger than everything else.
    const { runsReport } = await import('./runs-report.ts');
    const page = await runsReport(comparison, { gate, latencies: [latencies(runs[0]), latencies(runs[1])] });
    await writeWhole(join(directory, COMPARISON_FILES.page), page);
  }
}

function latencies(run: RunData): Distribution {
  const distribution = new Distribution(1000);
  for (const value of run.requests.column(METRIC_TAGS.indexOf('request_latency'))) distribution.add(value);
  return distribution;
}
