/** Objects of a cloud replay in the work bucket. */
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { SHARD_FILES, type StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { DEFAULT_OPTIONS } from '../../src/replay/options.ts';

/** The key of a shard's claim. */
export const claimKey = (run: string, shard: number): string =>
  `${replayKeys.shardPrefix(run, shard)}${SHARD_FILES.claim}`;

/** A plan to a URL, with one window. @param requests of each shard */
export const storedPlan = (requests: number[], more: Partial<StoredPlan> = {}): StoredPlan => ({
  contract: CONTRACT,
  run: 'run',
  outcome: 'planned',
  target: { url: 'http://host' },
  options: DEFAULT_OPTIONS,
  compare: false,
  judge: null,
  mlflow: null,
  source: { bucket: 'b', prefix: '', fromMs: null, toMs: null },
  captures: { files: 1, records: 10, firstMs: 0, lastMs: 0 },
  skipped: {},
  startAtEpochMs: 1_795_000_000_000,
  requests: requests.reduce((sum, one) => sum + one, 0),
  shards: requests.map((own, shard) => ({ shard, window: 0, requests: own, firstDueMs: 0, maxConcurrency: null })),
  ...more,
});
