/** The output of the commands about runs with `--json`. */
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { RunPage } from './run-text.ts';

export interface RunsFollowed {
  runs: ReturnType<typeof runAsJson>[];
}

/** The output of `process`. */
export interface ProcessOutput extends RunsFollowed {
  /**
   * Files of this machine that were or would be uploaded to the bucket. `runs` does not include their runs, because
   * they are not followed.
   */
  files?: { path: string; key: string; bytes: number }[];
}

/** Returns a run as `process`, `retry` and `show` print it. */
export function runAsJson({ report, next, links, expectedSeconds }: RunPage) {
  const { run, arn, status, startedAt, endedAt, asked, error, isFinal, openBatchJobs, summary } = report;
  return {
    run,
    arn: arn ?? null,
    status,
    startedAt: startedAt ?? null,
    endedAt: endedAt ?? null,
    /** The request, as text. */
    asked,
    error: error ?? null,
    /** Whether the run has written its summary. If not, the figures come from the receipts so far. */
    isFinal,
    /** `null` if the work bucket has no data of the run. */
    figures: summary === undefined ? null : figuresOf(summary, expectedSeconds),
    quarantined: report.quarantined.map(({ reason, count, lines }) => ({
      reason,
      count,
      /** The first few. */
      lines: lines.map(({ key, line, reason: { message } }) => ({ key, line, message })),
    })),
    openBatchJobs,
    next,
    links,
  };
}

const figuresOf = (summary: RunSummary, expectedSeconds: number | undefined) => ({
  outcome: summary.status,
  files: summary.objects,
  lines: summary.lines,
  verdicts: summary.verdicts,
  verdictsByScorer: summary.verdictsByScorer,
  /** Number of good verdicts among these by scorer, for scorers with a good value. `null` while the run is running. */
  good: summary.good ?? null,
  reasons: summary.reasons,
  judge: summary.spend,
  estimate: summary.estimate ?? null,
  /** For a dry run, from the speed of earlier runs. */
  expectedSeconds: expectedSeconds ?? null,
  /** The first failed chunks. */
  failedChunks: summary.failedChunks,
  /** The first failed files. */
  failedFiles: summary.failedFiles?.first ?? [],
  warnings: summary.warnings ?? [],
});
