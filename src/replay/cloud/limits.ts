/**
 * The limits of a shard, of planning and of the summary, with their arithmetic.
 *
 * "Measured" refers to November 2026: each bundle on one full x86 processor, as Lambda gives at the 1,769 MB of these
 * functions, with TLS and verified signatures to the endpoint. S3 is emulated there. The emulator is not a bottleneck (250
 * MB/s for a bare reader, 90 MB/s for a bare copy) but answers within 2 ms. Work that waits for S3 was therefore also
 * measured with 30 ms added to each request.
 */

import { FUNCTION_TIMEOUT_SECONDS } from '../../core/contract/execution.ts';
import type { ReplayInput } from '../../core/contract/replay.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { maxConcurrencyOf } from '../derived-options.ts';
import type { ReplayOptions } from '../options.ts';

/**
 * Time between the call of a shard and its first request. A process is ready after 0.4 s, measured with 200 requests. Added
 * are Lambda's cold start (2 s), a schedule of 50,000 (1 s), distance to the target and to S3 (1 s), and as much again for a
 * Map that starts its child late.
 */
export const SHARD_LEAD_MS = 10_000;
/** Time between planning and the start of the clock: the Map reads its manifest and starts (10 s), then the shards' lead. */
export const START_LEAD_MS = 10_000 + SHARD_LEAD_MS;
/**
 * Time in which the Map starts one child. How fast it starts them is not published. 50 per second are a third of the 150
 * executions that anyone may start per second in most regions, since other state machines of the account start some too:
 * https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
const CHILD_START_MS = 20;
/** Additional time for the warm-up requests, which are sent before the clock starts. */
export const WARMUP_LEAD_MS = 30_000;
/**
 * Time reserved at the end of a shard for uploading its files: a full disk (`REPLAY_DISK_MIB`) at 48 MB/s. Measured: 79
 * MB/s to the emulator. Unless replies are larger than the captured replies, the files have at most 1.8 GB, which 20
 * MB/s can upload.
 */
export const WRITE_RESERVE_MS = 90_000;
/** Shorter windows would need more Lambdas than there are seconds. */
const MIN_WINDOW_MS = 30_000;

/** Requests per shard: 200 bytes of schedule each in memory, 10 MB in all. */
export const MAX_REQUESTS = 50_000;
/** Captured bytes per shard. Its files need at most 5.5 times as much on the disk, and 6,000 bytes for each request. */
const MAX_BYTES = 256 * 1024 * 1024;
/**
 * Requests per second and shard. Measured: they use a tenth of the processor (0.5 ms each to read, sign, encrypt and record)
 * and 160 MB, and six times as many are still sent on time (own lag p99 below 10 ms at 1,200 per second). Two things bound
 * it. Captured times have whole seconds, so there are bursts: of 200 requests due at the same time, the last is sent 7 to
 * 11 ms late (`spreadSameSecond` spreads them). And there are 1,024 file descriptors: at 200 per second, `MAX_CONNECTIONS`
 * allow replies of 4 s.
 */
export const MAX_PER_SECOND = 200;
/**
 * 1,024 file descriptors minus the descriptors for Node, S3 (50 sockets) and the shard's files. Measured with all
 * connections open: 200 MB and an own lag p99 of 2.4 ms. Opening a connection takes half a millisecond of processor
 * time.
 */
export const MAX_CONNECTIONS = 800;
/**
 * Without a schedule, every connection is always busy. With replies of 100 ms, 128 connections send 1,280 requests per
 * second.
 */
const CONNECTIONS_WITHOUT_SCHEDULE = 128;

/** Reserved in PlanReplay for the schedule of 10 million requests. Measured: 4.8 million take 17 s. */
export const SCHEDULE_RESERVE_MS = 180_000;
/**
 * Time between planning and the start of the clock. The Map starts its children one after the other, so the last stripe of
 * a wide window needs more time than a single shard, and a shard that is due later needs less.
 *
 * @param shards in the order of the manifest
 */
export function startLeadMs(shards: readonly { firstDueMs: number | null }[], warmup: number): number {
  const late = shards.reduce((most, { firstDueMs }, n) => Math.max(most, n * CHILD_START_MS - (firstDueMs ?? 0)), 0);
  return START_LEAD_MS + late + (warmup > 0 ? WARMUP_LEAD_MS : 0);
}

export interface ShardBounds {
  /** Longest time from a shard's first request to its last. */
  windowMs: number;
  requests: number;
  bytes: number;
  perSecond: number;
  /** Requests in flight per shard without a schedule. */
  connections: number;
  /** Maximum number of requests in flight over all shards. Without a schedule, exactly this number. Infinity: no maximum. */
  concurrency: number;
}

/**
 * Returns the limits of this replay's shards. A window, the slowest reply to its last request and the writing of results fit
 * into the function's time. The input can lower the limits but not raise them.
 *
 * @throws PermanentError `InvalidReplayInput` if the timeout of a reply leaves no time for sending
 */
export function shardBounds(options: ReplayOptions, asked: NonNullable<ReplayInput['shard']>): ShardBounds {
  const lead = SHARD_LEAD_MS + (options.warmup > 0 ? WARMUP_LEAD_MS : 0);
  const longest = FUNCTION_TIMEOUT_SECONDS * 1000 - lead - WRITE_RESERVE_MS - options.timeout * 1000;
  if (longest < MIN_WINDOW_MS) {
    const most = (longest - MIN_WINDOW_MS) / 1000 + options.timeout;
    throw new PermanentError('InvalidReplayInput', 'The timeout is longer than a Lambda can wait', {
      got: `timeout ${options.timeout}`,
      expected: `at most ${most} seconds, because a shard has ${FUNCTION_TIMEOUT_SECONDS} s and also has to send and to write`,
    });
  }
  const least = (bound: number, wanted: number | undefined): number => Math.min(bound, wanted ?? bound);
  return {
    windowMs: least(longest, asked.seconds === undefined ? undefined : asked.seconds * 1000),
    requests: least(MAX_REQUESTS, asked.requests),
    bytes: MAX_BYTES,
    perSecond: least(MAX_PER_SECOND, asked.requestsPerSecond),
    connections: CONNECTIONS_WITHOUT_SCHEDULE,
    concurrency: maxConcurrencyOf(options),
  };
}
