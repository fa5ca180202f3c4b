/** The files of a shard: lines for each request, and one object with its figures, which is written last. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Storage } from '../../../shared/storage.ts';
import { putFile } from '../../../shared/uploads.ts';
import type { RunClock } from '../../clock.ts';
import { REPLIES_FILE, withoutReply } from '../../compare/replies-file.ts';
import { comparedReply } from '../../compare/with-captured.ts';
import type { Measured } from '../../measure/measure.ts';
import { replayedLine } from '../../publish/replayed-line.ts';
import { SPOOL_FILE, traceNameOf } from '../../publish/spool.ts';
import type { PreparedRequest } from '../../request/prepared.ts';
import { payloadJson } from '../../results/inputs.ts';
import { LineWriter } from '../../results/line-writer.ts';
import { replyNotKept } from '../../results/reply-not-kept.ts';
import { FILES, ResultSet, unreadOf } from '../../results/result-set.ts';
import { targetFacts } from '../target.ts';
import { SHARD_FILES } from '../work-bucket/keys.ts';
import type { ShardPlan, StoredPlan } from '../work-bucket/stored-plan.ts';
import { ReplyRoom } from './reply-room.ts';
import type { ShardFigures, ShardResult } from './shard-result.ts';

const LINES = 'application/jsonlines';
/** Files with a line per request. */
export const LINE_FILES = [FILES.records, FILES.skipped, SHARD_FILES.inputs, REPLIES_FILE, SPOOL_FILE] as const;

/** @param instead JSON in place of a reply that is not kept */
type BodyLine = (measured: Measured, clock: RunClock, instead?: string) => string;

/** AIPerf's name for the sender of a request. */
const workerOf = ({ shard }: ShardPlan): string => `shard_${shard}`;

const sizeOf = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);

async function freeBytesOf(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

/** Collects the results of a shard on its disk, and uploads them at the end. */
export class ShardResults {
  readonly #directory: string;
  readonly #set: ResultSet;
  readonly #inputs: LineWriter;
  /** Files with replies, and how their lines are made. */
  readonly #bodies: { file: LineWriter; line: BodyLine }[] = [];
  readonly #room: ReplyRoom;
  readonly #shard: ShardPlan;
  readonly #stripes: number;

  private constructor(directory: string, set: ResultSet, plan: StoredPlan, shard: ShardPlan, room: ReplyRoom) {
    this.#directory = directory;
    this.#set = set;
    this.#shard = shard;
    this.#room = room;
    this.#stripes = plan.shards.filter(({ window }) => window === shard.window).length;
    this.#inputs = new LineWriter(join(directory, SHARD_FILES.inputs));
    const add = (name: string, line: BodyLine): void => {
      this.#bodies.push({ file: new LineWriter(join(directory, name)), line });
    };
    if (plan.compare) {
      add(REPLIES_FILE, (measured, _, instead) => {
        const stored = comparedReply(measured);
        return JSON.stringify(instead === undefined ? stored : withoutReply(stored, measured.exchange.bodyBytes));
      });
    }
    const name = traceNameOf(targetFacts(plan.target), plan.run);
    if (plan.mlflow) {
      add(SPOOL_FILE, (measured, clock, instead) =>
        JSON.stringify(replayedLine(measured, clock, plan.run, name, instead)),
      );
    }
  }

  /**
   * @param capturedBytes size of each capture, in order
   * @param freeBytes free space on the disk. Default: measured
   */
  static async create(
    plan: StoredPlan,
    shard: ShardPlan,
    capturedBytes: readonly number[],
    freeBytes?: number,
  ): Promise<ShardResults> {
    const directory = await mkdtemp(join(tmpdir(), 'replay-shard-'));
    const { run } = plan;
    const workerId = workerOf(shard);
    const set = new ResultSet({ directory, run, inputs: false, workerId });
    const room = new ReplyRoom(freeBytes ?? (await freeBytesOf(directory)), capturedBytes);
    return new ShardResults(directory, set, plan, shard, room);
  }

  get set(): ResultSet {
    return this.#set;
  }

  /** Writes a line of inputs: the position within the window, the conversation, and the request. */
  prepared(request: PreparedRequest): void {
    const place = request.ordinal * this.#stripes + this.#shard.stripe;
    const line = `${place}\t${JSON.stringify(request.turn)}\t${payloadJson(request)}`;
    this.#room.wrote(Buffer.byteLength(line));
    this.#inputs.write(line);
  }

  measured(measured: Measured, clock: RunClock): void {
    const { request, exchange } = measured;
    const counted = request.phase === 'profiling';
    const linesOf = (instead?: string): string[] => this.#bodies.map(({ line }) => line(measured, clock, instead));
    // Everything that can throw runs before any part of the request is written.
    let lines = counted ? linesOf() : [];
    this.#room.wrote(this.#set.measured(measured, clock));
    if (!counted) return;
    if (!this.#room.take(request.ordinal, sizeOf(lines), exchange.bodyBytes)) {
      lines = linesOf(replyNotKept(exchange.bodyBytes, 'The disk of the shard was full'));
      this.#room.wrote(sizeOf(lines));
    }
    for (const [i, { file }] of this.#bodies.entries()) file.write(lines[i] ?? '');
  }

  /** Uploads everything to the work bucket. */
  async store(
    storage: Storage,
    bucket: string,
    prefix: string,
    figures: Omit<ShardFigures, 'notKept'>,
  ): Promise<ShardResult> {
    await this.#set.close();
    await this.#inputs.close();
    for (const { file } of this.#bodies) await file.close();
    const { stats, warmup, report, skippedReasons } = this.#set;
    for (const name of LINE_FILES) {
      const path = join(this.#directory, name);
      if (existsSync(path)) await putFile(storage, bucket, `${prefix}${name}`, path, LINES);
    }
    const result: ShardResult = {
      ...figures,
      notKept: this.#room.notKept,
      skipped: Object.fromEntries(skippedReasons),
      unread: unreadOf(skippedReasons),
      stats: stats.toJSON(),
      warmup: warmup.toJSON(),
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
