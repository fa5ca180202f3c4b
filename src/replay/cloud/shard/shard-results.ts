/** The files of a shard: lines for each request, and one object with its figures, which is written last. */
import { existsSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../../core/aws/storage.ts';
import { putFile } from '../../../core/aws/uploads.ts';
import { REPLAY_DISK_MIB } from '../../../core/contract/replay.ts';
import { PermanentError, saidBy } from '../../../core/errors/errors.ts';
import type { RunClock } from '../../clock.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { comparedReply } from '../../compare/with-captured.ts';
import type { Measured } from '../../measure/measure.ts';
import { replayedLine } from '../../publish/replayed-line.ts';
import { SPOOL_FILE, traceNameOf } from '../../publish/spool.ts';
import type { PreparedRequest } from '../../request/prepared.ts';
import { payloadJson } from '../../results/inputs.ts';
import { LineWriter } from '../../results/line-writer.ts';
import { FILES, ResultSet, unreadOf } from '../../results/result-set.ts';
import { targetFacts } from '../target.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import type { ShardPlan, StoredPlan } from '../work-bucket/stored-plan.ts';
import type { ShardFigures, ShardResult } from './shard-result.ts';

const LINES = 'application/jsonlines';
/** Files with a line per request. */
export const LINE_FILES = [FILES.records, FILES.skipped, SHARD_FILES.inputs, REPLIES_FILE, SPOOL_FILE] as const;

type BodyLine = (measured: Measured, clock: RunClock) => string;

/** Collects the results of a shard on its disk, and uploads them at the end. */
export class ShardResults {
  readonly #directory: string;
  readonly set: ResultSet;
  readonly #inputs: LineWriter;
  /** Files with replies, and how their lines are made. */
  readonly #bodies: { file: LineWriter; line: BodyLine }[] = [];
  readonly #shard: ShardPlan;
  readonly #stripes: number;
  /** Aborted when a file can no longer be written, such as on a full disk. `store` throws the error. */
  readonly unwritable = new AbortController();

  /** @param directory of the files. Default: a new one */
  constructor(plan: StoredPlan, shard: ShardPlan, directory = mkdtempSync(join(tmpdir(), 'replay-shard-'))) {
    const onError = (error: Error): void => this.unwritable.abort(error);
    this.#directory = directory;
    this.set = new ResultSet({ directory, inputs: false, workerId: `shard_${shard.shard}`, onError });
    this.#shard = shard;
    this.#stripes = plan.shards.filter(({ window }) => window === shard.window).length;
    this.#inputs = new LineWriter(join(directory, SHARD_FILES.inputs), onError);
    const add = (name: string, line: BodyLine): void => {
      this.#bodies.push({ file: new LineWriter(join(directory, name), onError), line });
    };
    if (plan.compare) add(REPLIES_FILE, (measured) => JSON.stringify(comparedReply(measured)));
    const name = traceNameOf(targetFacts(plan.target), plan.run);
    if (plan.mlflow) {
      add(SPOOL_FILE, (measured, clock) => JSON.stringify(replayedLine(measured, clock, plan.run, name)));
    }
  }

  /** Writes a line of inputs: the position within the window, the conversation, and the request. */
  prepared(request: PreparedRequest): void {
    const place = request.ordinal * this.#stripes + this.#shard.stripe;
    this.#inputs.write(`${place}\t${JSON.stringify(request.turn)}\t${payloadJson(request)}`);
  }

  measured(measured: Measured, clock: RunClock): void {
    const bodies = measured.request.phase === 'profiling' ? this.#bodies : [];
    // Everything that can throw runs before any part of the request is written.
    const lines = bodies.map(({ line }) => line(measured, clock));
    this.set.measured(measured, clock);
    for (const [i, { file }] of bodies.entries()) file.write(lines[i] ?? '');
  }

  /**
   * Uploads everything to the work bucket.
   *
   * @throws PermanentError `ResultsNotWritten` when lines are missing
   */
  async store(storage: Storage, bucket: string, prefix: string, figures: ShardFigures): Promise<ShardResult> {
    await this.#close(figures);
    const { stats, warmup, report, skippedReasons } = this.set;
    for (const name of LINE_FILES) {
      const path = join(this.#directory, name);
      if (existsSync(path)) await putFile(storage, bucket, `${prefix}${name}`, path, LINES);
    }
    const result: ShardResult = {
      ...figures,
      skipped: Object.fromEntries(skippedReasons),
      unread: unreadOf(skippedReasons),
      stats: stats.toJSON(),
      warmup: warmup.toJSON(),
      report: report.toJSON(),
    };
    await storage.putJson(bucket, `${prefix}${SHARD_FILES.result}`, result);
    return result;
  }

  async #close({ sent, unsent }: ShardFigures): Promise<void> {
    const files = [this.set, this.#inputs, ...this.#bodies.map(({ file }) => file)];
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
