/** The files of a shard: lines for each request, and one object with its figures, which is written last. */

import { mkdtempSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../../core/aws/storage.ts';
import { putFile } from '../../../core/aws/uploads.ts';
import { REPLAY_DISK_MIB } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError, saidBy } from '../../../core/errors/errors.ts';
import type { RunClock } from '../../clock.ts';
import type { TallyJson } from '../../compare/quality.ts';
import { comparedReply, pairOf } from '../../compare/replies-file.ts';
import { capturedReplies } from '../../compare/with-captured.ts';
import type { Measured } from '../../measure/measure.ts';
import type { CollectorJson } from '../../measure/report-collector.ts';
import type { RunStatsJson } from '../../measure/run-stats.ts';
import { EXCHANGES_FILE, exchangeFile, traceNameOf } from '../../publish/exchanges.ts';
import { FILES, ResultSet } from '../../results/result-set.ts';
import type { SendOutcome } from '../../send/job.ts';
import { targetFacts } from '../target.ts';
import type { CaptureObject } from '../work-bucket/schedule-file.ts';
import { LINES, SHARD_FILES, type ShardPlan, type StoredPlan } from '../work-bucket/stored-plan.ts';

/** `sent`, `unsent` and the skipped requests add up to the requests of the plan. */
export interface ShardFigures extends Pick<SendOutcome, 'lateMs' | 'sent' | 'unsent' | 'stopped' | 'maxConnections'> {
  shard: number;
  /** Epoch ms. */
  endedAtMs: number;
}

export interface ShardResult extends ShardFigures {
  skipped: Record<string, number>;
  stats: RunStatsJson;
  report: CollectorJson;
  /** Comparison of the replies, if the replay compares them. */
  replies?: TallyJson | undefined;
  /** Reason why the shard has no `inputs.json`. */
  inputsLeftOut?: string | undefined;
}

export type ShardResults = ReturnType<typeof shardResults>;

/**
 * Collects the results of a shard on its disk, and uploads them at the end.
 *
 * @param directory of the files. Default: a new one
 */
export function shardResults(
  plan: StoredPlan,
  { shard }: ShardPlan,
  directory = mkdtempSync(join(tmpdir(), 'replay-shard-')),
) {
  const { run, target, compare, judge, mlflow } = plan;
  const read = (measured: Measured, clock: RunClock) => {
    const stored = replies && comparedReply(measured);
    const captured = judge && stored && pairOf(stored) ? capturedPlace(measured) : undefined;
    return [replies?.read(measured, stored), exchanges?.read(measured, clock, captured)];
  };
  const set = new ResultSet({ directory, inputs: true, workerId: `shard_${shard}`, read });
  const onError = (error: Error): void => set.unwritable.abort(error);
  const replies = compare ? capturedReplies(directory, onError) : undefined;
  const sender = { run, target: traceNameOf(targetFacts(target), run), mlflowRun: mlflow?.runId };
  const exchanges = mlflow ? exchangeFile(directory, sender, onError) : undefined;
  return {
    set,
    /**
     * Uploads everything to the work bucket.
     *
     * @throws PermanentError `ResultsNotWritten` when lines are missing
     */
    store: async (storage: Storage, bucket: string, figures: ShardFigures): Promise<ShardResult> => {
      await closeAll(set, [replies, exchanges], figures);
      const inputsLeftOut = await set.inputs?.finish();
      const prefix = replayKeys.shardPrefix(run, shard);
      for (const name of await readdir(directory)) {
        const type = name === FILES.inputs ? 'application/json' : LINES;
        const key = name === EXCHANGES_FILE ? replayKeys.exchanges(run, shard) : `${prefix}${name}`;
        await putFile(storage, bucket, key, join(directory, name), type);
      }
      const result: ShardResult = {
        ...figures,
        skipped: Object.fromEntries(set.skippedReasons),
        stats: set.stats.toJSON(),
        report: set.report.toJSON(),
        replies: replies?.tally.toJSON(),
        inputsLeftOut,
      };
      await storage.putJson(bucket, `${prefix}${SHARD_FILES.result}`, result);
      return result;
    },
    /** Deletes the local files. */
    dispose: (): Promise<void> => rm(directory, { recursive: true, force: true }),
  };
}

/** All are closed: an open file keeps its space on the disk, which the next shard may inherit. */
async function closeAll(
  set: ResultSet,
  files: readonly ({ close(): Promise<void> } | undefined)[],
  { sent, unsent }: ShardFigures,
): Promise<void> {
  const closed = await Promise.allSettled([set, ...files].map((file) => file?.close()));
  const failed = closed.find((one) => one.status === 'rejected');
  if (failed === undefined) return;
  await set.inputs?.discard();
  const message = 'The shard could not write its files, so its measurements are lost';
  const got = `${saidBy(failed.reason)}, after ${sent} requests; ${unsent} were not sent`;
  const expected = `files that fit on its disk (${REPLAY_DISK_MIB} MiB); for large replies, use smaller shards (shard.requests)`;
  throw new PermanentError('ResultsNotWritten', message, { got, expected }, failed.reason);
}

/** Returns the location of the captured line, in the version that was planned. */
function capturedPlace({ request: { place } }: Measured) {
  const { source, start, end } = place;
  const { bucket, name: key, etag, versionId } = source as CaptureObject;
  return { bucket, key, etag, ...(versionId === undefined ? {} : { versionId }), start, end };
}
