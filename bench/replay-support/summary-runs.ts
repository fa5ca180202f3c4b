/** Runs SummarizeReplay's bundle on many shards, which are copies of a shard that was really sent. */

import type { SummarizeReplayResult } from '../../src/core/contract/replay.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import type { ShardResult } from '../../src/replay/cloud/shard/shard-result.ts';
import { SHARD_FILES, type StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { type SideReport, WORK } from '../support/bench-stack.ts';
import { execution, type MeasuredFunctions } from './replay-functions.ts';

/** Time to S3's first byte within a region. */
export const DISTANCE_MS = 30;

/**
 * Measures the summary of a replay, with S3 as far away as the real one.
 *
 * @param sent run of a shard that was sent with `compare`
 * @param count number of shards
 */
export async function summarizeRun(functions: MeasuredFunctions, sent: string, count: number): Promise<SideReport> {
  const name = `summary-${count}`;
  await putShards(functions, sent, name, count);
  const distant = await functions.distantS3(DISTANCE_MS);
  try {
    const report = await functions.call('summarize-replay', { run: execution(name) }, '', distant.url);
    const { ok, error, cause } = report.result as unknown as SummarizeReplayResult;
    if (!ok) throw new Error(`${name} was not summarized; got: ${error}: ${cause}`);
    return report;
  } finally {
    await distant.process.stop();
  }
}

/** Writes a plan with a number of shards, each with the figures of the one that was sent. */
async function putShards(functions: MeasuredFunctions, sent: string, name: string, count: number): Promise<void> {
  const result = await functions.json<ShardResult>(`${replayKeys.shardPrefix(sent, 0)}${SHARD_FILES.result}`);
  const plan = await functions.json<StoredPlan>(replayKeys.plan(sent));
  const [own] = plan.shards;
  if (!own) throw new Error(`The plan of ${sent} has no shard`);
  const shards = Array.from({ length: count }, (_, shard) => ({ ...own, shard }));
  const whole: StoredPlan = { ...plan, run: name, shards, requests: own.requests * count };
  await functions.put(WORK, replayKeys.plan(name), JSON.stringify(whole));
  await functions.putAll(
    WORK,
    shards.map(({ shard }) => ({
      key: `${replayKeys.shardPrefix(name, shard)}${SHARD_FILES.result}`,
      body: () => JSON.stringify({ ...result, shard }),
    })),
  );
}
