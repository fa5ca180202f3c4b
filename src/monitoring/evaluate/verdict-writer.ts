/**
 * Writes the results of captures to MLflow: an absent trace together with its verdicts, and the verdicts of an existing
 * trace one by one, as those of functions that answer after the trace was written. Then it records the outcomes.
 */

import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { forEachConcurrently, yieldToEventLoop } from '../../core/process/concurrency.ts';
import { weightAtOnce } from '../../core/process/memory.ts';
import { batches } from '../../core/values/batches.ts';
import type { Scorer } from '../../judge/types.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import type { ChunkDependencies } from '../chunk/attempt.ts';
import type { LineOutcomes } from '../outcomes/line-outcome.ts';
import { ChunkWriter, type WriteOutcome, type WrittenTrace } from '../write/chunk-writer.ts';
import { traceLine } from '../write/trace-line.ts';
import { type CaptureOutcome, joined, NOT_JUDGED } from './assess-capture.ts';
import { MemoryBudget } from './held-captures.ts';
import {
  type Finished,
  type FinishedItem,
  outcomeOf,
  type PlannedWork,
  type Settled,
  withLater,
} from './outcome-of.ts';

/**
 * Number of captures that are written together: one OTLP request, and one read of the existing traces. The first
 * batches are smaller, because MLflow is slower than most judges and should start with the judge's first answers. More
 * batches would cost more requests, larger batches more memory.
 */
const AT_ONCE = { first: 12, growth: 3, most: 50 };
/** The number for an OTLP request if no judge delays the writing. */
const ONLY_TRACED_AT_ONCE = 100;
/** The least memory that a span takes. A short record may contain thousands of rows, and each is a span. */
const SPAN_BYTES = 1000;
/** Maximum memory of traces before they are written; less in a small function. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** While one batch waits for MLflow, the next is read and built. */
const BATCHES_AT_ONCE = 2;

/** The outcome by the functions of scorers; without one while they are asked. */
interface Later {
  outcome?: CaptureOutcome;
}

type Waiting = Finished & { later?: Later | undefined };

/** A capture that was written before its functions answered. */
interface Open {
  first: Settled;
  later: Later;
}

export class VerdictWriter {
  /** The first failure of a function, which stops no other scorer. */
  functionFailure: unknown;
  /** The first failure. No trace is written after it. */
  failure: unknown;
  readonly #request: ChunkRequest;
  readonly #environment: ChunkDependencies['environment'];
  readonly #writer: ChunkWriter;
  readonly #outcomes: LineOutcomes;
  /** Whether the captures are judged before they are written. */
  readonly #areJudged: boolean;
  readonly memory = new MemoryBudget();
  #waiting: Waiting[] = [];
  readonly #open: Open[] = [];
  readonly #asked: Promise<void>[] = [];
  #weight = 0;
  #atOnce: number;
  readonly #writing: Promise<void>[] = [];

  /** @param outcomes receives the outcomes of written captures */
  constructor(request: ChunkRequest, deps: ChunkDependencies & { scorers: readonly Scorer[] }, outcomes: LineOutcomes) {
    this.#request = request;
    this.#environment = deps.environment;
    this.#outcomes = outcomes;
    this.#writer = new ChunkWriter(request, deps);
    this.#areJudged = deps.scorers.length > 0;
    this.#atOnce = this.#areJudged ? AT_ONCE.first : ONLY_TRACED_AT_ONCE;
  }

  /** Returns the traces that exist, by id. */
  existing(traceIds: readonly string[]): Promise<Map<string, StoredTrace>> {
    return this.#writer.existing(traceIds);
  }

