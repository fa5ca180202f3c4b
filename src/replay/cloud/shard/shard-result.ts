/** `result.json`: the figures of a shard. It is written last, and read by the summary. */
import * as z from 'zod';
import { isObject } from '../../../captures/json.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { DISTRIBUTION_METRICS } from '../../measure/metrics.ts';
import type { CollectorJson } from '../../measure/report-collector.ts';
import type { RunStatsJson } from '../../measure/run-stats.ts';

const count = z.number().int().min(0);

/** As `RunStats` writes it. Histograms are long, so only the names of their metrics are checked. */
const runStats = z.custom<RunStatsJson>(
  (value) =>
    isObject(value) &&
    isObject(value.distributions) &&
    Object.keys(value.distributions).every((key) => key in DISTRIBUTION_METRICS),
  'expected counts, and histograms by the names of metrics',
);

const shardFiguresSchema = z.object({
  shard: count,
  /** Epoch ms. */
  beganAtMs: z.number(),
  endedAtMs: z.number(),
  /** How much later than planned it started. */
  lateMs: z.number(),
  /** `sent`, `unsent` and the skipped requests add up to the requests of the plan. */
  sent: count,
  unsent: count,
  /** Whether the replay was stopped before everything was sent and answered. */
  stopped: z.boolean(),
  /** Most simultaneous connections, and the number that could not be opened in advance. */
  maxConnections: count,
  warmFailures: count,
});

export type ShardFigures = z.infer<typeof shardFiguresSchema>;

const shardResultSchema = shardFiguresSchema.extend({
  skipped: z.record(z.string(), count),
  /** Requests whose captures could no longer be read. They are also in `skipped`. */
  unread: count,
  stats: runStats,
  warmup: runStats,
  report: z.custom<CollectorJson>(isObject),
});

export type ShardResult = z.infer<typeof shardResultSchema>;

/** Parses and checks a `result.json`. @throws PermanentError `ShardResultInvalid` */
export function parseShardResult(text: string, where: string): ShardResult {
  const invalid = (got: string, cause?: unknown): PermanentError =>
    new PermanentError('ShardResultInvalid', 'The result of a shard is invalid', { got, where }, cause);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`${text.length} characters that are not JSON`, error);
  }
  const parsed = shardResultSchema.safeParse(value);
  if (!parsed.success) throw invalid(z.prettifyError(parsed.error).replace(/\s+/g, ' '), parsed.error);
  return parsed.data;
}
