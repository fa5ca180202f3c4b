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
export interface ShardFigures
  extends Pick<SendOutcome, 'lateMs' | 'sent' | 'unsent' | 'stopped' | 'maxConnections' | 'warmFailures'> {
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

/** Collects the results of a shard on its disk, and uploads them at the end. */
export class ShardResults {
  readonly #directory: string;
  readonly set: ResultSet;
  /** Present if replies are compared. */
  readonly #replies: ReturnType<typeof capturedReplies> | undefined;
  /** Present if the exchanges become traces. */
  readonly #exchanges: ReturnType<typeof exchangeFile> | undefined;
  readonly #plan: StoredPlan;
  readonly #shard: ShardPlan;

  /** @param directory of the files. Default: a new one */
  constructor(plan: StoredPlan, shard: ShardPlan, directory = mkdtempSync(join(tmpdir(), 'replay-shard-'))) {
    const { run, target, compare, mlflow } = plan;
    this.#directory = directory;
    const read = (measured: Measured, clock: RunClock) => this.#read(measured, clock);
    this.set = new ResultSet({ directory, inputs: true, workerId: `shard_${shard.shard}`, read });
    const onError = (error: Error): void => this.set.unwritable.abort(error);
    this.#shard = shard;
    this.#replies = compare ? capturedReplies(directory, onError) : undefined;
    const sender = { run, target: traceNameOf(targetFacts(target), run), mlflowRun: mlflow?.runId };
    this.#exchanges = mlflow ? exchangeFile(directory, sender, onError) : undefined;
    this.#plan = plan;
  }

  /** Reads the outcome of a request. @returns functions that write the lines of the reply and of the exchange */
  #read(measured: Measured, clock: RunClock) {
    const stored = this.#replies && comparedReply(measured);
    const captured = this.#plan.judge && stored && pairOf(stored) ? capturedPlace(measured) : undefined;
    return [this.#replies?.read(measured, stored), this.#exchanges?.read(measured, clock, captured)];
  }

  /**
   * Uploads everything to the work bucket.
   *
   * @throws PermanentError `ResultsNotWritten` when lines are missing
   */
  async store(storage: Storage, bucket: string, prefix: string, figures: ShardFigures): Promise<ShardResult> {
    await this.#close(figures);
    const inputsLeftOut = await this.set.inputs?.finish();
    const { stats, report, skippedReasons } = this.set;
    const exchanges = replayKeys.exchanges(this.#plan.run, this.#shard.shard);
    for (const name of await readdir(this.#directory)) {
      const type = name === FILES.inputs ? 'application/json' : LINES;
      const key = name === EXCHANGES_FILE ? exchanges : `${prefix}${name}`;
      await putFile(storage, bucket, key, join(this.#directory, name), type);
    }
    const result: ShardResult = {
      ...figures,
      skipped: Object.fromEntries(skippedReasons),
      stats: stats.toJSON(),
      report: report.toJSON(),
      replies: this.#replies?.tally.toJSON(),
      inputsLeftOut,
    };
    await storage.putJson(bucket, `${prefix}${SHARD_FILES.result}`, result);
    return result;
  }

  async #close({ sent, unsent }: ShardFigures): Promise<void> {
    const files = [this.set, this.#replies, this.#exchanges].filter((file) => file !== undefined);
    // All are closed: an open file keeps its space on the disk, which the next shard may inherit.
    const closed = await Promise.allSettled(files.map((file) => file.close()));
    const failed = closed.find((one) => one.status === 'rejected');
    if (failed === undefined) return;
    const message = 'The shard could not write its files, so its measurements are lost';
    const got = `${saidBy(failed.reason)}, after ${sent} requests; ${unsent} were not sent`;
    const expected = `files that fit on its disk (${REPLAY_DISK_MIB} MiB); for large replies, use smaller shards (shard.requests)`;
    throw new PermanentError('ResultsNotWritten', message, { got, expected }, failed.reason);
  }

  /** Deletes the local files. */
  async dispose(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Returns the location of the captured line, in the version that was planned. */
function capturedPlace({ request: { place } }: Measured) {
  const { source, start, end } = place;
  const { bucket, name: key, etag, versionId } = source as CaptureObject;
  return { bucket, key, etag, ...(versionId === undefined ? {} : { versionId }), start, end };
}
