/** What the commands about runs print with `--json`. */
import * as z from 'zod';
import { RUN_STATUSES, type RunReport } from '../operate/run-report.ts';
import type { RunPage } from './run-text.ts';

const count = z.number();
const namedError = z.object({ name: z.string(), message: z.string() });

/** A run, as `process`, `follow`, `retry` and `show` print it. */
export const runJson = z.object({
  run: z.string(),
  arn: z.string().nullable(),
  status: z.enum(RUN_STATUSES),
  startedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  /** In words. */
  asked: z.string(),
  error: namedError.nullable(),
  /** Whether the run has written its summary. If not, the figures are those of the receipts so far. */
  isFinal: z.boolean(),
  /** `null`: nothing of the run is in the work bucket. */
  figures: z
    .object({
      outcome: z.string(),
      files: count,
      lines: z.object({ planned: count, traced: count, quarantined: count, outsideWindow: count, lost: count }),
      verdicts: z.record(z.string(), count),
      verdictsByScorer: z.record(z.string(), z.record(z.string(), count)),
      reasons: z.record(z.string(), count),
      judge: z.object({ calls: count, inputTokens: count, outputTokens: count, usd: count.nullable() }),
      estimate: z
        .object({ captures: count, judgedCaptures: count, judgeCalls: count, usd: count.nullable() })
        .nullable(),
      /** Of a dry run, by the pace of earlier runs. */
      expectedSeconds: count.nullable(),
      failedChunks: z.array(
        z.object({
          chunk: count,
          step: z.string(),
          key: z.string(),
          firstLine: count,
          lines: count,
          error: namedError,
        }),
      ),
      failedFiles: z.array(z.object({ key: z.string(), error: namedError })),
      warnings: z.array(z.string()),
    })
    .nullable(),
  quarantined: z.array(
    z.object({
      reason: z.string(),
      count,
      /** The first few. */
      lines: z.array(z.object({ key: z.string(), line: count, message: z.string() })),
    }),
  ),
  openBatchJobs: z.array(z.string()),
  next: z.array(z.object({ why: z.string(), command: z.string() })),
  links: z.record(z.string(), z.string()),
});

export const runsFollowedJson = z.object({ runs: z.array(runJson) });

/** What `process` prints. */
export const processedJson = runsFollowedJson.extend({
  /** Files of this machine that were put into the bucket, or would be. Their runs are not in `runs`, as they are not followed. */
  files: z.array(z.object({ path: z.string(), key: z.string(), bytes: count })).optional(),
});

/** Returns a run as JSON. */
export function runAsJson({ report, next, links, expectedSeconds }: RunPage): z.input<typeof runJson> {
  const { summary, quarantined } = report;
  return {
    run: report.run,
    arn: report.arn ?? null,
    status: report.status,
    startedAt: report.startedAt ?? null,
    endedAt: report.endedAt ?? null,
    asked: report.asked,
    error: report.error ?? null,
    isFinal: report.isFinal,
    figures: summary === undefined ? null : { ...figuresOf(summary), expectedSeconds: expectedSeconds ?? null },
    quarantined: quarantined.map(({ reason, count: of, lines }) => ({
      reason,
      count: of,
      lines: lines.map(({ key, line, reason: { message } }) => ({ key, line, message })),
    })),
    openBatchJobs: report.openBatchJobs,
    next: [...next],
    links: { ...links },
  };
}

function figuresOf(
  summary: NonNullable<RunReport['summary']>,
): Omit<NonNullable<z.input<typeof runJson>['figures']>, 'expectedSeconds'> {
  const { lines, verdicts, spend, estimate } = summary;
  const { planned, traced, quarantined, outsideWindow, lost } = lines;
  return {
    outcome: summary.status,
    files: summary.objects,
    lines: { planned, traced, quarantined, outsideWindow, lost },
    verdicts: { ...verdicts },
    verdictsByScorer: summary.verdictsByScorer,
    reasons: summary.reasons,
    judge: { calls: spend.calls, inputTokens: spend.inputTokens, outputTokens: spend.outputTokens, usd: spend.usd },
    estimate: estimate
      ? {
          captures: estimate.captures,
          judgedCaptures: estimate.judgedCaptures,
          judgeCalls: estimate.judgeCalls,
          usd: estimate.usd,
        }
      : null,
    failedChunks: summary.failedChunks.map(({ chunk, step, key, firstLine, lines: of, error }) => ({
      ...{ chunk, step, key, firstLine },
      lines: of,
      error,
    })),
    failedFiles: (summary.failedFiles?.first ?? []).map(({ key, error }) => ({ key, error })),
    warnings: summary.warnings ?? [],
  };
}
