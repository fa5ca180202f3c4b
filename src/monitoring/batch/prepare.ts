/** The first phase of a chunk under batch inference: its requests are written, and their money is set aside. */

import type { ChunkRequest } from '../../contract/payloads.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { capturePathOf } from '../../formats/record/capture-path.ts';
import type { Capture } from '../../formats/types.ts';
import { type BatchRecord, recordIdOf } from '../../judge/batch/record.ts';
import type { Budget, Deposit } from '../../judge/budget/leased-budget.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { ownFault } from '../../shared/own-fault.ts';
import { timeOf, withinTime } from '../../shared/within-time.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../chunk/parts.ts';
import { AnswerJournal } from '../evaluate/answer-journal.ts';
import type { EvaluateDependencies } from '../evaluate/evaluate-chunk.ts';
import { tryToEvaluate } from '../evaluate/evaluate-trial.ts';
import { HeldCaptures } from '../evaluate/held-captures.ts';
import { pendingVerdicts } from '../evaluate/pending-verdicts.ts';
import { readQuarantine } from '../receipts.ts';

/**
 * Chunks whose requests go into one job. Bedrock takes 50,000 records a job for most models (its quota "Records per
 * batch inference job"), and a chunk has 500 at most.
 */
const CHUNKS_PER_JOB = 100;

export const groupOf = (chunk: number): number => Math.floor(chunk / CHUNKS_PER_JOB);

/** What `prepareChunk` leaves for the start of the jobs and for the second phase. */
export interface PreparedChunk {
  records: number;
  /** Of the file with the records: a file of another size is that of an attempt that failed. */
  bytes: number;
  /** The most that the chunk's answers can cost, set aside part by part; none where no budget is set. */
  deposits: Deposit[];
  /** Traces that the budget left no room for. */
  held: string[];
  /** First bytes of the lines that killed the function alone. */
  killed: number[];
  /** Traces whose line another chunk has too, by that chunk, whose job asks for both. */
  elsewhere: Record<string, number>;
}

interface PrepareDependencies
  extends Pick<
    EvaluateDependencies,
    'storage' | 'store' | 'scorers' | 'environment' | 'always' | 'judge' | 'requestId'
  > {
  /** Absent when no budget is set. */
  limit?: Budget;
  record(traceId: string, capture: Capture, scorers: readonly JudgeScorer[]): BatchRecord;
  /** The most that a record's answer can cost at the price of batch inference; `null` when it is not known. */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null;
}

/**
 * Writes the judge's requests of a chunk as a file of a batch job's input; those of a part beside those of the parts
 * before. Nothing is written to MLflow yet. Made again after a failure, it takes the place of what the attempt before has
 * left.
 */
export async function prepareChunk(request: ChunkRequest, deps: PrepareDependencies): Promise<PreparedChunk> {
  const deposit = depositName(request.run, request.chunk.chunk, partOf(request).from);
  const bucket = deps.environment.WORK_BUCKET;
  let prepared: PreparedChunk;
  let records: string;
  try {
    await deps.limit?.dropDeposit(deposit);
    ({ prepared, records } = await prepare(request, deps, deposit));
    await deps.storage.putJson(bucket, workKeys.batchPrepared(request.run, request.chunk.chunk), prepared);
  } catch (error) {
    // Nothing will be asked of what was set aside so far.
    await deps.limit?.closeWithDeposit(deposit).catch(() => undefined);
    await deps.limit?.dropDeposit(deposit).catch(() => undefined);
    throw error;
  }
  // Last, since what lies there is asked and paid for: its money is set aside, and will be accounted for.
  if (records !== '') await deps.storage.putText(bucket, inputKeyOf(request), records, 'application/jsonlines');
  return prepared;
}

const inputKeyOf = ({ run, chunk: { chunk } }: ChunkRequest): string => workKeys.batchInput(run, groupOf(chunk), chunk);

