/** Evaluates one chunk: the judge and the code scorers assess its traces. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChunkRequest } from '../../contract/payloads.ts';
import type { EvaluateReceipt, NamedError, TakenOver, UnreadRange } from '../../contract/receipts.ts';
import { capturePathOf } from '../../formats/files/capture-path.ts';
import type { Capture } from '../../formats/types.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { RetryableError } from '../../shared/errors.ts';
import { addSpend } from '../counts.ts';
import { attemptFacts, withReceipt } from '../receipts.ts';
import { AnswerJournal } from './answer-journal.ts';
import { CaptureAssessor, type Work } from './assess-capture.ts';
import { failedAssessment } from './assessments.ts';
import { WeightGate } from './held-captures.ts';
import { pendingVerdicts } from './pending-verdicts.ts';
import { readCaptures } from './read-captures.ts';
import type { EvaluateDependencies } from './types.ts';
import { VerdictTally } from './verdict-tally.ts';

/**
 * Captures in progress at the same time. The judge’s own limiter decides how many calls are in flight; this number keeps
 * it busy while other captures write their verdicts to MLflow.
 */
const CAPTURES_AT_ONCE = 48;

/** Time reserved to write the verdicts of the calls in flight, and the receipt. */
const FINISH_RESERVE_MS = 45_000;

/** How often to check for the answer to a line that another chunk contains too. */
const CLAIM_POLL_MS = 1_000;

/** A capture that waits for its turn. */
type PlannedWork = Omit<Work, 'capture'> & { weight: number; read(): Capture };

/**
 * Assesses the traces of the chunk, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written. The verdicts that were answered by then
 *   are in MLflow, and the next attempt does not ask for them again.
 */
export async function evaluateChunk(request: ChunkRequest, deps: EvaluateDependencies): Promise<EvaluateReceipt> {
  const { storage, environment } = deps;
  return withReceipt(storage, environment.WORK_BUCKET, new EvaluateChunk(request, deps));
}

class EvaluateChunk {
  readonly #request: ChunkRequest;
  readonly #deps: EvaluateDependencies;
  readonly #startedAt = new Date().toISOString();
  readonly #journal: AnswerJournal;
  readonly #tally: VerdictTally;
  readonly #takenOver: TakenOver[] = [];
  #unread: UnreadRange[] = [];
  readonly #assessor: CaptureAssessor;
  /** The first failure that ends the chunk. Captures in progress finish, and no further one starts. */
  #stop: unknown;

  constructor(request: ChunkRequest, deps: EvaluateDependencies) {
    this.#request = request;
    this.#deps = deps;
    const { storage, environment, requestId, remainingMs } = deps;
    this.#tally = new VerdictTally(request.chunk.ranges.length);
    const until = Date.now() + remainingMs();
    this.#journal = new AnswerJournal(storage, environment.WORK_BUCKET, request, requestId, until);
    this.#assessor = new CaptureAssessor(request.run, deps, this.#journal, this.#tally);
  }

  async run(): Promise<void> {
    const { limit } = this.#deps;
    try {
      await this.#evaluate();
    } catch (error) {
      // A reservation that is not given back expires. The failure of the chunk is the one to report.
      await limit?.close().catch(() => undefined);
      throw error;
    }
    await limit?.close();
  }

