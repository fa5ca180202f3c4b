/** Assigns the requests of a schedule to shards, and writes each shard's part, one window at a time. */

import type { Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { forEachConcurrently } from '../../../core/process/concurrency.ts';
import type { ScheduledEntry } from '../../schedule/timing.ts';
import type { ShardBounds } from '../limits.ts';
import { type CaptureObject, type ScheduleLines, scheduleLines } from '../work-bucket/schedule-file.ts';
import { type ShardPlan, warmupKey } from '../work-bucket/stored-plan.ts';
import type { ConversationFinder } from './conversations.ts';
import { type Concurrency, shardsOf, stripeOf, type Window } from './sharding.ts';

/** Schedules that are written concurrently. */
const WRITES = 16;
const LINES = 'application/jsonlines';

interface ScheduleSource {
  /** The schedule from which the windows were cut. */
  batches: AsyncIterable<ScheduledEntry[]>;
  files: readonly CaptureObject[];
  conversations: Pick<ConversationFinder, 'turnOf'>;
  /** Number of requests that are also sent before the clock starts. */
  warmup: number;
}

interface ShardSink {
  storage: Storage;
  bucket: string;
  run: string;
}

/** A shard while requests are assigned to it. */
interface OpenShard {
  plan: ShardPlan;
  lines: ScheduleLines;
}

/** Writes all schedules and returns the shards in the order of their windows. */
export async function writeSchedule(
  source: ScheduleSource,
  windows: readonly Window[],
  bounds: ShardBounds,
  concurrency: Concurrency | undefined,
  sink: ShardSink,
): Promise<ShardPlan[]> {
  const { storage, bucket, run } = sink;
  const done: ShardPlan[] = [];
  const warmup = scheduleLines(source.files);
  let warmupLeft = source.warmup;
  let open: OpenShard[] = [];
  let window = -1;
  let inWindow = 0;
  const flush = async (): Promise<void> => {
    await forEachConcurrently(WRITES, open, ({ plan, lines }) =>
      storage.putText(bucket, replayKeys.schedule(run, plan.shard), lines.text(), LINES),
    );
    done.push(...open.map(({ plan }) => plan));
  };
  for await (const batch of source.batches) {
    for (const scheduled of batch) {
      if (inWindow === (windows[window]?.requests ?? 0)) {
        await flush();
        window++;
        inWindow = 0;
        open = shardsOf(windows[window] as Window, window, done.length, bounds, concurrency).map((plan) => ({
          plan,
          lines: scheduleLines(source.files),
        }));
      }
      const own = { ...scheduled, turn: source.conversations.turnOf(scheduled.entry, scheduled.pass) };
      assign(open[stripeOf(inWindow++, open.length)] as OpenShard, own);
      if (warmupLeft-- > 0) warmup.add({ ...own, dueMs: Number.NaN });
    }
  }
  await flush();
  if (source.warmup > 0) await storage.putText(bucket, warmupKey(run), warmup.text(), LINES);
  return done;
}

function assign({ plan, lines }: OpenShard, scheduled: ScheduledEntry): void {
  lines.add(scheduled);
  plan.requests++;
  if (Number.isNaN(scheduled.dueMs)) return;
  plan.firstDueMs ??= scheduled.dueMs;
  plan.lastDueMs = scheduled.dueMs;
}
