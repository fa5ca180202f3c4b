/**
 * Writes the lines of a chunk to MLflow: absent traces with their assessments, and the assessments of existing traces.
 * If several chunks, of one run or several, have the same line, only one writes at a time: MLflow cannot write only
 * absent traces, and a chunk must know what it has written itself.
 */
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { NamedError } from '../../core/contract/receipts.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { ownFault } from '../../core/process/own-fault.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import { MlflowRefusedError } from '../../mlflow/errors.ts';
import type {
  Experiment,
  NewAssessment,
  StoredTrace,
  WriteAssessmentsResult,
  WriteTracesResult,
} from '../../mlflow/types.ts';
import { ownVerdicts } from '../../quality/tally.ts';
import { type ChunkDependencies, isRepeated, isRetry } from '../chunk/attempt.ts';
import { SentTraces } from './sent-traces.ts';

/** A function that has no more than this time does not begin to write, since it would be killed while it writes. */
const WRITE_RESERVE_MS = 30_000;
/** Number of traces whose assessments are written at the same time. The client has its own limit for the requests. */
const RECORDED_AT_ONCE = 8;
const SAVED_AT_ONCE = 32;

/** A line, with the trace and assessments to write for it. */
export interface WriteItem {
  traceId: string;
  /** The trace as it was read first. */
  stored?: StoredTrace | undefined;
  /**
   * The trace, which is written if it is absent or if its spans are incomplete. If not set, an absent trace counts as
   * deleted by a person.
   */
  trace?: TraceRecord | undefined;
  assessments: readonly NewAssessment[];
}

export type WriteOutcome = WrittenTrace | { trace: 'refused'; reason: NamedError };

/** The current state of a trace in MLflow. */
export interface WrittenTrace {
  /** `traced`: written by this chunk of the run, in this or an earlier attempt. `missing`: a person has deleted it. */
  trace: 'traced' | 'alreadyThere' | 'missing';
  /** The trace as it was before, if it existed. */
  stored?: StoredTrace | undefined;
  /** Set if another chunk of this run has the same line, and counts the run's work on it. */
  isOfOtherChunk: boolean;
  /**
   * The assessments without those that a person has deleted, and with an error in place of each assessment that MLflow
   * refused.
   */
  assessments: readonly NewAssessment[];
  /** The ids of the assessments that were written now. */
  written: ReadonlySet<string>;
}

const idsOf = (items: readonly WriteItem[]): string[] => items.map(({ traceId }) => traceId);

const NOTHING = { assessments: [], written: new Set<string>() };

const asWritten = (assessments: readonly NewAssessment[]): WrittenTrace => ({
  trace: 'traced',
  isOfOtherChunk: false,
  assessments,
  written: new Set(assessments.map(({ assessmentId }) => assessmentId)),
});

export class ChunkWriter {
  readonly #request: ChunkRequest;
  readonly #deps: ChunkDependencies;
  readonly #sent: SentTraces;
  #experiment: Promise<Experiment> | undefined;

  constructor(request: ChunkRequest, deps: ChunkDependencies) {
    this.#request = request;
    this.#deps = deps;
    this.#sent = new SentTraces(deps.table, request, deps.requestId);
  }

  /** Returns the existing traces by id, and reads what was sent for them before. */
  async existing(traceIds: readonly string[]): Promise<Map<string, StoredTrace>> {
    await this.#sent.read(traceIds);
    return this.#read(traceIds);
  }

