/** The first phase of a chunk in batch inference: writes the requests to the judge, and reserves their money. */

import type { Capture } from '../../captures/types.ts';
import { removeObject } from '../../core/aws/remove-object.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { unlessFaulty } from '../../core/process/own-fault.ts';
import { timeOf } from '../../core/process/within-time.ts';
import type { BatchJudging } from '../../judge/connect.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import { questionOf } from '../../judge/question.ts';
import { chancesOf } from '../../judge/scorers/chances.ts';
import { isModelScorer } from '../../judge/scorers/scorer-set.ts';
import { addSpend, emptySpend } from '../../judge/spend.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import type { Budget } from '../../limits/budget.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import { type HeavyCaptures, heavyCapturesOf } from '../chunk/heavy-captures.ts';
import { LineAtWork } from '../chunk/line-at-work.ts';
import { AnswerTable } from '../evaluate/answer-table.ts';
import { type AskedJob, knownVerdicts } from '../evaluate/answers.ts';
import { NO_TRACE_YET, pendingVerdicts } from '../evaluate/pending-verdicts.ts';
import { type HeavyLine, readCaptures } from '../evaluate/read-captures.ts';
import type { EvaluateDependencies } from '../evaluate/types.ts';
import { createsTraces } from '../write/sent-traces.ts';
import { readJobs } from './answers.ts';
import { groupOf, MAX_INPUT_BYTES, type PreparedChunk } from './groups.ts';

interface PrepareDependencies
  extends Omit<EvaluateDependencies, 'store' | 'limit' | 'table'>,
    Pick<BatchJudging, 'askCanary' | 'record' | 'maxCostUsd'> {
  store: Pick<TraceStore, 'getTraces'>;
  /** Absent when no budget is set. */
  limit?: Budget;
}

/** A line of the input of a job. */
interface JobRequest {
  question: string;
  line: string;
  maxUsd: number;
}

/** Writes the judge’s requests for a chunk to the input of a batch job. Writes nothing to MLflow. */
export async function prepareChunk(request: ChunkRequest, deps: PrepareDependencies) {
  const { storage, environment, limit } = deps;
  const { run, chunk } = request;
  const deposit = `batch/${run}/${chunk.chunk}`;
  const bucket = environment.WORK_BUCKET;
  const heavy = heavyCapturesOf(request, { environment }, deps.scorers);
  const input = workKeys.batchInput(run, groupOf(chunk.chunk), chunk.chunk);
  const key = workKeys.batchPrepared(run, chunk.chunk);
  // A job pays for every request in its input, so remove an earlier attempt's input before its money is returned.
  await removeObject(storage, bucket, input);
  try {
    await limit?.dropDeposit(deposit);
    const canary = await askCanary(deps, key);
    const atWork = await LineAtWork.open(request, deps);
    const requests = await atWork.during(() => findRequests(request, deps, { atWork, heavy }));
    // The answers may come hours later, when this Lambda has ended.
    const made = await limit?.setAside(
      deposit,
      requests.map(({ maxUsd }) => maxUsd),
    );
    const asked = requests.filter((_, index) => made?.hasRoom[index] !== false);
    const held = requests.filter((one) => !asked.includes(one)).map(({ question }) => question);
    const prepared = { records: asked.length, deposit: made?.deposit, held, canary };
    await storage.putJson(bucket, key, prepared);
    const text = asked.map(({ line }) => `${line}\n`).join('');
    // Last: now the money of all requests is reserved, and accounted for.
    if (text !== '') await storage.putText(bucket, input, text, 'application/jsonlines');
    return prepared;
  } catch (error) {
    // Without the input, the money reserved so far will not be spent.
    await removeObject(storage, bucket, input)
      .then(() => limit?.dropDeposit(deposit))
      .catch(() => undefined);
    throw error;
  } finally {
    heavy.close();
  }
}

/**
 * Returns the cost of harmless questions in all attempts. The cost is stored before the attempt continues, because the
 * attempt may fail. Without room for one question there is no room for the requests.
 */
