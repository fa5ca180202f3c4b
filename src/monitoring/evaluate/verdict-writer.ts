/**
 * Writes what was found out about captures to MLflow: a trace that is absent together with its verdicts, and the verdicts of
 * a trace that exists one by one. Then it counts what this run has done.
 */

import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { yieldToEventLoop } from '../../core/process/concurrency.ts';
import { weightAtOnce } from '../../core/process/memory.ts';
import { boundsOf } from '../../judge/scorers/values.ts';
import type { Scorer } from '../../judge/types.ts';
import type { NewAssessment, StoredTrace } from '../../mlflow/types.ts';
import { observerOf } from '../../quality/observations.ts';
import { scorerSample } from '../../quality/sample.ts';
import {
  type CaptureFacts,
  exchangeDigest,
  isFirstToEvaluate,
  judgedLater,
  ownVerdicts,
  QualityTally,
  verdictsOfRun,
} from '../../quality/tally.ts';
import type { ChunkDependencies } from '../chunk/attempt.ts';
import { ChunkWriter, type WriteItem, type WriteOutcome } from '../write/chunk-writer.ts';
import type { LineLog } from '../write/line-log.ts';
import type { CaptureOutcome } from './assess-capture.ts';
import { MemoryBudget } from './held-captures.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { ReadCapture } from './read-captures.ts';
import { VerdictTally } from './verdict-tally.ts';

/** A capture, and what is to be done about it. */
export interface PlannedWork extends ReadCapture {
  pending: PendingVerdicts;
  facts: CaptureFacts;
  /** The question to the judge, in a repeated attempt. */
  question?: string | undefined;
  /** The trace in MLflow; absent if it is to be written. */
  stored?: StoredTrace | undefined;
  /** It must not be decoded, because it kills the function. */
  isFaulty?: true;
}

interface Finished {
  work: PlannedWork;
  outcome: CaptureOutcome;
}
type FinishedItem = WriteItem & Finished;

/**
 * Captures that are written together: one OTLP request, and one reading of what exists. The first batches are smaller, since MLflow is
 * slower than most judges and is to work from the judge's first answers on. More batches would cost requests, and larger ones memory.
 */
const AT_ONCE = { first: 12, growth: 3, most: 50 };
/** Those of an OTLP request, where no judge is slower. */
const ONLY_TRACED_AT_ONCE = 100;
/** The least memory that a span takes. A short record may contain thousands of rows, and each is a span. */
const SPAN_BYTES = 1000;
/** The most memory that traces may take before they are written; less in a small function. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** While one batch waits for MLflow, the next is read and built. */
const BATCHES_AT_ONCE = 2;

export class VerdictWriter {
  /** The first failure. After it nothing is written any more. */
  failure: unknown;
  /** Traces that have a verdict, a new one or an older one. */
  readonly evaluated = new Set<string>();
  readonly #writer: ChunkWriter;
  readonly #run: string;
  readonly #isRetry: boolean;
  readonly #log: LineLog;
  /** Whether the captures are judged before they are written. */
  readonly #areJudged: boolean;
  readonly tally: VerdictTally;
  readonly quality: QualityTally;
  readonly memory = new MemoryBudget();
  #waiting: Finished[] = [];
  #weight = 0;
  #atOnce: number;
  readonly #writing: Promise<void>[] = [];