  /**
   * Returns the traces whose spans may be incomplete, because a killed attempt may have written them. A trace that an
   * attempt has saved as sent has its spans.
   */
  async incomplete(existing: readonly StoredTrace[]): Promise<Set<string>> {
    const mayBe = this.#mends ? existing : existing.filter(({ lacksSpans }) => lacksSpans);
    await this.#sent.read(mayBe.map(({ traceId }) => traceId));
    return new Set(mayBe.filter((stored) => this.#isIncomplete(stored)).map(({ traceId }) => traceId));
  }

  /** Whether an earlier attempt may have left the spans of existing traces incomplete. */
  get #mends(): boolean {
    return isRepeated(this.#request) || isRetry(this.#request);
  }

  #isIncomplete({ traceId, lacksSpans }: StoredTrace): boolean {
    return lacksSpans === true || (this.#mends && !this.#sent.isOfChain(traceId));
  }

  /**
   * Writes absent traces and assessments.
   *
   * @param settle is called with the outcome and the revision of each item, in no order. After a failure, it is called
   *   for the items that MLflow has accepted
   * @throws RetryableError `LockTaken` if another chunk writes one of the traces until this function ends; `LockLost`
   *   if this function was suspended while it wrote; the errors of MLflow's client
   */
  async write<Item extends WriteItem>(
    items: readonly Item[],
    settle: (item: Item, outcome: WriteOutcome, revision: number) => void = () => undefined,
  ): Promise<void> {
    const tell = (item: Item, outcome: WriteOutcome) => settle(item, outcome, this.#sent.revisionOf(item.traceId));
    // If this run has already written it, another chunk may be writing it at the moment.
    const isOpen = ({ trace, assessments, stored }: Item): boolean =>
      trace !== undefined || assessments.length > 0 || (stored !== undefined && this.#hasWritten(stored));
    const open = items.filter(isOpen);
    for (const item of items) if (!isOpen(item)) tell(item, this.#found(item.stored));
    const write = async (claimed: ReadonlySet<string>, assertHeld: () => void): Promise<void> => {
      const got = open.filter(({ traceId }) => claimed.has(traceId));
      const found = await this.#read(idsOf(got));
      const written = this.#write(got, found, assertHeld).catch(async (error: unknown) => {
        // If an item cannot be read back now, the next run over its line finds it.
        for (const [item, outcome] of await this.#taken(got, found).catch(() => [])) tell(item, outcome);
        throw error;
      });
      for (const [item, outcome] of await written) tell(item, outcome);
    };
    await this.#sent.claimed(idsOf(open), write, Date.now() + this.#deps.remainingMs() - WRITE_RESERVE_MS);
  }

  /** Reads back and saves what MLflow has accepted of items whose writing failed. */
  async #taken<Item extends WriteItem>(
    items: readonly Item[],
    found: ReadonlyMap<string, StoredTrace>,
  ): Promise<[Item, WrittenTrace][]> {
    const now = await this.#read(idsOf(items));
    const taken = items.flatMap((item): [Item, WrittenTrace][] => {
      const [before, stored] = [found.get(item.traceId), now.get(item.traceId)];
      const state = this.#found(stored);
      const assessments = item.assessments.filter((one) => isStored(one, stored));
      const news = assessments.filter((one) => !isStored(one, before));
      if (state.trace !== 'traced' && news.length === 0) return [];
      const written = new Set(news.map(({ assessmentId }) => assessmentId));
      const isNew = state.trace === 'traced' && before === undefined;
      const outcome = { ...state, stored: isNew ? undefined : (before ?? stored), assessments, written };
      return [[{ ...item, assessments }, outcome]];
    });
    // Traces that may lack spans are not saved, so that they are mended, as after a kill.
    const incomplete = this.#incompleteIn(items, found);
    const whole = taken.filter(([{ traceId }]) => !incomplete.has(traceId));
    await this.#save(whole, new Map());
    return taken;
  }

  /** Whether this run has written a trace or verdicts of it, in any of its chunks. */
  #hasWritten({ info, assessments }: StoredTrace): boolean {
    return info?.run === this.#request.run || ownVerdicts(this.#request.run, assessments).length > 0;
  }

  async #write<Item extends WriteItem>(
    items: readonly Item[],
    found: ReadonlyMap<string, StoredTrace>,
    assertHeld: () => void,
  ): Promise<[Item, WriteOutcome][]> {
    const { refused, ...created } = await this.#create(items, found, assertHeld);
    const incomplete = this.#incompleteIn(items, found);
    refused.push(...(await this.#mend([...incomplete.values()], assertHeld)));
    const isRefused = new Map(refused.map(({ traceId, reason }) => [traceId, reason]));
    const isNew = (id: string): boolean => created.written.includes(id) && !created.bare.includes(id);
    // These were written without assessments, or by a writer outside this lock, such as another stack.
    const late = new Set([...created.bare, ...created.alreadyThere]);
    const again = await this.#read(idsOf(items).filter((traceId) => late.has(traceId)));
    const outcomes: [Item, WriteOutcome][] = [];
    await forEachConcurrently(RECORDED_AT_ONCE, items, async (item) => {
      const { traceId } = item;
      const reason = isRefused.get(traceId);
      const write = (): WriteOutcome | Promise<WriteOutcome> => {
        if (reason !== undefined) return { trace: 'refused', reason };
        if (isNew(traceId)) return asWritten(item.assessments);
        return this.#record(item, found.get(traceId) ?? again.get(traceId), assertHeld);
      };
      outcomes.push([item, await write()]);
    });
    await this.#save(outcomes, incomplete);
    return outcomes;
  }

  /** Returns the traces of items whose spans may be incomplete in MLflow, by id. */
  #incompleteIn(items: readonly WriteItem[], found: ReadonlyMap<string, StoredTrace>): Map<string, TraceRecord> {
    return new Map(
      items.flatMap(({ traceId, trace }) => {
        const stored = found.get(traceId);
        return trace && stored && this.#isIncomplete(stored) ? [[traceId, trace] as const] : [];
      }),
    );
  }

  #read(ids: readonly string[]): Promise<Map<string, StoredTrace>> {
    return ids.length === 0
      ? Promise.resolve(new Map())
      : this.#deps.store.getTraces(this.#request.chunk.experimentId, ids);
  }

  async #create(
    items: readonly WriteItem[],
    found: ReadonlyMap<string, StoredTrace>,
    assertHeld: () => void,
  ): Promise<WriteTracesResult> {
    const absent = items.filter(({ traceId }) => !found.has(traceId) && !this.#sent.isWritten(traceId));
    const traces = absent.flatMap(({ trace }) => trace ?? []);
    if (traces.length === 0) return { written: [], alreadyThere: [], bare: [], refused: [] };
    const assessmentsOf = new Map(absent.map(({ traceId, assessments }) => [traceId, assessments]));
    return this.#deps.store.writeTraces(await this.#resolved(), traces, assessmentsOf, { areAbsent: true, assertHeld });
  }

  /** Adds the spans of existing traces that lack them. */
  async #mend(traces: readonly TraceRecord[], assertHeld: () => void): Promise<WriteTracesResult['refused']> {
    if (traces.length === 0) return [];
    const experiment = await this.#resolved();
    assertHeld();
    return this.#deps.store.mendTraces(experiment, traces);
  }

