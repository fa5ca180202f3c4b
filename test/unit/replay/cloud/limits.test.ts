/** Checks the limits of cloud replays against each other, so that none of them changes alone. */

import { ONE_VCPU_MB } from '../../../../lib/replay.ts';
import { FUNCTION_TIMEOUT_SECONDS } from '../../../../src/core/contract/execution.ts';
import { REPLAY_DISK_MIB } from '../../../../src/core/contract/replay.ts';
import {
  MAX_CONNECTIONS,
  MAX_PER_SECOND,
  MAX_REQUESTS,
  SHARD_LEAD_MS,
  shardBounds,
  startLeadMs,
  WARMUP_LEAD_MS,
  WRITE_RESERVE_MS,
} from '../../../../src/replay/cloud/limits.ts';
import { DEFAULT_OPTIONS } from '../../../../src/replay/options.ts';
import { ENTRY_BYTES, MAX_RECORDS, SORT_BYTES } from '../../../../src/replay/source/sorted-index.ts';
import { plannedFileBytes } from '../../../helpers/shard-files.ts';

const DISK_BYTES = REPLAY_DISK_MIB * 1024 * 1024;
/** Upload rate of a shard, bytes per millisecond. Measured: 79 MB/s to the emulator. */
const UPLOADED_BYTES_PER_MS = 48_000;
const LAMBDA_DESCRIPTORS = 1024;

test('the clock starts late enough for the shard that the Map starts last', () => {
  const at = (...due: (number | null)[]) => due.map((firstDueMs) => ({ firstDueMs }));
  expect(startLeadMs(at(0), 0)).toBe(20_000);
  expect(startLeadMs(at(0), 5)).toBe(50_000);
  // All at once: 50 children per second.
  expect(startLeadMs(at(...Array(1000).fill(0)), 0)).toBe(20_000 + 19_980);
  expect(startLeadMs(at(...Array(1000).fill(null)), 0)).toBe(20_000 + 19_980);
  // One after the other: the Map starts each long before it is due.
  expect(startLeadMs(at(...Array.from({ length: 1000 }, (_, n) => n * 200_000)), 0)).toBe(20_000);
  // Stripes of a first window, then a later one.
  expect(startLeadMs(at(...Array(100).fill(0), 200_000), 0)).toBe(20_000 + 1980);
});

test('the files of a shard take at most half of its disk, and all that fits can be uploaded in the reserved time', () => {
  const { requests, bytes } = shardBounds(DEFAULT_OPTIONS, {});
  expect(plannedFileBytes(requests, bytes)).toBeLessThanOrEqual(DISK_BYTES / 2);
  expect(DISK_BYTES / UPLOADED_BYTES_PER_MS).toBeLessThanOrEqual(WRITE_RESERVE_MS);
});

test('sorting all records takes a quarter of the function’s memory', () => {
  expect(MAX_RECORDS * (ENTRY_BYTES + SORT_BYTES)).toBeLessThanOrEqual((ONE_VCPU_MB * 1024 * 1024) / 4);
});

test.each([0, 10])(
  'a shard ends within its function’s time: lead, window, slowest reply, writing; warm-up %s',
  (warmup) => {
    const options = { ...DEFAULT_OPTIONS, warmup };
    const { windowMs } = shardBounds(options, {});
    const lead = SHARD_LEAD_MS + (warmup > 0 ? WARMUP_LEAD_MS : 0);
    const longest = lead + windowMs + options.timeout * 1000 + WRITE_RESERVE_MS;
    expect(longest).toBeLessThanOrEqual(FUNCTION_TIMEOUT_SECONDS * 1000);
  },
);

test('a full rate over the longest window stays within the requests of a shard', () => {
  const { windowMs } = shardBounds({ ...DEFAULT_OPTIONS, timeout: 1 }, {});
  // The number of requests bounds long windows, the rate short ones: both do bound something.
  expect((windowMs / 1000) * MAX_PER_SECOND).toBeGreaterThan(MAX_REQUESTS);
  expect((shardBounds(DEFAULT_OPTIONS, {}).windowMs / 1000) * MAX_PER_SECOND).toBeLessThan(MAX_REQUESTS);
});

test('connections leave file descriptors for S3, the shard’s files and Node', () => {
  const s3Sockets = 50;
  const filesAndNode = 40;
  expect(MAX_CONNECTIONS + s3Sockets + filesAndNode).toBeLessThanOrEqual(LAMBDA_DESCRIPTORS);
});
