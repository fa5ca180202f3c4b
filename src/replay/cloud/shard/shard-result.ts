/** `result.json`: the figures of a shard. It is written last, and read by the summary. */
import type { TallyJson } from '../../compare/quality.ts';
import type { CollectorJson } from '../../measure/report-collector.ts';
import type { RunStatsJson } from '../../measure/run-stats.ts';
import type { SendOutcome } from '../../send/job.ts';

/** `sent`, `unsent` and the skipped requests add up to the requests of the plan. */
export interface ShardFigures
  extends Pick<SendOutcome, 'lateMs' | 'sent' | 'unsent' | 'stopped' | 'maxConnections' | 'warmFailures'> {
  shard: number;
  /** Epoch ms. */
  endedAtMs: number;
}

export interface ShardResult extends ShardFigures {
  skipped: Record<string, number>;
  /** Requests whose captures could no longer be read. They are also in `skipped`. */
  unread: number;
  stats: RunStatsJson;
  report: CollectorJson;
  /** Of the replies, if they are compared. */
  replies?: TallyJson | undefined;
  /** Why the shard has no `inputs.json`. */
  inputsLeftOut?: string | undefined;
}
