import type { Preparer } from '../request/preparer.ts';
import type { ReplayPlan } from '../run.ts';
import { type ScheduledEntry, schedule } from '../timing.ts';
import type { Dispatcher } from './dispatcher.ts';
import { Pace } from './slices.ts';

/** Prepared requests wait in memory up to this: a burst of 2,500, or 8 MiB of large ones. */
const MAX_WAITING = 2_560;
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Requests are prepared, and signed, this long before their time at most; a signature is good for five minutes. */
const PREPARE_AHEAD_MS = 5_000;
/** Before the clock starts, this much of the schedule is ready; without a schedule, this many requests. */
const READY_MS = 300;
const READY_REQUESTS = 512;
/** A full queue is looked at again after this. */
const FULL_WAIT_MS = 5;

/** Prepares requests ahead of their time, as far as memory allows. */
export class Feeder {
  readonly #plan: ReplayPlan;
  readonly #preparer: Preparer;
  readonly #dispatcher: Dispatcher;
  readonly #firstDueMs: number;
  readonly #elapsedMs: () => number;
  /** Resolves when the first requests are ready to go. */
  readonly ready: Promise<void>;
  #isReady: () => void = () => {};
  #failed: (error: unknown) => void = () => {};
  #stopped = false;
  #isStarted = false;
  #skipped = 0;
  /** Why it stopped before the end, where the plan lets it. */
  failure: unknown;
  /** Requests of the schedule that were not sent because the run was stopped. */
  unsent = 0;

  /**
   * @param firstDueMs when the first request is due
   * @param elapsedMs where in the schedule the run is
   */
  constructor(
    plan: ReplayPlan,
    preparer: Preparer,
    dispatcher: Dispatcher,
    firstDueMs: number,
    elapsedMs: () => number,
  ) {
    this.#firstDueMs = firstDueMs;
    this.#plan = plan;
    this.#preparer = preparer;
    this.#dispatcher = dispatcher;
    this.#elapsedMs = elapsedMs;
    this.ready = new Promise((resolve, reject) => {
      this.#isReady = () => {
        this.#isStarted = true;
        resolve();
      };
      this.#failed = reject;
    });
  }

  stop(): void {
    this.#stopped = true;
  }

  async run(): Promise<void> {
    const { endInOrder } = this.#plan;
    try {
      const pace = new Pace();
      const { part, index, schedule: timing } = this.#plan;
      for await (const batch of part ? part.entries() : schedule(index, timing, () => this.#skipped)) {
        for (const scheduled of batch) {
          await this.#room(scheduled);
          if (this.#stopped) {
            this.unsent++;
            continue;
          }
          try {
            await this.#feed(scheduled);
          } catch (error) {
            // Before the start nothing is lost yet; after it the rest is counted, and what was measured is kept.
            if (!endInOrder || !this.#isStarted) throw error;
            this.failure = error;
            this.#stopped = true;
            this.unsent++;
            continue;
          }
          if (pace.due) {
            this.#dispatcher.tick();
            await pace.rest();
          }
        }
      }
      this.#isReady();
    } catch (error) {
      if (endInOrder && this.#isStarted) {
        this.failure ??= error;
        return;
      }
      this.#failed(error);
      throw error;
    }
  }

  async #feed(scheduled: ScheduledEntry): Promise<void> {
    const request = await this.#preparer.prepare(scheduled, 'profiling');
    if (!request) {
      this.#skipped++;
      return;
    }
    this.#plan.onPrepared?.(request);
    this.#dispatcher.push(request);
  }

  /** Waits while enough is ready. */
  async #room(scheduled: ScheduledEntry): Promise<void> {
    const { queue } = this.#dispatcher;
    const enough = Number.isNaN(scheduled.dueMs)
      ? queue.length >= Math.max(READY_REQUESTS, Math.min(this.#plan.maxConcurrency, MAX_WAITING))
      : scheduled.dueMs - this.#firstDueMs > READY_MS;
    if (enough) this.#isReady();
    while (
      !this.#stopped &&
      (queue.length >= MAX_WAITING ||
        queue.bytes >= MAX_WAITING_BYTES ||
        scheduled.dueMs - this.#elapsedMs() > PREPARE_AHEAD_MS)
    ) {
      this.#isReady();
      await new Promise((resolve) => setTimeout(resolve, FULL_WAIT_MS));
    }
  }
}
