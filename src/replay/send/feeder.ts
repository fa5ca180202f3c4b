import type { PreparedRequest } from '../request/prepared.ts';
import type { Feeding, ScheduledEntry } from '../schedule/timing.ts';
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

interface FeederOptions {
  batches(feeding: Feeding): AsyncIterable<ScheduledEntry[]>;
  /** @returns `undefined` for a record that cannot be sent, which has been reported */
  prepare(scheduled: ScheduledEntry): Promise<PreparedRequest | undefined>;
  dispatcher: Dispatcher;
  /** Requests under way at most. */
  maxConcurrency: number;
  /** When the first request is due. */
  firstDueMs: number;
  /** Where in the schedule the run is. */
  elapsedMs(): number;
  /** A failure after the start is in `failure`; without this it is thrown. */
  endGracefully?: boolean;
}

/** Prepares requests ahead of their time, as far as memory allows. */
export class Feeder {
  readonly #options: FeederOptions;
  /** Resolves when the first requests are ready to go. */
  readonly ready: Promise<void>;
  #isReady: () => void = () => {};
  #failed: (error: unknown) => void = () => {};
  #stopped = false;
  /** Lets go of the request that is being prepared. */
  #giveUp: () => void = () => {};
  #isStarted = false;
  /** Records of the schedule that could not be sent. */
  skipped = 0;
  /** Why it stopped before the end, where the plan lets it. */
  failure: unknown;
  /** Requests of the schedule that were not sent because the run was stopped. */
  unsent = 0;

  constructor(options: FeederOptions) {
    this.#options = options;
    this.ready = new Promise((resolve, reject) => {
      this.#isReady = () => {
        this.#isStarted = true;
        resolve();
      };
      this.#failed = reject;
    });
    // `run` throws it too.
    this.ready.catch(() => {});
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** What is being prepared is not waited for: a disk, S3 or the credentials may take for ever. */
  stop(): void {
    this.#stopped = true;
    this.#giveUp();
  }

  async run(): Promise<void> {
    const { endGracefully, dispatcher } = this.#options;
    try {
      const pace = new Pace();
      const feeding: Feeding = {
        skipped: () => this.skipped,
        stopped: () => this.#stopped,
        passOver: (entries) => {
          this.unsent += entries;
        },
      };
      for await (const batch of this.#options.batches(feeding)) {
        for (const [i, scheduled] of batch.entries()) {
          if (!this.#stopped) await this.#room(scheduled);
          if (this.#stopped) {
            this.unsent += batch.length - i;
            break;
          }
          try {
            await this.#feed(scheduled);
          } catch (error) {
            // Before the start nothing is lost yet; after it the rest is counted, and what was measured is kept.
            if (!endGracefully || !this.#isStarted) throw error;
            this.failure = error;
            this.#stopped = true;
            this.unsent++;
            continue;
          }
          if (pace.due) {
            dispatcher.tick();
            await pace.rest();
          }
        }
      }
      this.#isReady();
    } catch (error) {
      if (endGracefully && this.#isStarted) {
        this.failure ??= error;
        return;
      }
      this.#failed(error);
      throw error;
    }
  }

  async #feed(scheduled: ScheduledEntry): Promise<void> {
    const request = await new Promise<PreparedRequest | undefined>((resolve, reject) => {
      this.#giveUp = () => resolve(undefined);
      this.#options.prepare(scheduled).then(resolve, reject);
    });
    // Whatever came of it: after the stop nothing is sent.
    if (this.#stopped) this.unsent++;
    else if (!request) this.skipped++;
    else if (!this.#options.dispatcher.push(request)) this.unsent++;
  }

  /** Waits while enough is ready. */
  async #room(scheduled: ScheduledEntry): Promise<void> {
    const { dispatcher, maxConcurrency, firstDueMs, elapsedMs } = this.#options;
    const { queue } = dispatcher;
    const enough = Number.isNaN(scheduled.dueMs)
      ? queue.length >= Math.max(READY_REQUESTS, Math.min(maxConcurrency, MAX_WAITING))
      : scheduled.dueMs - firstDueMs > READY_MS;
    if (enough) this.#isReady();
    while (
      !this.#stopped &&
      (queue.length >= MAX_WAITING ||
        queue.bytes >= MAX_WAITING_BYTES ||
        scheduled.dueMs - elapsedMs() > PREPARE_AHEAD_MS)
    ) {
      this.#isReady();
      await new Promise((resolve) => setTimeout(resolve, FULL_WAIT_MS));
    }
  }
}
