/**
 * Writes what was found out about captures to MLflow: a trace that is absent together with its verdicts, and the verdicts of
 * a trace that exists one by one. Before that, it saves the judge’s answers.
 */

import type { CaptureRange, ChunkRequest, ManifestLine } from '../../core/contract/payloads.ts';
import { forEachConcurrently, ownTurn } from '../../core/process/concurrency.ts';
import { weightAtOnce } from '../../core/process/memory.ts';
import type { NewAssessment, StoredTrace } from '../../mlflow/types.ts';
import { scorerSample } from '../../quality/sample.ts';
import {
  type CaptureFacts,
  isFirstToEvaluate,
  judgedLater,
  type QualityTally,
  verdictsOfRun,
} from '../../quality/tally.ts';
import type { LineBook } from '../log/line-book.ts';
import { TraceBatch } from '../log/trace-batch.ts';
import type { AnswerJournal } from './answer-journal.ts';
import type { CaptureOutcome } from './assess-capture.ts';
import type { WeightGate } from './held-captures.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { ReadCapture } from './read-captures.ts';
import { recordAssessments } from './record-assessments.ts';
import type { EvaluateDependencies } from './types.ts';
import type { VerdictTally } from './verdict-tally.ts';

/** A capture, and what is to be done about it. */
export interface PlannedWork extends ReadCapture {
  pending: PendingVerdicts;
  facts: CaptureFacts;
  /** The trace in MLflow; absent if it is to be written. */
  stored?: StoredTrace | undefined;
  /** It must not be decoded, because it kills the function. */
  isCondemned?: true;
}

interface Finished {
  work: PlannedWork;
  /** Absent if the capture was not judged: only its trace is written, if it is absent. */
  outcome: CaptureOutcome;
}

/**
 * Captures that are written together: one OTLP request, and one reading of what exists. The first batches are smaller, since MLflow is
 * slower than most judges and is to work from the judge's first answers on. More batches would cost requests, and larger ones memory.
 */
const AT_ONCE = { first: 12, growth: 3, most: 50 };
/** While one batch waits for MLflow, the next is read and built. */
const BATCHES_AT_ONCE = 2;
/** Traces whose verdicts are written at the same time. The client has its own limit for the requests. */
const RECORDED_AT_ONCE = 8;

interface Parts {
  journal: AnswerJournal;
  tally: VerdictTally;
  quality: QualityTally;
  gate: WeightGate;
  /** Absent if no trace is to be written. */
  book: LineBook | undefined;
}

export class VerdictWriter {
  /** The first failure. After it nothing is written any more. */
  failure: unknown;
  /** Traces that have a verdict, a new one or an older one. */
  readonly evaluated = new Set<string>();
  readonly #chunk: ManifestLine;
  readonly #deps: EvaluateDependencies;
  readonly #journal: AnswerJournal;
  readonly #tally: VerdictTally;
  readonly #run: string;
  readonly #quality: QualityTally;
  readonly #gate: WeightGate;
  readonly #book: LineBook | undefined;
  #waiting: Finished[] = [];
  #weight = 0;
  #atOnce = AT_ONCE.first;
  readonly #writing: Promise<void>[] = [];

  constructor({ run, chunk }: ChunkRequest, deps: EvaluateDependencies, parts: Parts) {
    this.#run = run;
    this.#chunk = chunk;
    this.#deps = deps;
    this.#journal = parts.journal;
    this.#tally = parts.tally;
    this.#quality = parts.quality;
    this.#gate = parts.gate;
    this.#book = parts.book;
  }

  /**
   * Adds a capture, which is written with the next batch. Waits while a whole batch is waiting for MLflow: judging further ahead
   * would only take memory, and processor time that the writing needs.
   */
  async add(work: PlannedWork, outcome: CaptureOutcome): Promise<void> {
    this.#waiting.push({ work, outcome });
    this.#weight += work.weight;
    if (this.#waiting.length >= this.#atOnce || this.#weight >= weightAtOnce()) {
      this.#start();
      this.#atOnce = Math.min(AT_ONCE.most, AT_ONCE.growth * this.#atOnce);
    }
    await this.#writing.at(-BATCHES_AT_ONCE - 1);
  }

