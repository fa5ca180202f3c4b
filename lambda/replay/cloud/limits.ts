/** What one shard, the plan and the summary can hold: every bound has its arithmetic here. */
import { PermanentError } from '../../common/errors.ts';
import { REPLAYER_TIMEOUT_SECONDS, type ReplayInput } from '../../replay-contract.ts';
import type { ReplayOptions } from '../options.ts';

/**
 * A shard is called this long before its first request is due: a cold start (2 s), its plan and schedule (2 s), the first
 * captures and connections (1 s), and as much again for a Map that is slow to let its child go on.
 */
export const SHARD_LEAD_MS = 10_000;
/**
 * From the end of planning to the start of the clock: the Map reads its manifest and starts up to 1,000 children (10 s),
 * and the first shards get their lead.
 */
export const START_LEAD_MS = 10_000 + SHARD_LEAD_MS;
/** More of it for the requests that are sent before the clock starts. */
export const WARMUP_LEAD_MS = 30_000;
/** Kept of a shard's time for writing what was measured: 1.6 GB, see `REPLAY_DISK_MIB`, to S3 at 20 MB/s take 80 s. */
export const WRITE_RESERVE_MS = 90_000;
/** A shorter window would be more Lambdas than seconds. */
const MIN_WINDOW_MS = 30_000;

/** Requests of a shard: 200 bytes of schedule each in memory, 10 MB; 1.5 KB of records each on the disk, 75 MB. */
export const MAX_REQUESTS = 50_000;
/** Captured bytes of a shard, see `REPLAY_DISK_MIB`. */
export const MAX_BYTES = 256 * 1024 * 1024;
/**
 * Requests a second. The process sends 4,000 a second on a whole core, and signatures, TLS and reading captures from S3
 * leave a quarter of that; what bounds it are 1,024 file descriptors: at 200 a second `MAX_CONNECTIONS` are replies that
 * take 4 s.
 */
export const MAX_PER_SECOND = 200;
/** 1,024 file descriptors less what Node, S3 and the shard's own files need. */
export const MAX_CONNECTIONS = 800;
/** Where there is no schedule every connection is always busy: replies of 100 ms are 1,280 requests a second. */
const CONNECTIONS_WITHOUT_SCHEDULE = 128;

/** Kept of PlanReplay's time for making and writing the schedule of 10 million requests. */
export const SCHEDULE_RESERVE_MS = 180_000;
/** Kept of SummarizeReplay's time for the figures, the report and the upload of small files. */
export const FIGURES_RESERVE_MS = 120_000;
/** Bytes of lines that SummarizeReplay merges in a millisecond: 10 MB/s, a third of what S3 gives and takes. */
export const MERGED_BYTES_PER_MS = 10_000;

export interface ShardBounds {
  /** Time from a shard's first request to its last. */
  windowMs: number;
  requests: number;
  bytes: number;
  perSecond: number;
  /** Requests under way of a shard that has no schedule. */
  connections: number;
}

/**
 * The bounds of this replay's shards. A window, the slowest reply to its last request and the writing of results fit into
 * the function's time; the input may ask for less than a Lambda could hold, not for more.
 *
 * @throws PermanentError `InvalidReplayInput` when the time for a reply leaves none for sending
 */
export function shardBounds(options: ReplayOptions, asked: NonNullable<ReplayInput['shard']>): ShardBounds {
  const lead = SHARD_LEAD_MS + (options.warmup > 0 ? WARMUP_LEAD_MS : 0);
  const longest = REPLAYER_TIMEOUT_SECONDS * 1000 - lead - WRITE_RESERVE_MS - options.timeout * 1000;
  if (longest < MIN_WINDOW_MS) {
    const most = (longest - MIN_WINDOW_MS) / 1000 + options.timeout;
    throw new PermanentError('InvalidReplayInput', 'A reply may take longer than a Lambda can wait', {
      got: `timeout ${options.timeout}`,
      expected: `${most} seconds at most: of ${REPLAYER_TIMEOUT_SECONDS} s, a shard needs some to send and to write`,
    });
  }
  const least = (bound: number, wanted: number | undefined): number => Math.min(bound, wanted ?? bound);
  return {
    windowMs: least(longest, asked.seconds === undefined ? undefined : asked.seconds * 1000),
    requests: least(MAX_REQUESTS, asked.requests),
    bytes: MAX_BYTES,
    perSecond: least(MAX_PER_SECOND, asked.requestsPerSecond),
    connections: CONNECTIONS_WITHOUT_SCHEDULE,
  };
}
