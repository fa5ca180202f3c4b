/** Prepares requests before they are due, within the limits of memory. */
import type { PreparedRequest } from '../request/preparer.ts';
import type { Feeding, ScheduledEntry, SendSchedule } from '../schedule/timing.ts';
import type { RangeReader } from '../source/range-reader.ts';
import type { Dispatcher } from './dispatcher.ts';
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

interface FeederOptions {
  batches: SendSchedule['entries'];
  reader: RangeReader;
  /** @returns `undefined` for a record that cannot be sent, after reporting it */
  prepare(scheduled: ScheduledEntry): Promise<PreparedRequest | undefined>;
  dispatcher: Dispatcher;
  /** Most requests in flight. */
  maxConcurrency: number;
  /** Time at which the first request is due. */
  firstDueMs: number;
  /** Time of the schedule that has passed since its start. */
  elapsedMs(): number;
  /** Number of requests that have ended and are not recorded yet: without a schedule, sending may outrun the recording. */
  unrecorded(): number;
}

export class Feeder {
  readonly #options: FeederOptions;
  readonly #ready = Promise.withResolvers<void>();
  /** Resolves when the first requests are ready to be sent. */
  readonly ready = this.#ready.promise;
  stopped = false;
  /** Abandons the request that is being prepared. */
  #abandon: () => void = () => {};
  #isStarted = false;
  /** Entries of the schedule that could not be sent. */
  skipped = 0;
  /** Reason why feeding ended early after the start. Before the start, `run` throws instead. */
  failure: unknown;
  /** Requests of the schedule that were not sent because the run was stopped. */
  unsent = 0;

  constructor(options: FeederOptions) {
    this.#options = options;
    // `run` throws the same error.
    this.ready.catch(() => {});
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
    const { dispatcher, reader } = this.#options;
    try {
      const slice = new TimeSlice();
      const feeding: Feeding = {
        skipped: () => this.skipped,
        stopped: () => this.stopped,
        passOver: (entries) => {
          this.unsent += entries;
        },
      };
      for await (const batch of this.#options.batches(feeding)) {
        reader.expect(batch.map(({ entry }) => entry));
        for (const [i, scheduled] of batch.entries()) {
          if (!this.stopped) await this.#room(scheduled);
          if (this.stopped) {
            this.unsent += batch.length - i;
            break;
          }
          try {
            await this.#feed(scheduled);
          } catch (error) {
            // Before the start, no result is lost. After the start, count the remaining requests and keep the results.
            if (!this.#isStarted) throw error;
            this.failure = error;
            this.stopped = true;
            this.unsent++;
            continue;
          }
          if (slice.isOver) {
            dispatcher.tick();
            await slice.rest();
          }
        }
      }
      this.#isReady();
    } catch (error) {
      if (this.#isStarted) {
        this.failure ??= error;
        return;
      }
      this.#ready.reject(error);
      throw error;
    }
  }

  async #feed(scheduled: ScheduledEntry): Promise<void> {
    const request = await new Promise<PreparedRequest | undefined>((resolve, reject) => {
      this.#abandon = () => resolve(undefined);
      this.#options.prepare(scheduled).then(resolve, reject);
    });
    // After a stop, no request is sent, even if its preparation succeeded.
    if (this.stopped) this.unsent++;
    else if (!request) this.skipped++;
    else if (!this.#options.dispatcher.push(request)) this.unsent++;
  }

  /** Waits while enough requests are ready. */
  async #room(scheduled: ScheduledEntry): Promise<void> {
    const { dispatcher, maxConcurrency, firstDueMs, elapsedMs, unrecorded } = this.#options;
    const { queue } = dispatcher;
    const enough = Number.isNaN(scheduled.dueMs)
      ? queue.length >= Math.max(READY_REQUESTS, Math.min(maxConcurrency, MAX_WAITING))
      : scheduled.dueMs - firstDueMs > READY_MS;
    if (enough) this.#isReady();
    while (
      !this.stopped &&
      (queue.length >= MAX_WAITING ||
        queue.bytes >= MAX_WAITING_BYTES ||
        (Number.isNaN(scheduled.dueMs) && unrecorded() >= MAX_WAITING) ||
        scheduled.dueMs - elapsedMs() > PREPARE_AHEAD_MS)
    ) {
      this.#isReady();
      await new Promise((resolve) => setTimeout(resolve, FULL_WAIT_MS));
    }
  }
}
