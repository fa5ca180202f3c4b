/** What `replay --json` prints: the result of a replay, or with `--dry-run` what it would send. */
import * as z from 'zod';
import { count, qualitySchema, regressionSchema } from './parts.ts';

const skipped = z.record(z.string(), count).describe('captured lines that are not sent, by reason');
const tokens = z.object({ total: z.number(), captured: z.number() });

export const dryRunJson = z.object({
  requests: count,
  seconds: z.number().describe('between the first and the last request; 0 without a schedule'),
  peakPerSecond: z.number(),
  meanPerSecond: z.number(),
  shape: z.array(z.number()).describe('requests in each of 60 equal steps'),
  streaming: count,
  contentTypes: z.record(z.string(), count),
  bodyBytes: z.number(),
  inputTokens: tokens,
  outputTokens: tokens,
  skipped,
});

const judgeUsd = z.number().nullable().optional().describe('US dollars; null: the price is unknown');

export const replayResultJson = z.object({
  run: z.string(),
  directory: z.string().describe('of the result files'),
  sent: count,
  succeeded: count,
  failed: count,
  cancelled: count,
  unsent: count,
  skipped,
  seconds: z.number(),
  stopped: z.boolean().describe('by Ctrl-C'),
  goodRequests: count.optional().describe('with --goodput'),
  bottleneck: z.string().optional().describe('why the client, and not the target, may be what was measured'),
  metrics: z
    .record(
      z.string(),
      z.object({
        avg: z.number(),
        p1: z.number(),
        p5: z.number(),
        p10: z.number(),
        p25: z.number(),
        p50: z.number(),
        p75: z.number(),
        p90: z.number(),
        p95: z.number(),
        p99: z.number(),
        min: z.number(),
        max: z.number(),
        std: z.number(),
        count,
        sum: z.number(),
      }),
    )
    .describe("AIPerf's metrics, in ms and tokens"),
  errors: z.array(z.object({ code: z.number().optional(), type: z.string(), message: z.string(), count })),
  comparison: z
    .object({ quality: qualitySchema, judgeUsd, withoutCaptured: count, regressions: z.array(regressionSchema) })
    .optional()
    .describe('with --compare'),
  mlflow: z.object({ runId: z.string(), experiment: z.string(), traces: count, refused: count }).optional(),
  failures: z.array(z.string()).describe('of the steps after the replay'),
});

export const replayJson = replayResultJson.or(dryRunJson);