  /**
   * Adds a capture, which is written with the next batch. Waits while a whole batch is waiting for MLflow: judging further ahead
   * would only take memory, and processor time that the writing needs.
   *
   * @param asked the outcome by functions, which the trace does not wait for
   */
  async add(work: PlannedWork, outcome: CaptureOutcome, asked?: Promise<CaptureOutcome>): Promise<void> {
    const later: Later | undefined = asked && {};
    const note = (found: CaptureOutcome): void => {
      Object.assign(later ?? {}, { outcome: found });
      this.functionFailure ??= found.failure;
    };
    if (asked !== undefined) this.#asked.push(asked.then(note));
    this.#waiting.push({ work, outcome, later });
    this.#weight += work.weight;
    if (this.#waiting.length >= this.#atOnce || this.#weight >= weightAtOnce()) {
      this.#start();
      if (this.#areJudged) this.#atOnce = Math.min(AT_ONCE.most, AT_ONCE.growth * this.#atOnce);
    }
    await this.#writing.at(-BATCHES_AT_ONCE - 1);
  }

  /**
   * Writes the waiting captures, and waits until they are written.
   *
   * @throws the first failure to write
   */
  async written(): Promise<void> {
    this.#start();
    await Promise.all(this.#writing);
    if (this.failure !== undefined) throw this.failure;
  }

  /**
   * Writes everything, also the assessments of functions that still are asked.
   *
   * @throws the first failure to write
   */
  async flush(): Promise<void> {
    await this.written().catch(() => undefined);
    // Also those of captures that could not be written, since their answers are paid for.
    await Promise.all(this.#asked.splice(0));
    await forEachConcurrently(BATCHES_AT_ONCE, batches(this.#open.splice(0), AT_ONCE.most), async (batch) => {
      await this.#writeLater(batch).catch((error: unknown) => {
        this.failure ??= error;
      });
    });
    if (this.failure !== undefined) throw this.failure;
  }

  /** Writes the later assessments of captures, whose outcomes are whole then. */
  async #writeLater(batch: readonly Open[]): Promise<void> {
    const whole = new Map(batch.map((open) => [open, open.first]));
    const settle = (open: Open, after: WrittenTrace, revision: number): void => {
      whole.set(open, withLater(open.first, open.later.outcome ?? NOT_JUDGED, after, revision));
    };
    const items = batch.flatMap((open) => {
      const [{ traceId }, result, revision] = open.first;
      const { assessments } = open.later.outcome ?? NOT_JUDGED;
      if (assessments.length > 0) return [{ traceId, assessments, open }];
      settle(open, { ...result, assessments, written: new Set() }, revision);
      return [];
    });
    try {
      if (this.failure === undefined)
        await this.#writer.write(items, ({ open }, result, revision) => settle(open, result as WrittenTrace, revision));
    } finally {
      for (const settled of whole.values()) this.#tell(...settled);
    }
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

  async #write(batch: readonly Waiting[]): Promise<void> {
    const existing = batch.flatMap(({ work }) => (work.facts === undefined ? [] : (work.stored ?? [])));
    const incomplete = await this.#writer.incomplete(existing);
    const isTraced = ({ stored, traceId }: PlannedWork): boolean => stored === undefined || incomplete.has(traceId);
    const weight = batch.reduce((sum, { work }) => sum + (isTraced(work) ? work.weight : 0), 0);
    await this.memory.pass(weight, async () => {
      let items: (FinishedItem & Pick<Waiting, 'later'>)[] = [];
      let traced = 0;
      const flush = async (): Promise<void> => {
        await this.#writer.write(items, (...settled) => this.#settle(...settled));
        items = [];
        traced = 0;
      };
      for (const { work, outcome: first, later } of batch) {
        await yieldToEventLoop();
        const { trace, refused } = isTraced(work) ? this.#traceOf(work) : {};
        if (refused !== undefined) {
          this.#outcomes.quarantine(work, refused, work);
          continue;
        }
        const more = trace === undefined ? 0 : Math.max(work.weight, trace.spans.length * SPAN_BYTES);
        if (traced + more > Math.min(BATCH_WEIGHT, weightAtOnce())) await flush();
        const { traceId, stored } = work;
        const outcome = later?.outcome === undefined ? first : joined([first, later.outcome]);
        const open = later?.outcome === undefined ? later : undefined;
        items.push({ traceId, stored, trace, assessments: outcome.assessments, work, outcome, later: open });
        traced += more;
      }
      await flush();
    });
  }

  #traceOf(work: PlannedWork): ReturnType<typeof traceLine> {
    return traceLine({ ...work, capture: work.read() }, this.#request, this.#environment);
  }

  #settle({ later, ...item }: FinishedItem & Pick<Waiting, 'later'>, result: WriteOutcome, revision: number): void {
    const { work } = item;
    if (result.trace === 'refused') this.#outcomes.quarantine(work, result.reason, work);
    else if (later === undefined) this.#tell(item, result, revision);
    else this.#open.push({ first: [item, result, revision], later });
  }

  #tell(...[item, result, revision]: Settled): void {
    this.#outcomes.lines.push(outcomeOf(item, result, revision, this.#request, this.#areJudged));
  }
}
