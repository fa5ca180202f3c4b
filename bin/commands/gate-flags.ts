/** The flags of a gate: a file with thresholds and settings, and files for CI servers. */
import { appendFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import type { RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import type { GateResult } from '../../src/replay/gate/types.ts';
import { notice } from '../cli/output.ts';
import type { CompareFlags } from './compare.ts';
import { writableDirectory } from './replay-directory.ts';

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
 * Checks the paths of the outputs before anything costs time or money.
 *
 * @throws PermanentError `InvalidGateOptions`, `OutputUnusable`
 */
export async function checkOutputs({ junit, markdown, threshold }: CompareFlags): Promise<void> {
  for (const [option, path] of Object.entries({ '--junit': junit, '--markdown': markdown })) {
    if (path === undefined) continue;
    if (threshold.length === 0) {
      const facts = { got: option, expected: `${option} with --threshold or --gate` };
      throw new PermanentError('InvalidGateOptions', `${option} has no effect without a threshold`, facts);
    }
    await writableDirectory(dirname(path));
  }
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
