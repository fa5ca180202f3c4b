/** Prepares requests before they are due, within the limits of memory. */
import { type PreparedRequest, Preparer } from '../request/preparer.ts';
import type { ScheduledEntry } from '../schedule/timing.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { SendJob } from './job.ts';
import { TimeSlice } from './slices.ts';

/** Maximum number of prepared requests that wait in memory: a burst of 2,500, or 8 MiB of large requests. */
const MAX_WAITING = 2_560;
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Requests are prepared and signed at most this long before they are due. A signature is valid for five minutes. */
const PREPARE_AHEAD_MS = 5_000;
/** This much of the schedule is ready before the clock starts; without a schedule, this many requests. */
const READY_MS = 300;
const READY_REQUESTS = 512;
/** Interval between checks of a full queue. */
const FULL_WAIT_MS = 5;

export class Feeder {
  readonly #job: SendJob;
  readonly #dispatcher: Dispatcher;
  readonly #unrecorded: () => number;
  readonly #preparer: Preparer;
  readonly #ready = Promise.withResolvers<void>();
  /** Resolves when enough requests are ready. If the schedule has fewer, it never resolves: wait for `run` too. */
  readonly ready = this.#ready.promise;
  stopped = false;
  /** Abandons the request that is being prepared. */
  #abandon: () => void = () => {};
  #isStarted = false;
  /** Entries of the schedule that could not be sent. */
  skipped = 0;
  /** Reason why feeding ended early after the start. Before the start, `run` throws instead. */
  failure: unknown;

  /**
   * @param unrecorded returns the number of requests that have ended and are not recorded yet: without a schedule, sending may
   *   outrun the recording
   */
  constructor(job: SendJob, dispatcher: Dispatcher, unrecorded: () => number) {
    this.#job = job;
    this.#dispatcher = dispatcher;
    this.#unrecorded = unrecorded;
    this.#preparer = new Preparer({
      ...job,
      // A request whose preparation was abandoned counts as unsent.
      onSkipped: (line, pass) => {
        if (!this.stopped) job.onSkipped(line, pass);
      },
    });
  }

  #isReady(): void {
    this.#isStarted = true;
    this.#ready.resolve();
  }

  /** Stops without waiting for the request in preparation: a disk, S3 or the credentials may never answer. */
  stop(): void {
    this.stopped = true;
    this.#abandon();
  }

  async run(): Promise<void> {
    try {
      await this.#feedAll();
    } catch (error) {
      // Before the start, no result is lost. After it, the results are kept.
      if (!this.#isStarted) throw error;
      this.failure = error;
    }
  }

  async #feedAll(): Promise<void> {
    const { schedule, reader } = this.#job;
    const slice = new TimeSlice();
    for (const batch of schedule.entries(() => this.skipped)) {
      reader.expect(batch.map(({ entry }) => entry));
      for (const scheduled of batch) {
        await this.#room(scheduled);
        if (this.stopped) return;
        await this.#feed(scheduled);
        if (!slice.isOver) continue;
        this.#dispatcher.tick();
        await slice.rest();
      }
    }
  }

  async #feed(scheduled: ScheduledEntry): Promise<void> {
    const request = await new Promise<PreparedRequest | undefined>((resolve, reject) => {
      this.#abandon = () => resolve(undefined);
      this.#preparer.prepare(scheduled).then(resolve, reject);
    });
    // After a stop, no request is sent, even if its preparation succeeded.
    if (this.stopped) return;
    if (request) this.#dispatcher.push(request);
    else this.skipped++;
  }

  /** Waits while enough requests are ready. */
  async #room({ dueMs }: ScheduledEntry): Promise<void> {
    const { maxConcurrency, schedule } = this.#job;
    const { firstDueMs } = schedule;
    const { queue } = this.#dispatcher;
    const isScheduled = !Number.isNaN(dueMs);
    const enough = isScheduled
      ? dueMs - firstDueMs > READY_MS
      : queue.length >= Math.max(READY_REQUESTS, Math.min(maxConcurrency, MAX_WAITING));
    if (enough) this.#isReady();
    while (
      !this.stopped &&
      (queue.length >= MAX_WAITING ||
        queue.bytes >= MAX_WAITING_BYTES ||
        (!isScheduled && this.#unrecorded() >= MAX_WAITING) ||
        dueMs - Math.max(firstDueMs, this.#dispatcher.elapsedMs()) > PREPARE_AHEAD_MS)
    ) {
      this.#isReady();
      await new Promise((resolve) => setTimeout(resolve, FULL_WAIT_MS));
    }
  }
}
