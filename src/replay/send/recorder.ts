/** Measures each request that has ended and hands the result over. */
import type { RunClock } from '../clock.ts';
import { type Completion, type Measured, measure, notRecorded } from '../measure/measure.ts';
import type { SendJob, SendOutcome } from './job.ts';

/** A reply that cannot be recorded affects its own record only. */
export class Recorder {
  readonly #job: SendJob;
  readonly #clock: RunClock;
  unrecorded: SendOutcome['unrecorded'];

  constructor(job: SendJob, clock: RunClock) {
    this.#job = job;
    this.#clock = clock;
  }

  /** @returns `undefined` if nothing could be recorded */
  record(done: Completion): Measured | undefined {
    try {
      return this.#handOver(measure(done, this.#job.objectives));
    } catch (error) {
      try {
        return this.#handOver(notRecorded(done, error));
      } catch (why) {
        this.unrecorded = { why, ...this.unrecorded, requests: (this.unrecorded?.requests ?? 0) + 1 };
        return undefined;
      }
    }
  }

  #handOver(measured: Measured): Measured {
    this.#job.onMeasured(measured, this.#clock);
    return measured;
  }
}
