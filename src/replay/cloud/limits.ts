/**
 * What one shard, the plan and the summary can hold: every bound has its arithmetic here. "Measured" is by `npm run bench --
 * replay-shard`: the bundles, each on one whole processor (of an x86 server; Lambda gives one at the 1,769 MB that these
 * functions have), with TLS and checked signatures to the endpoint. S3 is an emulator there, which gave a bare reader 250
 * MB/s and a bare copy 90 MB/s, so that it bounds no figure here; it answers within 2 ms, much sooner than S3: what waits for
 * S3 was also measured with 30 ms added to every request.
 */

import { REPLAYER_TIMEOUT_SECONDS, type ReplayInput } from '../../contract/replay.ts';
import { PermanentError } from '../../shared/errors.ts';
import type { ReplayOptions } from '../options.ts';

/**
 * A shard is called this long before its first request is due. From the start of the process until it is ready it takes
 * 0.4 s, measured with 200 requests; Lambda's own cold start (2 s), a schedule of 50,000 (1 s), a target and an S3 that are
 * further away (1 s), and as much again for a Map that is slow to let its child go on.
 */
export const SHARD_LEAD_MS = 10_000;
/**
 * From the end of planning to the start of the clock: the Map reads its manifest and starts up to 1,000 children (10 s),
 * and the first shards get their lead.
 */
export const START_LEAD_MS = 10_000 + SHARD_LEAD_MS;
/** More of it for the requests that are sent before the clock starts. */
export const WARMUP_LEAD_MS = 30_000;
/** Kept of a shard's time for writing what was measured: `SHARD_FILE_BYTES` at `WRITTEN_BYTES_PER_MS` take 89 s. */
export const WRITE_RESERVE_MS = 90_000;
/** A shorter window would be more Lambdas than seconds. */
const MIN_WINDOW_MS = 30_000;

/** Requests of a shard: 200 bytes of schedule each in memory, 10 MB; `RECORD_FILE_BYTES` each on the disk. */
export const MAX_REQUESTS = 50_000;
/** Captured bytes of a shard; what becomes of them on the disk is `SHARD_FILE_BYTES`. */
const MAX_BYTES = 256 * 1024 * 1024;
/** A request's lines in all files together, however short its body is: figures, headers, names. */
export const RECORD_FILE_BYTES = 6_000;
/** Bytes of the files for each captured byte: inputs, raw requests and replies, compared replies, MLflow's in base64. */
export const SHARD_FILES_PER_BYTE = 5.5;
/** All files of a shard, with `compare`, `raw` and MLflow: 1.8 GB. They are on its disk (`REPLAY_DISK_MIB`) until it ends. */
export const SHARD_FILE_BYTES = MAX_REQUESTS * RECORD_FILE_BYTES + MAX_BYTES * SHARD_FILES_PER_BYTE;
/** Bytes that a shard puts into S3 in a millisecond: 20 MB/s. Measured: 79 MB/s, to the emulator. */
export const WRITTEN_BYTES_PER_MS = 20_000;
/**
 * Requests a second. Measured: they take a tenth of the processor (0.5 ms each: read, signed, encrypted, recorded) and
 * 160 MB, and six times as many still go out in time (own lag p99 below 10 ms at 1,200 a second). What bounds it are bursts,
 * since captured times have whole seconds: of 200 requests that are due at the same moment the last goes out 7 to 11 ms later
 * (`spreadSameSecond` spreads them); and the 1,024 file descriptors: at 200 a second `MAX_CONNECTIONS` are replies that take
 * 4 s.
 */
export const MAX_PER_SECOND = 200;
/**
 * 1,024 file descriptors less what Node, S3 (50 sockets) and the shard's own files need. Measured with all of them open: 200
 * MB, and an own lag p99 of 2.4 ms; opening one takes half a millisecond of the processor.
 */
export const MAX_CONNECTIONS = 800;
/** Where there is no schedule every connection is always busy: replies of 100 ms are 1,280 requests a second, see above. */
const CONNECTIONS_WITHOUT_SCHEDULE = 128;

/** Kept of PlanReplay's time for making and writing the schedule of 10 million requests: measured, 4.8 million take 17 s. */
export const SCHEDULE_RESERVE_MS = 180_000;
/** Kept of SummarizeReplay's time for the figures, the report and the upload of small files: 11 s for 400 shards, measured. */
export const FIGURES_RESERVE_MS = 120_000;
/**
 * Bytes of lines that SummarizeReplay merges in a millisecond: 10 MB/s. Measured: 40 to 54 MB/s for each kind of file of ten
 * shards, 33 with S3 30 ms away, 23 with 400 shards; the rest is for a slower processor. It took 240 MB for a gigabyte of ten
 * shards, 360 MB for 400 shards.
 */
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
