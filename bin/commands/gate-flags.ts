/** The flags of a gate: a file with thresholds and settings, and files for CI servers. */
import { appendFile, writeFile } from 'node:fs/promises';
import type { RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { notice } from '../cli/output.ts';
import type { CompareFlags } from './compare.ts';

/**
 * Adds what the gate file says. The thresholds of both count. Other flags take precedence over the file.
 *
 * @throws PermanentError `GateFileUnreadable`, `InvalidGateFile`
 */
export async function withGateFile(flags: CompareFlags): Promise<CompareFlags> {
  if (flags.gate === undefined) return flags;
  const { readGateFile } = await import('../../src/replay/gate/gate-file.ts');
  const { thresholds, zeroTolerance, judge } = await readGateFile(flags.gate);
  return {
    ...flags,
    threshold: [...thresholds, ...flags.threshold],
    zeroTolerance: flags.zeroTolerance ?? zeroTolerance,
    judge: flags.judge ?? judge !== undefined,
    judgeModel: flags.judgeModel ?? judge?.model,
    budget: flags.budget ?? judge?.budgetUsd,
  };
}

/**
 * Writes the outputs. In GitHub Actions the summary is also added to that of the job.
 *
 * @param report path of the HTML comparison, if it was written
 */
export async function writeOutputs(
  { junit, markdown }: CompareFlags,
  gate: GateResult,
  comparison: RunsComparison,
  report: string | undefined,
): Promise<void> {
  const { before, after } = comparison;
  if (junit !== undefined) {
    const { junitXml } = await import('../../src/replay/gate/outputs/junit.ts');
    await writeFile(junit, junitXml(gate, { before: before.run, after: after.run }));
  }
  // GitHub Actions sets it to the file of the step's summary.
  const jobSummary = process.env.GITHUB_STEP_SUMMARY;
  if (markdown === undefined && !jobSummary) return;
  const { markdownSummary } = await import('../../src/replay/gate/outputs/markdown.ts');
  const { replayTraceUrl } = await import('../../src/replay/gate/outputs/junit.ts');
  const text = markdownSummary(comparison, gate, {
    traceUrl: ({ requestId }) => replayTraceUrl(after, requestId),
    report,
  });
  if (markdown !== undefined) await writeFile(markdown, text);
  if (!jobSummary) return;
  await appendFile(jobSummary, text).catch((error: Error) => {
    // The gate is decided: a missing summary must not decide it otherwise.
    notice(`The summary was not added to GITHUB_STEP_SUMMARY: ${error.message}`);
  });
}
