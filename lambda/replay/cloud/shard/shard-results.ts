/** What a shard leaves behind: its lines, and one object with its figures, which is written last. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { putFile } from '../../../common/put-file.ts';
import type { Storage } from '../../../common/storage.ts';
import type { RunClock } from '../../clock.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { CapturedReplies } from '../../compare/with-captured.ts';
import type { Measured } from '../../measure/measure.ts';
import { SPOOL_FILE, TraceSpool, traceNameOf } from '../../publish/spool.ts';
import type { PreparedRequest } from '../../request/prepared.ts';
import { payloadJson } from '../../results/inputs.ts';
import { LineWriter } from '../../results/line-writer.ts';
import { FILES, ResultSet } from '../../results/result-set.ts';
import { SHARD_FILES } from '../keys.ts';
import type { ReplayPlan, ShardPlan } from '../plan.ts';
import { targetFacts } from '../target-facts.ts';
import type { ShardFigures, ShardResult } from './shard-result.ts';

/** Reasons of skipped lines that come from the line itself; all others mean that it could not be read. */
const UNREAD = /^(Capture|Storage|Bucket|Credentials)/;

const LINES = 'application/jsonlines';
/** Files with a line for each request. */
export const LINE_FILES = [
  FILES.records,
  FILES.raw,
  FILES.skipped,
  SHARD_FILES.inputs,
  REPLIES_FILE,
  SPOOL_FILE,
] as const;

export class ShardResults {
  readonly #directory: string;
  readonly #set: ResultSet;
  readonly #inputs: LineWriter;
  readonly #replies: CapturedReplies | undefined;
  readonly #spool: TraceSpool | undefined;
  readonly #shard: ShardPlan;
  readonly #stripes: number;

  private constructor(directory: string, set: ResultSet, plan: ReplayPlan, shard: ShardPlan) {
    this.#directory = directory;
    this.#set = set;
    this.#shard = shard;
    this.#stripes = plan.shards.filter(({ window }) => window === shard.window).length;
    this.#inputs = new LineWriter(join(directory, SHARD_FILES.inputs));
    this.#replies = plan.compare ? new CapturedReplies(directory) : undefined;
    const name = traceNameOf(targetFacts(plan.target), plan.run);
    this.#spool = plan.mlflow ? new TraceSpool(directory, plan.run, name) : undefined;
  }

  static async create(plan: ReplayPlan, shard: ShardPlan): Promise<ShardResults> {
    const directory = await mkdtemp(join(tmpdir(), 'replay-shard-'));
    const workerId = `shard_${shard.shard}`;
    const { run, raw, sliceMs } = plan;
    const set = await ResultSet.create({ directory, run, sliceMs, inputs: false, raw, workerId });
    return new ShardResults(directory, set, plan, shard);
  }

  get set(): ResultSet {
    return this.#set;
  }

  /** A line is its place among the window's requests, its conversation, and the request. */
  prepared(request: PreparedRequest): void {
    const place = request.ordinal * this.#stripes + this.#shard.stripe;
    this.#inputs.write(`${place}\t${JSON.stringify(request.turn)}\t${payloadJson(request)}`);
  }

  measured(measured: Measured, clock: RunClock): void {
    this.#set.measured(measured, clock);
    if (measured.request.phase !== 'profiling') return;
    this.#replies?.add(measured);
    this.#spool?.add(measured, clock);
  }

  /** Writes everything to the work bucket. */
  async store(storage: Storage, bucket: string, prefix: string, figures: ShardFigures): Promise<ShardResult> {
    await this.#set.close();
    await this.#inputs.close();
    await this.#replies?.finish();
    await this.#spool?.close();
    const { stats, warmup, slices, load, report, skippedReasons } = this.#set;
    for (const name of LINE_FILES) {
      const path = join(this.#directory, name);
      if (existsSync(path)) await putFile(storage, bucket, `${prefix}${name}`, path, LINES);
    }
    const skipped = Object.fromEntries(skippedReasons);
    const unread = Object.entries(skipped).reduce((sum, [reason, count]) => sum + (UNREAD.test(reason) ? count : 0), 0);
    const result: ShardResult = {
      ...figures,
      skipped,
      unread,
      stats: stats.toJSON(),
      warmup: warmup.toJSON(),
      slices: slices.toJSON(),
      load: load.toJSON(),
      report: report.toJSON(),
    };
    await storage.putJson(bucket, `${prefix}${SHARD_FILES.result}`, result);
    return result;
  }

  /** Deletes the local files. */
  async dispose(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}
