/** Money that may be spent on the judge, as those who ask it see it: reserved before a call, settled after it. */

export interface SpendingLimit {
  /** @returns `held` when the cap leaves no room for `maxUsd`. */
  reserve(maxUsd: number): Promise<{ settle(actualUsd: number): Promise<void> } | 'held'>;
  /** Gives back what was reserved and not used. */
  close(): Promise<void>;
}

/** What a call is booked at: one that says it has cost less than nothing gives no money back. */
export const bookable = (actualUsd: number): number => (actualUsd > 0 ? actualUsd : 0);

/** A limit of one process, for the command line; `budget.ts` is the one that Lambdas share. */
export class OwnLimit implements SpendingLimit {
  readonly #usd: number;
  #spent = 0;
  /** What the calls under way can cost at most. */
  #reserved = 0;
  #underWay = 0;
  #waiting: (() => void)[] = [];

  /** @param usd US dollars in all */
  constructor(usd: number) {
    this.#usd = usd;
  }

  async reserve(maxUsd: number): Promise<{ settle(actualUsd: number): Promise<void> } | 'held'> {
    while (this.#spent + this.#reserved + maxUsd > this.#usd) {
      // A call costs less than it can: what is under way may leave room.
      if (this.#underWay === 0) return 'held';
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#reserved += maxUsd;
    this.#underWay++;
    return {
      settle: async (actualUsd) => {
        this.#reserved -= maxUsd;
        this.#spent += bookable(actualUsd);
        this.#underWay--;
        for (const wake of this.#waiting.splice(0)) wake();
      },
    };
  }

  async close(): Promise<void> {}
}