  async #evaluate(): Promise<void> {
    this.#assessor.batch = await this.#deps.openBatch?.();
    let work = await this.#plan();
    const gate = new WeightGate();
    const signal = AbortSignal.timeout(Math.max(1, this.#deps.remainingMs() - FINISH_RESERVE_MS));
    for (;;) {
      work = await this.#assessAll(work, gate, signal);
      if (this.#stop !== undefined) throw this.#stop;
      if (work.length === 0) return;
      // Another chunk is asking about the same line. Its answer is here within seconds, or its function has ended.
      await sleep(CLAIM_POLL_MS);
    }
  }

  /** @returns the captures that another chunk is asking the judge about now */
  async #assessAll(work: readonly PlannedWork[], gate: WeightGate, signal: AbortSignal): Promise<PlannedWork[]> {
    const claimed: PlannedWork[] = [];
    await forEachConcurrently(CAPTURES_AT_ONCE, work, async (item) => {
      if (this.#stop !== undefined) return;
      try {
        signal.throwIfAborted();
        const { read, weight, ...rest } = item;
        const assess = () => this.#assessor.assess({ ...rest, capture: read() }, signal);
        if (!(await gate.pass(weight, assess))) claimed.push(item);
      } catch (error) {
        this.#stop ??= signal.aborted ? this.#outOfTime(error) : error;
      }
    });
    return claimed;
  }

  #outOfTime(cause?: unknown): RetryableError {
    const facts = { where: `chunk ${this.#request.chunk.chunk} of run ${this.#request.run}` };
    return new RetryableError('ChunkOutOfTime', 'The chunk takes longer than this Lambda has', facts, cause);
  }

  /** Reads the captures of the chunk, and settles everything that does not need the judge. */
  async #plan(): Promise<PlannedWork[]> {
    const { store, scorers, always } = this.#deps;
    const { options, run } = this.#request;
    const part = await readCaptures(this.#request, this.#deps, this.#assessor.batch?.killed);
    const { chunk, captures, condemned } = part;
    this.#unread = part.unread;
    const ids = [...captures, ...condemned].map(({ traceId }) => traceId);
    await this.#journal.takeOverUnreported(ids, this.#takenOver);
    const stored = await store.getTraces(chunk.experimentId, ids);
    // A record whose trace MLflow refused is in quarantine: it is not a traced line, and needs no verdict.
    const isTraced = ({ traceId, id }: { traceId: string; id: string }): boolean =>
      stored.has(traceId) || !part.quarantined.has(id);
    for (const line of condemned.filter(isTraced)) await this.#condemn(line, stored.get(line.traceId));
    const traced = captures.filter(isTraced);
    for (const { range } of part.duplicates.filter(isTraced)) {
      this.#tally.trace(range);
      this.#tally.settle(range, 'duplicateLine', scorers.length);
    }
    const work: PlannedWork[] = [];
    for (const { traceId, range, key, read, weight } of traced) {
      this.#tally.trace(range);
      const capture = read();
      const { variant } = capturePathOf(key);
      const trace = stored.get(traceId);
      const isAlways = (): boolean => always(capture, { variant }) !== undefined;
      const look = { capture, timeMs: this.#assessor.timeMsOf(capture), isAlways };
      const pending = pendingVerdicts(traceId, look, trace, scorers, options, run);
      this.#tally.settled(range, pending);
      if (pending.settled.alreadyThere > 0) this.#assessor.evaluated.add(traceId);
      if (trace !== undefined && pending.judge.length + pending.code.length + pending.failed.length > 0) {
        work.push({ traceId, range, read, weight, stored: trace, pending });
      }
    }
    return work;
  }

  /** Records an error for each scorer without a verdict, for a line that must not be decoded because it kills the function. */
  async #condemn(
    { traceId, range, reason }: { traceId: string; range: number; reason: NamedError },
    stored: StoredTrace | undefined,
  ): Promise<void> {
    const { judge, scorers } = this.#deps;
    const { run, options } = this.#request;
    const keepVerdicts = { ...options, reevaluate: false };
    const pending = pendingVerdicts(traceId, undefined, stored, scorers, keepVerdicts, run);
    this.#tally.trace(range);
    this.#tally.settled(range, pending);
    const context = this.#assessor.contextOf({ traceId, pending });
    const errors = [...pending.judge, ...pending.code].map((scorer) =>
      failedAssessment(scorer, judge.sourceId, context, reason.message, reason.name),
    );
    if (stored !== undefined) await this.#assessor.record(range, stored, errors);
  }

  receipt(failure: unknown): EvaluateReceipt {
    const { batch, evaluated } = this.#assessor;
    const spend = { ...this.#assessor.spend };
    for (const taken of this.#takenOver) addSpend(spend, taken.spend);
    return {
      step: 'evaluate',
      ...attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure),
      scorers: this.#deps.scorers.length,
      ...(this.#unread.length === 0 ? {} : { unread: this.#unread }),
      evaluatedTraces: evaluated.size,
      ...this.#tally.receipt(),
      spend,
      ...(this.#takenOver.length === 0 ? {} : { takenOver: this.#takenOver }),
      ...(batch === undefined ? {} : { batchSpend: batch.spend }),
    };
  }
}
