/** A limit on the spending for the judge: money is reserved before a call and settled after it. */

export interface SpendingLimit {
  /** @returns `held` if the cap has no room for `maxUsd` */
  reserve(maxUsd: number): Promise<{ settle(actualUsd: number): Promise<void> } | 'held'>;
  /** Gives back money that was reserved but not used. */
  close(): Promise<void>;
}

/** Returns the cost to charge for a call. A negative cost is charged as 0, so that it gives no money back. */
export const chargeOf = (actualUsd: number): number => (actualUsd > 0 ? actualUsd : 0);

/**
 * A limit for one process, for the command line. Lambdas share a `Budget`.
 *
 * @example
 *     const limit = new OwnLimit(5);   // 5 dollars
 *     const reserved = await limit.reserve(0.02);
 */
export class OwnLimit implements SpendingLimit {
  readonly #usd: number;
  #spent = 0;
  /** The worst case of the calls in flight. */
  #reserved = 0;
  #inFlight = 0;
  #waiting: (() => void)[] = [];

  /** @param usd US dollars in total */
  constructor(usd: number) {
    this.#usd = usd;
  }

  async reserve(maxUsd: number): Promise<{ settle(actualUsd: number): Promise<void> } | 'held'> {
    while (this.#spent + this.#reserved + maxUsd > this.#usd) {
      // Calls mostly cost less than their worst case, so the calls in flight may leave room.
      if (this.#inFlight === 0) return 'held';
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#reserved += maxUsd;
    this.#inFlight++;
    return {
      settle: async (actualUsd) => {
        this.#reserved -= maxUsd;
        this.#spent += chargeOf(actualUsd);
        this.#inFlight--;
        for (const wake of this.#waiting.splice(0)) wake();
      },
    };
  }

  async close(): Promise<void> {}
}
