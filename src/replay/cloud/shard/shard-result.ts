/** `result.json`: the figures of a shard. It is written last, and read by the summary. */
import type { CollectorJson } from '../../measure/report-collector.ts';
import type { RunStatsJson } from '../../measure/run-stats.ts';

export interface ShardFigures {
  shard: number;
  /** Epoch ms. */
  beganAtMs: number;
  endedAtMs: number;
  /** How much later than planned it started. */
  lateMs: number;
  /** `sent`, `unsent` and the skipped requests add up to the requests of the plan. */
  sent: number;
  unsent: number;
  /** Whether the replay was stopped before everything was sent and answered. */
  stopped: boolean;
  /** Most simultaneous connections, and the number that could not be opened in advance. */
  maxConnections: number;
  warmFailures: number;
}

export interface ShardResult extends ShardFigures {
  skipped: Record<string, number>;
  /** Requests whose captures could no longer be read. They are also in `skipped`. */
  unread: number;
  stats: RunStatsJson;
  warmup: RunStatsJson;
  report: CollectorJson;
}