  /**
   * Writes the rest, and waits until everything is written.
   *
   * @throws the first failure to write; by then the answers are saved, unless that failed too
   */
  async end(): Promise<void> {
    await this.flush();
    await this.#journal.save().catch((error: unknown) => {
      this.failure ??= error;
    });
    if (this.failure !== undefined) throw this.failure;
  }

  /** Writes what waits. A failure is thrown by `end`. */
  async flush(): Promise<void> {
    this.#start();
    await Promise.all(this.#writing);
  }

  #start(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#weight = 0;
    const before = this.#writing.at(-BATCHES_AT_ONCE) ?? Promise.resolve();
    const written = before.then(async () => {
      if (this.failure === undefined && batch.length > 0) await this.#write(batch);
    });
    this.#writing.push(
      written.catch((error: unknown) => {
        this.failure ??= error;
      }),
    );
  }

  async #write(batch: readonly Finished[]): Promise<void> {
    const absent = batch.filter(({ work }) => work.stored === undefined);
    const posts = absent.map(({ work, outcome }) => [work.traceId, idsOf(outcome.assessments)]);
    await this.#journal.savePosts(Object.fromEntries(posts));
    const late = absent.length === 0 ? new Set<string>() : await this.#create(absent);
    const created = await this.#storedOf(late);
    await this.#mend(batch);
    await this.#learn(batch, created);
    await forEachConcurrently(RECORDED_AT_ONCE, batch, async ({ work, outcome }) => {
      if (this.#book?.refused.has(work.traceId)) return;
      const isNew = work.stored === undefined && !late.has(work.traceId);
      const stored = work.stored ?? created.get(work.traceId);
      if (isNew) for (const assessment of outcome.assessments) this.#tally.recorded(work.range, assessment);
      const written = isNew ? outcome.assessments : await this.#record(work, created.get(work.traceId), outcome);
      this.#count(work, outcome, isNew);
      if (isNew || written !== undefined) this.#countQuality(work, outcome, stored, written ?? []);
    });
  }

  /** Writes absent traces with their verdicts. @returns those whose verdicts must be written one by one */
  async #create(absent: readonly Finished[]): Promise<Set<string>> {
    const book = this.#book as LineBook;
    const assessmentsOf = new Map(absent.map(({ work, outcome }) => [work.traceId, outcome.assessments]));
    const batch = new TraceBatch(book, assessmentsOf);
    const weight = absent.reduce((sum, { work }) => sum + work.weight, 0);
    await this.#gate.pass(weight, async () => {
      for (const { work } of absent) {
        await ownTurn();
        await batch.add({ ...work, capture: work.read() });
      }
      await batch.flush();
    });
    return new Set([...batch.there, ...batch.bare]);
  }

  async #storedOf(traceIds: ReadonlySet<string>): Promise<Map<string, StoredTrace>> {
    return traceIds.size === 0 ? new Map() : this.#deps.store.getTraces(this.#chunk.experimentId, [...traceIds]);
  }

  /**
   * Learns what another run has sent for traces that lack verdicts: a person may have deleted these.
   *
   * @param created traces that were absent when they were read first
   */
  async #learn(batch: readonly Finished[], created: ReadonlyMap<string, StoredTrace>): Promise<void> {
    const lacking = batch.filter(
      ({ work: { traceId, stored = created.get(traceId) }, outcome: { assessments } }) =>
        stored !== undefined && assessments.some(({ overrides }) => overrides === undefined),
    );
    if (lacking.length === 0) return;
    const ranges = new Set(lacking.map(({ work }) => this.#chunk.ranges[work.range] as CaptureRange));
    await this.#journal.learnPosts((await this.#deps.turns?.lastWriters([...ranges])) ?? new Set());
  }

  /** Repairs the spans of traces that an attempt which was killed may have left incomplete. */
  async #mend(batch: readonly Finished[]): Promise<void> {
    const book = this.#book;
    if (book === undefined) return;
    for (const { work } of batch) {
      if (work.stored === undefined || work.isCondemned) continue;
      // What an attempt has saved as written has its spans.
      const mayLack = book.mends && !this.#journal.isWritten(work.traceId);
      if (!mayLack && !work.stored.lacksSpans) continue;
      await this.#gate.pass(work.weight, () => book.mend({ ...work, capture: work.read() }));
    }
  }

  /**
   * Writes the assessments of a trace that exists, and counts them.
   *
   * @param created the trace if it was absent when it was read first
   * @returns those written; `undefined` without a trace
   */
  async #record(
    work: PlannedWork,
    created: StoredTrace | undefined,
    outcome: CaptureOutcome,
  ): Promise<NewAssessment[] | undefined> {
    const { traceId, range } = work;
    const stored = work.stored ?? created;
    const all = stored === undefined ? outcome.assessments : this.#wanted(work, stored, outcome);
    const { assessments, written, traceMissing } =
      stored === undefined
        ? { assessments: all, written: [], traceMissing: true }
        : await recordAssessments(this.#deps.store, stored, all);
    if (!traceMissing && all.length > 0) this.#journal.keepRecorded(traceId, idsOf(assessments));
    const news = new Set(written);
    for (const assessment of assessments) {
      // An error assessment from an earlier attempt is still a failed verdict.
      const isRecorded = news.has(assessment.assessmentId) || assessment.error !== undefined;
      if (traceMissing) this.#tally.notJudgeable(range, 'traceMissing');
      else if (isRecorded) this.#tally.recorded(range, assessment);
      else this.#tally.settle(range, 'alreadyThere');
    }
    if (traceMissing) return undefined;
    if (assessments.some(({ error }) => error === undefined)) this.evaluated.add(traceId);
    return assessments.filter(({ assessmentId }) => news.has(assessmentId));
  }

  /** Counts what this run has done with a capture, in this attempt and in those before. */
  #countQuality(
    { traceId, facts, pending }: PlannedWork,
    { assessments, held }: CaptureOutcome,
    stored: StoredTrace | undefined,
    written: readonly NewAssessment[],
  ): void {
    const run = this.#run;
    const before = stored?.assessments ?? [];
    const isWritten = stored === undefined || stored.info?.run === run;
    const own = verdictsOfRun(run, before, written);
    const isFirst = isWritten || isFirstToEvaluate(run, before);
    const judges = new Set(pending.judge.map(({ name }) => name));
    const answered = assessments.filter(({ name, error }) => judges.has(name) && error === undefined).length;
    const failed = pending.judge.length + pending.failed.length - answered - held;
    this.#quality.add({
      traceId,
      facts,
      isWritten,
      ...own,
      judgeable: isFirst
        ? pending.judgeable.map((scorer) => ({ scorer: scorer.name, sample: scorerSample(pending.part, scorer) }))
        : [],
      notJudged: isFirst
        ? { ...pending.reasons, ...(held > 0 ? { held } : {}), ...(failed > 0 ? { failed } : {}) }
        : judgedLater(own),
    });
  }

  /** Leaves out what a person has deleted, and counts it. */
  #wanted(
    { range, stored: before }: PlannedWork,
    stored: StoredTrace,
    { assessments }: CaptureOutcome,
  ): NewAssessment[] {
    return assessments.filter((one) => {
      if (this.#journal.wasDeleted(stored, one.assessmentId)) this.#tally.notJudgeable(range, 'deletedByPerson');
      // Another run has written the trace meanwhile, with its verdicts in the same request. A missing one is its business.
      else if (before === undefined && hasOneOf(stored, one)) this.#tally.settle(range, 'alreadyThere');
      else return true;
      return false;
    });
  }

  #count(
    { traceId, range, pending }: PlannedWork,
    { assessments, notJudgeable, held, heldFor }: CaptureOutcome,
    isNew: boolean,
  ): void {
    this.#tally.trace(range);
    this.#tally.settled(range, pending);
    for (const reason of notJudgeable) this.#tally.notJudgeable(range, reason);
    this.#tally.held(range, held, heldFor);
    const hasVerdict = isNew && assessments.some(({ error }) => error === undefined);
    if (hasVerdict || pending.settled.alreadyThere > 0) this.evaluated.add(traceId);
  }
}

const idsOf = (assessments: readonly NewAssessment[]): string[] => assessments.map(({ assessmentId }) => assessmentId);

/** Whether a trace has a verdict from the same kind of scorer: all of them were in one request. */
const hasOneOf = ({ assessments }: StoredTrace, { sourceType }: NewAssessment): boolean =>
  assessments.some((stored) => stored.sourceType === sourceType);
