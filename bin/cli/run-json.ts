/** What the commands about runs print with `--json`. */
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { RunPage } from './run-text.ts';

export interface RunsFollowed {
  runs: ReturnType<typeof runAsJson>[];
}

/** What `process` prints. */
export interface ProcessOutput extends RunsFollowed {
  /** Files of this machine that were put into the bucket, or would be. Their runs are not in `runs`, as they are not followed. */
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
    /** As text. */
    asked,
    error: error ?? null,
    /** Whether the run has written its summary. If not, the figures are those of the receipts so far. */
    isFinal,
    /** `null`: nothing of the run is in the work bucket. */
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
  /** How many of these verdicts are good, by scorer, if a value of the scorer is. `null` while the run is running. */
  good: summary.good ?? null,
  reasons: summary.reasons,
  judge: summary.spend,
  estimate: summary.estimate ?? null,
  /** Of a dry run, by the speed of earlier runs. */
  expectedSeconds: expectedSeconds ?? null,
  /** The first of them. */
  failedChunks: summary.failedChunks,
  /** The first of them. */
  failedFiles: summary.failedFiles?.first ?? [],
  warnings: summary.warnings ?? [],
});