async function prepare(
  request: ChunkRequest,
  deps: PrepareDependencies,
  deposit: string,
): Promise<{ prepared: PreparedChunk; records: string }> {
  const { storage, store, environment, scorers, always, limit } = deps;
  const { run, options } = request;
  const part = partOf(request);
  const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, request.chunk, part);
  const bucket = environment.WORK_BUCKET;
  const { variant } = capturePathOf(chunk.key);
  const journal = new AnswerJournal(storage, bucket, request, deps.requestId, Date.now());
  const captures = new Map<string, () => Capture>();
  const held = new HeldCaptures();
  const killed: number[] = [];
  const leaveOut = leftOut(request, await readQuarantine(storage, bucket, run, chunk.chunk));
  for await (const line of readChunk(storage, chunk, environment, options.window, {
    leaveOut,
    tryOut: tryToEvaluate,
  })) {
    if (line.kind === 'quarantine' && line.reason === KILLED) killed.push(line.place.start);
    if (line.kind === 'capture' && !line.duplicate) captures.set(line.traceId, held.hold(line));
  }
  const stored = await store.getTraces(chunk.experimentId, [...captures.keys()]);
  const preparedKey = workKeys.batchPrepared(run, chunk.chunk);
  // What the parts before have left; a line that is in both parts is asked once.
  const own = new Set([...captures.keys()].map(recordIdOf));
  const before = part.from === 0 ? undefined : await storage.getJson<PreparedChunk>(bucket, preparedKey);
  const input = part.from === 0 ? undefined : await storage.getText(bucket, inputKeyOf(request));
  const lines = (input?.text ?? '').split(/(?<=\n)/).filter((line) => line !== '' && !own.has(idOf(line)));
  const prepared: PreparedChunk = {
    records: 0,
    bytes: 0,
    deposits: (before?.deposits ?? []).filter(({ name }) => name !== deposit),
    held: (before?.held ?? []).filter((traceId) => !captures.has(traceId)),
    killed: [...(before?.killed ?? []), ...killed],
    elsewhere: { ...before?.elsewhere },
  };
  for (const [traceId, read] of captures) {
    const capture = read();
    const isAlways = (): boolean => always(capture, { variant }) !== undefined;
    const look = { capture, timeMs: timeOf(capture), isAlways };
    const { judge } = pendingVerdicts(traceId, look, stored.get(traceId), scorers, options, run);
    if (judge.length === 0) continue;
    const taken = await journal.take(traceId, judge, deps.judge.sourceId);
    if (taken.open === undefined) {
      prepared.elsewhere[traceId] = taken.claimedBy;
      continue;
    }
    const { open } = taken;
    const asked =
      open.length === 0
        ? undefined
        : requestOf(capture, () => ({
            line: `${JSON.stringify(deps.record(traceId, capture, open))}\n`,
            maxUsd: deps.maxCostUsd(capture, open) ?? 0,
          }));
    if (asked === undefined) continue;
    if (limit !== undefined && !(await limit.setAside(asked.maxUsd))) {
      prepared.held.push(traceId);
      continue;
    }
    lines.push(asked.line);
  }
  const records = lines.join('');
  prepared.records = lines.length;
  prepared.bytes = Buffer.byteLength(records);
  // The answers may come hours later, when no lease of a Lambda is left.
  const made = await limit?.closeWithDeposit(deposit);
  if (made !== undefined && made.scopes.length > 0) prepared.deposits.push(made);
  return { prepared, records };
}

/** A capture whose request cannot be made gets an error when the answers are applied, where the same befalls it. */
function requestOf<T>(capture: Capture, make: () => T): T | undefined {
  try {
    return withinTime(timeOf(capture), make);
  } catch (error) {
    if (ownFault(error) === undefined) throw error;
    return undefined;
  }
}

/** Told apart from the leases of Lambdas by its slash. */
const depositName = (run: string, chunk: number, from: number): string =>
  `batch/${run}/${chunk}${from === 0 ? '' : `/${from}`}`;

const idOf = (line: string): string => (JSON.parse(line) as BatchRecord).recordId;