async function askCanary(
  { askCanary: ask, storage, environment: { WORK_BUCKET: bucket }, limit }: PrepareDependencies,
  key: string,
): Promise<JudgeSpend> {
  const { canary = emptySpend() } = (await storage.getJson<PreparedChunk>(bucket, key)) ?? {};
  let failure: unknown;
  const spend = await ask({ limit }).catch((error: unknown) => {
    if (!(error instanceof JudgeHeld)) failure = error;
    return answeredBefore(error).spend;
  });
  addSpend(canary, spend);
  if (spend.calls > 0) await storage.putJson(bucket, key, { canary, held: [] });
  if (failure !== undefined) throw failure;
  await limit?.close();
  return canary;
}

/** Finds the questions that earlier runs of the chain have no answer to, and that no other chunk of this run asks. */
async function findRequests(
  request: ChunkRequest,
  deps: PrepareDependencies,
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
): Promise<JobRequest[]> {
  const { store, scorers, always } = deps;
  const answers = new AnswerTable(request, deps);
  const { run, options, chunk } = request;
  const all = await readCaptures(request, deps, { heavy, atWork });
  await atWork.traced();
  const traceIds = [...all.captures, ...all.heavy].map(({ traceId }) => traceId);
  const stored = await store.getTraces(request.chunk.experimentId, traceIds);
  const answersOf = readJobs({ storage: deps.storage, workBucket: deps.environment.WORK_BUCKET });
  const isAnswered = async (question: string, job: AskedJob): Promise<boolean> =>
    typeof (await answersOf(job.run, job.chunk))?.get(question) === 'object';
  const requests = new Map<string, JobRequest>();
  let bytes = 0;
  const beforeHeavy = async ({ raw }: HeavyLine): Promise<void> => {
    if (atWork.isEach) await atWork.begin(raw.place);
  };
  for await (const { traceId, raw, read, notTraffic, range } of eachOf(all.portions(beforeHeavy))) {
    if (atWork.isEach) await atWork.begin(raw.place);
    const capture = read();
    const rule = () => always(capture, raw.place.key);
    const view = { capture, timeMs: timeOf(capture), rule, notTraffic };
    // An absent trace is written with the answers of the job.
    const trace = stored.get(traceId) ?? (createsTraces(request) ? NO_TRACE_YET : undefined);
    const how = { ...options, chances: chancesOf(options, chunk.ranges[range]) };
    const { judge } = pendingVerdicts(traceId, view, trace, scorers.filter(isModelScorer), how, run);
    // The second phase meets the fault that a capture provokes, and records the error.
    const digest = () => questionOf(deps.judge.sourceId, capture);
    const question = judge.length === 0 ? undefined : unlessFaulty(view.timeMs, digest, () => undefined);
    if (question === undefined || requests.has(question)) continue;
    const kept = await answers.acquireForJob(question, traceId, (job) => isAnswered(question, job));
    if (kept === 'claimed') continue;
    const known = new Set(knownVerdicts(kept, { run, traceId }, judge).map(({ scorer }) => scorer));
    const open = judge.filter(({ name }) => !known.has(name));
    const asked = open.length === 0 ? undefined : requestOf(question, capture, open, deps);
    bytes += asked === undefined ? 0 : Buffer.byteLength(asked.line) + 1;
    if (asked !== undefined && bytes <= MAX_INPUT_BYTES) requests.set(question, asked);
  }
  return [...requests.values()];
}

function requestOf(
  question: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  { record, maxCostUsd, limit }: PrepareDependencies,
): JobRequest | undefined {
  const made = () => {
    const maxUsd = maxCostUsd(capture, scorers);
    if (limit !== undefined && maxUsd === null) return undefined;
    return { question, line: JSON.stringify(record(question, capture, scorers)), maxUsd: maxUsd ?? 0 };
  };
  return unlessFaulty(timeOf(capture), made, () => undefined);
}

async function* eachOf<T>(portions: AsyncIterable<T[]>): AsyncGenerator<T> {
  for await (const portion of portions) yield* portion;
}
