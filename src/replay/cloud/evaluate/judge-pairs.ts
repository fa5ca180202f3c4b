/** Asks the judge about a shard's replies that differ from the captured ones, a batch at a time. */

import type { ObjectFacts } from '../../../core/aws/storage.ts';
import type { Judge } from '../../../judge/types.ts';
import type { SpendingLimit } from '../../../limits/spending-limit.ts';
import { judgeAll, judgedLine, worseReply } from '../../compare/judge-replies.ts';
import type { PairVerdict } from '../../compare/pairwise.ts';
import { pairOf, type ReplyPair, type StoredReply } from '../../compare/replies-file.ts';
import { ObjectLines } from '../work-bucket/object-lines.ts';
import type { ShardWork, StepEnd } from './progress.ts';

/**
 * Pairs between two saves: 12 s at 16 concurrent pairs and 3 s per call. If the function crashes, these are paid for again,
 * about a cent each.
 */
const BATCH_PAIRS = 64;
const BATCH_BYTES = 16 * 1024 * 1024;
/** Time that a pair needs: two calls of seconds each, longer if they are throttled. */
const PAIR_RESERVE_MS = 120_000;
/** Calls that run longer are canceled this long before the function's end, to save the answers. */
const SAVE_RESERVE_MS = 30_000;

interface WaitingPair {
  /** First byte of its line. */
  start: number;
  stored: StoredReply;
  pair: ReplyPair;
}

interface Batch {
  pairs: WaitingPair[];
  /** First byte after the batch. */
  end: number;
}

/** @throws the judge's error if it cannot be called; its verdicts so far are saved */
export async function judgePairs(
  work: ShardWork,
  replies: ObjectFacts,
  judge: Judge,
  limit: SpendingLimit | undefined,
): Promise<StepEnd> {
  const { storage, progress } = work;
  const { pairs } = progress;
  const lines = new ObjectLines(storage, replies, undefined, pairs.offset);
  const signal = AbortSignal.timeout(Math.max(1, work.remainingMs() - SAVE_RESERVE_MS));
  const goOn = (): boolean => work.remainingMs() >= PAIR_RESERVE_MS;
  while (pairs.offset < replies.size) {
    if (await work.isStopped()) return 'stopped';
    if (!goOn()) return 'outOfTime';
    const batch = await nextBatch(lines, new Set(pairs.ahead));
    const settings = { judge, signal, goOn, limit };
    if ((await judgeBatch(work, batch, settings)) === 'outOfTime') return 'outOfTime';
  }
  return 'done';
}

async function nextBatch(lines: ObjectLines, judged: ReadonlySet<number>): Promise<Batch> {
  const pairs: WaitingPair[] = [];
  let bytes = 0;
  for (let start = lines.offset; ; start = lines.offset) {
    const line = await lines.next();
    if (line === undefined) break;
    if (judged.has(start)) continue;
    const stored = JSON.parse(line.toString('utf8')) as StoredReply;
    const pair = pairOf(stored);
    if (!pair) continue;
    bytes += line.length;
    pairs.push({ start, stored, pair });
    if (pairs.length >= BATCH_PAIRS || bytes >= BATCH_BYTES) break;
  }
  return { pairs, end: lines.offset };
}

async function judgeBatch(
  { progress, file }: ShardWork,
  batch: Batch,
  settings: Parameters<typeof judgeAll>[0],
): Promise<StepEnd> {
  const { pairs } = progress;
  const open = new Set(batch.pairs.map(({ start }) => start));
  const judged: string[] = [];
  const worse: string[] = [];
  const onDone = ({ start, stored }: WaitingPair, verdict?: PairVerdict): void => {
    open.delete(start);
    if (!verdict) return;
    judged.push(judgedLine(stored, settings.judge.sourceId, verdict));
    const found = worseReply(stored, verdict);
    if (found) worse.push(JSON.stringify(found));
  };
  let failure: unknown;
  try {
    await judgeAll(settings, batch.pairs, ({ pair }) => pair, onDone, pairs);
  } catch (error) {
    // Calls that were canceled for lack of time are not a failure: the next invocation repeats them.
    if (!settings.signal?.aborted) failure = error;
  }
  const done = batch.pairs.map(({ start }) => start).filter((start) => !open.has(start));
  pairs.offset = Math.min(batch.end, ...open);
  pairs.ahead = [...pairs.ahead, ...done].filter((start) => start >= pairs.offset);
  await file.save(progress, { judged, worse });
  if (failure !== undefined) throw failure;
  return open.size === 0 ? 'done' : 'outOfTime';
}