  #resolved(): Promise<Experiment> {
    this.#experiment ??= this.#deps.store.getExperiment(this.#request.chunk.experimentId);
    return this.#experiment;
  }

  /** Writes the assessments of an existing trace, without those that a person has deleted. */
  async #record(
    { assessments }: WriteItem,
    stored: StoredTrace | undefined,
    assertHeld: () => void,
  ): Promise<WrittenTrace> {
    const outcome = this.#found(stored);
    if (stored === undefined) return { ...outcome, assessments };
    const wanted = assessments.filter(({ assessmentId }) => !this.#sent.wasDeleted(stored, assessmentId));
    const recorded = await recordAssessments(this.#deps.store, stored, wanted, assertHeld);
    if (recorded.traceMissing) return { ...NOTHING, trace: 'missing', isOfOtherChunk: false, assessments };
    return { ...outcome, assessments: recorded.assessments, written: new Set(recorded.written) };
  }

  /** Returns the outcome of a trace that needs no writing. */
  #found(stored: StoredTrace | undefined): WrittenTrace {
    if (stored === undefined) return { ...NOTHING, trace: 'missing', isOfOtherChunk: false };
    const isOfRun = stored.info?.run === this.#request.run;
    const isOfOtherChunk = this.#sent.countedBy(stored.traceId) === 'another';
    return { ...NOTHING, trace: isOfRun && !isOfOtherChunk ? 'traced' : 'alreadyThere', stored, isOfOtherChunk };
  }

  /**
   * Saves what MLflow has accepted. A trace that was mended, or that the run has written but no chunk has saved, may
   * come from an attempt that was killed before it saved the trace. Its contents then count as sent, and this chunk
   * counts them.
   */
  async #save(outcomes: readonly [WriteItem, WriteOutcome][], mended: ReadonlyMap<string, TraceRecord>): Promise<void> {
    await forEachConcurrently(SAVED_AT_ONCE, outcomes, async ([{ traceId }, outcome]) => {
      if (outcome.trace === 'refused') return;
      const { trace, stored, written } = outcome;
      const isLeft = stored !== undefined && this.#hasWritten(stored) && this.#sent.countedBy(traceId) === undefined;
      const isTaken = isLeft || (stored !== undefined && mended.has(traceId));
      const isNew = trace === 'traced' && stored === undefined;
      const before = isTaken ? stored.assessments.map(({ assessmentId }) => assessmentId) : [];
      if (isNew || isTaken || written.size > 0) await this.#sent.save(traceId, [...before, ...written]);
    });
  }
}

/** Whether MLflow has an assessment, and no error in its place. */
const isStored = ({ assessmentId, error }: NewAssessment, trace: StoredTrace | undefined): boolean =>
  trace?.assessments.some(
    (stored) => stored.assessmentId === assessmentId && (stored.errorCode === undefined) === (error === undefined),
  ) ?? false;

interface Recorded extends Omit<WriteAssessmentsResult, 'alreadyThere'> {
  /** The current assessments in MLflow, unless the trace is missing. */
  assessments: readonly NewAssessment[];
}

/** Returns an error assessment in place of an assessment that MLflow refuses. */
function refusedAssessment({ value: _, rationale: __, ...rest }: NewAssessment, fault: string): NewAssessment {
  return { ...rest, error: { code: 'AssessmentRefused', message: fault } };
}

/** Writes the assessments of an existing trace, with an error in place of each assessment that MLflow refuses. */
async function recordAssessments(
  store: Pick<TraceStore, 'writeAssessments'>,
  stored: StoredTrace,
  assessments: readonly NewAssessment[],
  assertHeld?: () => void,
): Promise<Recorded> {
  const [only, ...others] = assessments;
  if (only === undefined) return { assessments, written: [] };
  try {
    return { assessments, ...(await store.writeAssessments(stored, assessments, { assertHeld })) };
  } catch (error) {
    const fault = error instanceof MlflowRefusedError ? `MLflow answered HTTP ${error.status}` : ownFault(error);
    if (fault === undefined) throw error;
    if (others.length === 0) {
      const refused = [refusedAssessment(only, fault)];
      return { assessments: refused, ...(await store.writeAssessments(stored, refused, { assertHeld })) };
    }
  }
  // MLflow refused at least one assessment. Written one by one, only that one is affected.
  const total = { assessments: [] as NewAssessment[], written: [] as string[] };
  for (const assessment of assessments) {
    const one = await recordAssessments(store, stored, [assessment], assertHeld);
    if (one.traceMissing) return { ...one, assessments };
    total.assessments.push(...one.assessments);
    total.written.push(...one.written);
  }
  return total;
}
