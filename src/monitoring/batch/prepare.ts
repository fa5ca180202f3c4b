/** The first phase of a chunk in batch inference: writes the requests to the judge, and reserves their money. */

import { capturePathOf } from '../../captures/files/capture-path.ts';
import type { Capture } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { ownFault } from '../../core/errors/own-fault.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import type { BatchRecord } from '../../judge/batch/record.ts';
import { questionOf } from '../../judge/question.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import type { Budget, Deposit } from '../../limits/budget.ts';
import type { TraceStore } from '../../mlflow/types.ts';
import { type HeavyCaptures, heavyCapturesOf } from '../chunk/heavy-captures.ts';
import { LineAtWork } from '../chunk/line-at-work.ts';
import { AnswerJournal } from '../evaluate/answer-journal.ts';
import { NO_TRACE_YET, pendingVerdicts } from '../evaluate/pending-verdicts.ts';
import { readCaptures } from '../evaluate/read-captures.ts';
import type { EvaluateDependencies } from '../evaluate/types.ts';
import type { LogDependencies } from '../log/line-book.ts';

/** The record that `prepareChunk` writes for the start of the jobs and for the second phase. */
export interface PreparedChunk {
  records: number;
  /** The ids of the records. A job’s output has those of other chunks next to them. */
  ids: string[];
  /** The size of the file with the records. A file of a different size is from an attempt that failed. */
  bytes: number;
  /** The most that the answers for the chunk can cost; empty when no budget is set. */
  deposits: Deposit[];
  /** Traces that the budget had no room for. */
  held: string[];
  /** The id of the record of each trace that is asked about. Traces with the same request share one. */
  asked: Record<string, string>;
  /** Traces whose request another chunk makes too, with the ordinal of that chunk, whose job asks for both. */
  elsewhere: Record<string, number>;
}

interface PrepareDependencies
  extends Pick<
    EvaluateDependencies,
    'storage' | 'scorers' | 'environment' | 'always' | 'judge' | 'claims' | 'requestId'
  > {
  store: Pick<TraceStore, 'getTraces'>;
  /** Absent when no budget is set. */
  limit?: Budget;
  remainingMs?: LogDependencies['remainingMs'];
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  /** Returns the most that the answer to a record can cost, at the batch price; `null` when the price is unknown. */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
}

/**
 * Writes the judge’s requests for a chunk, for the input of a batch job. Writes nothing to MLflow. A repeated call replaces what
 * the failed attempt left.
 */
export async function prepareChunk(request: ChunkRequest, deps: PrepareDependencies): Promise<PreparedChunk> {
  const { storage, environment, limit } = deps;
  const { run, chunk } = request;
  // The slash distinguishes a deposit from the lease of a Lambda.
  const deposit = `batch/${run}/${chunk.chunk}`;
  const bucket = environment.WORK_BUCKET;
  const heavy = heavyCapturesOf(request, { environment }, deps.scorers);
  let prepared: PreparedChunk;
  let records: string;
  try {
    await limit?.dropDeposit(deposit);
    const atWork = await LineAtWork.open('prepare', request, deps);
    const work = () => prepare(request, deps, deposit, { atWork, heavy });
    ({ prepared, records } = await atWork.during(work));
    await storage.putJson(bucket, workKeys.batchPrepared(run, chunk.chunk), prepared);
  } catch (error) {
    // No request will be made with the money that was reserved so far.
    await limit?.dropDeposit(deposit).catch(() => undefined);
    throw error;
  } finally {
    heavy.close();
  }
  // Last, because a job asks and pays for every request in this file: now its money is reserved, and accounted for.
  const key = workKeys.batchRequests(run, chunk.chunk);
  if (records !== '') await storage.putText(bucket, key, records, 'application/jsonlines');
  return prepared;
}

async function prepare(
  request: ChunkRequest,
  deps: PrepareDependencies,
  deposit: string,
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
): Promise<{ prepared: PreparedChunk; records: string }> {
  const { storage, store, environment, scorers, always, limit, requestId } = deps;
  const { run, options } = request;
  const all = await readCaptures(request, deps, { heavy, atWork });
  await atWork.traced();
  const journal = new AnswerJournal(storage, environment.WORK_BUCKET, request, requestId);
  await journal.open();
  const traceIds = [...all.captures, ...all.heavy].map(({ traceId }) => traceId);
  await journal.openEarlier(new Set(traceIds));
  const stored = await store.getTraces(request.chunk.experimentId, traceIds);
  const prepared: PreparedChunk = { records: 0, ids: [], bytes: 0, deposits: [], held: [], asked: {}, elsewhere: {} };
  const lines = new Map<string, string>();
  const mostUsd = new Map<string, number>();
  for await (const { traceId, raw, read, replay } of all.each()) {
    if (atWork.isEach) await atWork.begin(raw.place);
    const capture = read();
    const { variant } = capturePathOf(raw.place.key);
    const isAlways = (): boolean => always(capture, { variant }) !== undefined;
    const look = { capture, timeMs: timeOf(capture), isAlways, replay };
    // An absent trace is written with the answers of the job.
    const trace = stored.get(traceId) ?? (journal.mayCreate(traceId) ? NO_TRACE_YET : undefined);
    const { judge } = pendingVerdicts(traceId, look, trace, scorers, options, run);
    const open = journal.openOf(traceId, judge, deps.judge.sourceId);
    const asks = open.length === 0 ? undefined : requestOf(traceId, capture, open, deps);
    if (asks === undefined) continue;
    const { recordId } = asks;
    prepared.asked[traceId] = recordId;
    if (lines.has(recordId)) continue;
    const other = await deps.claims?.take(recordId);
    if (other !== undefined) prepared.elsewhere[traceId] = other.chunk;
    else {
      lines.set(recordId, asks.line);
      mostUsd.set(recordId, asks.maxUsd);
    }
  }
  // The answers may come hours later, when this Lambda has ended.
  const made = await limit?.setAside(deposit, [...mostUsd.values()]);
  const held = [...mostUsd.keys()].filter((_, index) => made?.hasRoom[index] === false);
  for (const recordId of held) {
    lines.delete(recordId);
    await deps.claims?.release(recordId);
  }
  prepared.held.push(...traceIds.filter((traceId) => held.includes(prepared.asked[traceId] ?? '')));
  const records = [...lines.values()].map((line) => `${line}\n`).join('');
  prepared.ids = [...lines.keys()];
  prepared.records = lines.size;
  prepared.bytes = Buffer.byteLength(records);
  if (made !== undefined && made.deposit.scopes.length > 0) prepared.deposits.push(made.deposit);
  return { prepared, records };
}

/** @returns `undefined` when the request cannot be made. The second phase meets the same fault, and records the error. */
function requestOf(
  traceId: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  { judge, record, maxCostUsd, limit }: PrepareDependencies,
): { recordId: string; line: string; maxUsd: number } | undefined {
  try {
    return withinTime(timeOf(capture), () => {
      const maxUsd = maxCostUsd(capture, scorers);
      if (limit !== undefined && maxUsd === null) return undefined;
      const recordId = questionOf(judge.sourceId, capture, scorers);
      const line = JSON.stringify({ ...record(traceId, capture, scorers), recordId });
      return { recordId, line, maxUsd: maxUsd ?? 0 };
    });
  } catch (error) {
    if (ownFault(error) === undefined) throw error;
    return undefined;
  }
}
