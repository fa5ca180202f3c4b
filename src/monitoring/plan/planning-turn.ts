/**
 * Of the attempts at planning a part, the last one counts. Step Functions retries a function that it has lost the connection to,
 * and that one may still be running. A part ends by the clock, so both make different manifests: the earlier one must not
 * replace the manifest whose cursor the next part continues from, since the captures between would be in no chunk.
 */

import type { Storage } from '../../core/aws/storage.ts';
import type { PlanRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';

/** A part that was planned faster contains all that fits, whoever plans it: it does not end by the clock. */
const SAFE_MS = 30_000;

export class PlanningTurn {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #key: string;
  /** Epoch milliseconds. */
  readonly #begunAt = Date.now();
  readonly #isRetry: boolean;
  #retries = 0;

  constructor(storage: Storage, bucket: string, { run, part, attempt = 0 }: PlanRequest) {
    this.#storage = storage;
    this.#bucket = bucket;
    this.#key = workKeys.planningTurn(run.name, part);
    this.#isRetry = attempt > 0;
  }

  /** The retries that ran, this one included. Step Functions also counts those that Lambda throttled, which did not start. */
  get retries(): number {
    return this.#retries;
  }

  /** A retry writes down when it began. */
  async begin(): Promise<void> {
    if (!this.#isRetry) return;
    this.#retries = ((await this.#last())?.retries ?? 0) + 1;
    await this.#storage.putJson(this.#bucket, this.#key, { begunAt: this.#begunAt, retries: this.#retries });
  }

  #last(): Promise<{ begunAt: number; retries: number } | undefined> {
    return this.#storage.getJson(this.#bucket, this.#key);
  }

  /**
   * @param tookMs how long the planning took
   * @throws PermanentError `PlanSuperseded`, which nobody waits for
   */
  async assertLast(tookMs: number): Promise<void> {
    if (tookMs < SAFE_MS) return;
    const last = await this.#last();
    if (last === undefined || last.begunAt <= this.#begunAt) return;
    throw new PermanentError('PlanSuperseded', 'A later attempt plans this part of the run', {
      where: `s3://${this.#bucket}/${this.#key}`,
    });
  }
}