  constructor(request: ChunkRequest, deps: ChunkDependencies & { scorers: readonly Scorer[] }, log: LineLog) {
    const { environment, scorers } = deps;
    const { replay, sampleRate } = request.options;
    this.#run = request.run;
    this.#isRetry = (request.options.continues ?? []).length > 0;
    this.#log = log;
    this.#writer = new ChunkWriter(request, deps, log);
    this.#areJudged = scorers.length > 0;
    this.#atOnce = this.#areJudged ? AT_ONCE.first : ONLY_TRACED_AT_ONCE;
    this.tally = new VerdictTally(request.chunk.ranges.length);
    const observer = () => observerOf(environment, sampleRate, this.#areJudged ? scorers : undefined);
    this.quality = new QualityTally(replay ? undefined : observer());
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
      if (this.#areJudged) this.#atOnce = Math.min(AT_ONCE.most, AT_ONCE.growth * this.#atOnce);
    }
    await this.#writing.at(-BATCHES_AT_ONCE - 1);
  }

  /**
   * Writes the rest, and waits until everything is written.
   *
   * @throws the first failure to write
   */
  async end(): Promise<void> {
    await this.flush();
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
    const log = this.#log;
    const existing = batch.flatMap(({ work }) => (work.isFaulty ? [] : (work.stored ?? [])));
    const incomplete = await this.#writer.incomplete(existing);
    const isTraced = ({ stored, traceId }: PlannedWork): boolean => stored === undefined || incomplete.has(traceId);
    const weight = batch.reduce((sum, { work }) => sum + (isTraced(work) ? work.weight : 0), 0);
    await this.memory.pass(weight, async () => {
      let items: FinishedItem[] = [];
      let traced = 0;
      const flush = async (): Promise<void> => {
        for (const [item, written] of await this.#writer.write(items)) this.#count(item, written);
        items = [];
        traced = 0;
      };
      for (const { work, outcome } of batch) {
        await yieldToEventLoop();
        const trace = isTraced(work) ? log.trace({ ...work, capture: work.read() }) : undefined;
        if (log.refused.has(work.traceId)) continue;
        const more = trace === undefined ? 0 : Math.max(work.weight, trace.spans.length * SPAN_BYTES);
        if (traced + more > Math.min(BATCH_WEIGHT, weightAtOnce())) await flush();
        const { traceId, range, raw, stored } = work;
        items.push({ traceId, range, raw, stored, trace, assessments: outcome.assessments, work, outcome });
        traced += more;
      }
      await flush();
    });
  }

  #count({ work, outcome, trace }: FinishedItem, result: WriteOutcome): void {
    if (result.trace === 'refused') return;
    const { range, pending, traceId } = work;
    const { tally } = this;
    tally.settled(range, pending);
    for (const { notJudgeable } of outcome.notJudgeable) tally.notJudgeable(range, notJudgeable);
    tally.held(range, outcome.held, outcome.heldFor);
    for (let n = 0; n < result.deleted; n += 1) tally.notJudgeable(range, 'deletedByPerson');
    if (result.trace === 'missing') {
      for (const _ of result.assessments) tally.notJudgeable(range, 'traceMissing');
      return;
    }
    this.#countVerdicts(work, result);
    const hasVerdict = result.assessments.some(({ error }) => error === undefined);
    if (hasVerdict || pending.there.length > 0) this.evaluated.add(traceId);
    // Another chunk with the same line counts the capture.
    if (!result.isOfOtherChunk) this.#countQuality({ ...work, trace }, outcome, result);
  }

  /** Counts each verdict that names this run as its own, also if an earlier attempt has written it. */
  #countVerdicts(
    { range, pending }: PlannedWork,
    { stored, assessments, written, isOfOtherChunk }: WriteOutcome,
  ): void {
    const { tally } = this;
    const before = isOfOtherChunk ? [] : ownVerdicts(this.#run, stored?.assessments ?? []);
    const own = new Map(before.map((verdict) => [verdict.name, verdict]));
    for (const name of pending.there) {
      const verdict = own.get(name);
      if (verdict !== undefined) tally.repeated(range, verdict);
    }
    for (const assessment of assessments) {
      const { name, assessmentId, error } = assessment;
      const verdict = own.get(name);
      // An error assessment from an earlier attempt is still a failed verdict.
      if (written.has(assessmentId) || error !== undefined) tally.recorded(range, assessment);
      else if (verdict !== undefined) tally.recorded(range, verdict);
      else tally.settle(range, 'alreadyThere');
    }
  }

  /** Counts what this run has done with a capture, in this attempt and in those before. */
  #countQuality(
    { traceId, facts, pending, trace: built }: PlannedWork & Pick<WriteItem, 'trace'>,
    outcome: CaptureOutcome,
    { trace, stored, ...result }: WriteOutcome,
  ): void {
    const before = stored?.assessments ?? [];
    const isWritten = trace === 'written';
    const written = result.assessments.filter(({ assessmentId }) => result.written.has(assessmentId));
    const own = verdictsOfRun(this.#run, before, written);
    const isFirst = isWritten || isFirstToEvaluate(this.#run, before);
    this.quality.add({
      traceId,
      facts,
      exchange: built && exchangeDigest(built),
      isWritten,
      ...own,
      judgeable: isFirst
        ? pending.judgeable.map((scorer) => ({ scorer: scorer.name, sample: scorerSample(pending.stratum, scorer) }))
        : [],
      isUnmeasured: this.#areJudged && isFirst && !isMeasured(pending, outcome.assessments),
      notJudged: isFirst ? notJudged(pending, outcome) : judgedLater(own, this.#isRetry),
    });
  }
}

/** Returns why each scorer without a verdict has none. */
function notJudged(
  { reasons, judge, code, failed }: PendingVerdicts,
  { assessments, notJudgeable, heldFor }: CaptureOutcome,
): Record<string, string> {
  const without = [...judge, ...code, ...failed.map(({ scorer }) => scorer)].flatMap(({ name, kind }) => {
    const found = assessments.find((one) => one.name === name);
    if (found !== undefined && found.error === undefined) return [];
    const why = notJudgeable.find((one) => one.name === name)?.notJudgeable;
    return [[name, why ?? (kind === 'judge' && found === undefined && heldFor !== undefined ? 'held' : 'failed')]];
  });
  return { ...reasons, ...Object.fromEntries(without) };
}

/** Whether a scorer with bounds applies to a capture, drawn or not: one of the judge's, or one that has assessed it. */
const isMeasured = ({ judgeable, code }: PendingVerdicts, assessments: readonly NewAssessment[]): boolean =>
  [...judgeable, ...code.filter(({ name }) => assessments.some((one) => one.name === name))].some(
    (scorer) => boundsOf(scorer).look < Infinity,
  );
