/** `result.json`: the figures that a shard leaves behind, written last, and read by the summary. */
import * as z from 'zod';
import { isObject } from '../../../formats/json.ts';
import { PermanentError } from '../../../shared/errors.ts';
import type { ExchangeError } from '../../http/exchange.ts';
import { DISTRIBUTION_METRICS } from '../../measure/metrics.ts';
import type { CollectorJson } from '../../measure/report-collector.ts';
import type { RunStatsJson } from '../../measure/run-stats.ts';

const count = z.number().int().min(0);

/** Of the histograms, which are long, only that they are there is checked, and whose they are. */
const distributions = z.custom<RunStatsJson['distributions']>(
  (value) => isObject(value) && Object.keys(value).every((key) => key in DISTRIBUTION_METRICS),
  'expected histograms by the names of metrics',
);

const runStatsSchema: z.ZodType<RunStatsJson> = z.object({
  distributions,
  succeeded: count,
  failed: count,
  cancelled: count,
  /** Shards of earlier versions did not count them. */
  cancelledOnPurpose: count.default(0),
  good: count,
  withObjectives: z.boolean(),
  contextOverflows: count.default(0),
  lengthMismatches: count.default(0),
  busyMs: z.number(),
  errors: z.array(z.object({ error: z.custom<ExchangeError>(isObject), count })),
  statuses: z.record(z.string(), count),
  firstStartMs: z.number().nullable(),
  lastEndMs: z.number().nullable(),
});

const shardFiguresSchema = z.object({
  shard: count,
  /** Epoch ms. */
  beganAtMs: z.number(),
  endedAtMs: z.number(),
  /** How much later than scheduled it began. */
  lateMs: z.number(),
  /** Of the schedule: `sent`, `unsent` and what was skipped add up to the requests of its plan. */
  sent: count,
  unsent: count,
  /** Whether the replay was stopped before all was sent and answered. */
  stopped: z.boolean(),
  /** Most connections at one time, and those that could not be opened ahead of their requests. */
  maxConnections: count,
  warmFailures: count,
  /** Replies that were measured and compared, and not kept: the shard's disk had no room for them. */
  notKept: z.object({ replies: count, bytes: count }).default({ replies: 0, bytes: 0 }),
});

export type ShardFigures = z.infer<typeof shardFiguresSchema>;

const shardResultSchema = shardFiguresSchema.extend({
  skipped: z.record(z.string(), count),
  /** Requests whose captures could not be read any more; they are among the skipped. */
  unread: count,
  stats: runStatsSchema,
  warmup: runStatsSchema,
  slices: z.record(z.string(), runStatsSchema),
  report: z.custom<CollectorJson>(isObject),
});

export type ShardResult = z.infer<typeof shardResultSchema>;

/** @throws PermanentError `ShardResultInvalid` */
export function parseShardResult(text: string, where: string): ShardResult {
  const invalid = (got: string, cause?: unknown): PermanentError =>
    new PermanentError('ShardResultInvalid', 'What a shard has left is no result of a shard', { got, where }, cause);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(`${text.length} characters that are no JSON`, error);
  }
  const parsed = shardResultSchema.safeParse(value);
  if (!parsed.success) throw invalid(z.prettifyError(parsed.error).replace(/\s+/g, ' '), parsed.error);
  return parsed.data;
}
