/**
 * The judge's budget across Lambdas: a call's highest cost is reserved before it is made and settled at what it was
 * after. Caps hold for a day (UTC) and for a run; the money is kept in DynamoDB (`budget/account.ts`).
 *
 * What holds: all that is reserved and paid never exceeds a cap, so what is paid does not either, unless a call costs
 * more than its announced maximum. What is left over at the end is less than one call's maximum per Lambda. A Lambda that
 * dies gives back its lease after LEASE_MS; what it had paid and not reported by then (calls of the last 5 seconds) is
 * not counted.
 */
import { randomUUID } from 'node:crypto';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { PermanentError } from '../../shared/errors.ts';
import { Account, type Nanos } from './account.ts';
import { Purse, RENEW_MS } from './purse.ts';
import { bookable } from './spending-limit.ts';

const NANOS_PER_USD = 1e9;
/** Reservations are rounded up, so that a cap errs on its own side. */
const toNanos = (usd: number): Nanos => Math.ceil(usd * NANOS_PER_USD - 1e-6);

export interface BudgetOptions {
  client: DynamoDBClient;
  table: string;
  /** US dollars a day (UTC); 0 or absent: no daily cap. */
  dailyUsd?: number | undefined;
  /** US dollars for the run; absent: no cap of its own. */
  runUsd?: number | undefined;
  /** Execution name. */
  run: string;
  /** Epoch milliseconds. */
  now?: (() => number) | undefined;
}

interface Reservation {
  /** Books what the call really cost, in US dollars, 0 for one that was not made. Call it once. */
  settle(actualUsd: number): Promise<void>;
}

export interface Budget {
  /**
   * @param maxUsd the most that the call can cost
   * @returns `held` when a cap leaves no room for it
   */
  reserve(maxUsd: number): Promise<Reservation | 'held'>;
  /** Gives back what is reserved and not used. Calls under way are booked at their maximum. */
  close(): Promise<void>;
  /**
   * Sets money aside for an answer that comes when this Lambda has long ended.
   * @param maxUsd the most that the answer can cost
   * @returns false when a cap leaves no room for it
   */
  setAside(maxUsd: number): Promise<boolean>;
  /** Closes as `close` does, and makes a deposit of what was set aside. One of that name must not be there. */
  closeWithDeposit(name: string): Promise<Deposit>;
  /** Gives back the deposit that an earlier attempt at the same work may have left. Before anything is reserved. */
  dropDeposit(name: string): Promise<void>;
  /**
   * Ends a deposit: what its answers have cost is booked, the rest given back.
   * @returns false when it had ended before: nothing is booked then, since it was booked with its end
   */
  settleDeposit(deposit: Deposit, paidUsd: number): Promise<boolean>;
}

/** Money set aside, and the accounts that hold it. */
export interface Deposit {
  name: string;
  scopes: string[];
}

export const dayScope = (epochMs: number): string => `day#${new Date(epochMs).toISOString().slice(0, 10)}`;
export const runScope = (run: string): string => `run#${run}`;

/** @throws PermanentError `InvalidBudget` */
export function createBudget(options: BudgetOptions): Budget {
  for (const [name, value] of [
    ['dailyUsd', options.dailyUsd],
    ['runUsd', options.runUsd],
  ] as const) {
    if (value !== undefined && !(value >= 0 && Number.isFinite(value))) {
      throw new PermanentError('InvalidBudget', 'A budget is not an amount', {
        got: value,
        expected: 'US dollars, 0 or more',
        where: name,
      });
    }
  }
  return new LeasedBudget(options);
}

class LeasedBudget implements Budget {
  readonly #options: BudgetOptions;
  readonly #now: () => number;
  /** Tells this Lambda's leases from all others'. */
  readonly #id = randomUUID();
  readonly #purses = new Map<string, Purse>();
  /** Writes one after the other: a lease is extended once for all that wait, not once by each. */
  #queue: Promise<unknown> = Promise.resolve();
  /** Called when a call of this Lambda settles. */
  #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async reserve(maxUsd: number): Promise<Reservation | 'held'> {
    const amount = toNanos(maxUsd);
    for (;;) {
      const purses = await this.#exclusive(() => this.#take(amount));
      if (purses !== 'held') return this.#reservation(purses, amount);
      // Calls under way mostly cost less than they reserved: what they give back may be enough.
      if (![...this.#purses.values()].some(({ underWay }) => underWay > 0)) return 'held';
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async setAside(maxUsd: number): Promise<boolean> {
    const amount = toNanos(maxUsd);
    return (await this.#exclusive(() => this.#take(amount))) !== 'held';
  }

  close(): Promise<void> {
    return this.#end((purse) => purse.close());
  }

  async #end(close: (purse: Purse) => Promise<void>): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#exclusive(async () => {
      const purses = [...this.#purses.values()];
      this.#purses.clear();
      const results = await Promise.allSettled(purses.map(close));
      const failed = results.find((result) => result.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    });
    this.#wake();
  }

  async closeWithDeposit(name: string): Promise<Deposit> {
    const scopes: string[] = [];
    await this.#end(async (purse) => {
      if (await purse.closeWithDeposit(name)) scopes.push(purse.account.scope);
    });
    return { name, scopes };
  }

  async dropDeposit(name: string): Promise<void> {
    await this.#exclusive(async () => {
      for (const { account } of this.#current()) await account.settleDeposit(name, 0);
    });
  }

  async settleDeposit({ name, scopes }: Deposit, paidUsd: number): Promise<boolean> {
    const { client, table } = this.#options;
    const paid = toNanos(bookable(paidUsd));
    const ended = await Promise.all(
      scopes.map((scope) => new Account({ client, table, scope, now: this.#now }).settleDeposit(name, paid)),
    );
    return ended.some(Boolean);
  }

  /** Reserves in every account, or in none. */
  async #take(amount: Nanos): Promise<Purse[] | 'held'> {
    const taken: Purse[] = [];
    for (const purse of this.#current()) {
      if (await purse.reserve(amount)) {
        taken.push(purse);
        continue;
      }
      for (const other of taken) other.release(amount);
      return 'held';
    }
    this.#keepAlive();
    return taken;
  }

  /** The accounts in force now; a day that is over keeps its purse until `close`. */
  #current(): Purse[] {
    const { client, table, dailyUsd, runUsd, run } = this.#options;
    const caps = [
      ...(runUsd === undefined ? [] : [{ scope: runScope(run), usd: runUsd }]),
      ...(dailyUsd === undefined || dailyUsd === 0 ? [] : [{ scope: dayScope(this.#now()), usd: dailyUsd }]),
    ];
    return caps.map(({ scope, usd }) => {
      const known = this.#purses.get(scope);
      if (known !== undefined) return known;
      const account = new Account({ client, table, scope, now: this.#now });
      const purse = new Purse(account, Math.floor(usd * NANOS_PER_USD), this.#id, this.#now);
      this.#purses.set(scope, purse);
      return purse;
    });
  }

  #reservation(purses: readonly Purse[], amount: Nanos): Reservation {
    let settled = false;
    return {
      settle: async (actualUsd) => {
        if (settled) throw new Error('A reservation was settled twice');
        settled = true;
        const actual = toNanos(bookable(actualUsd));
        for (const purse of purses) purse.settle(amount, actual);
        this.#wake();
        await this.#exclusive(async () => {
          for (const purse of purses) await purse.report();
        });
      },
    };
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** Renews leases while a slow judge answers. */
  #keepAlive(): void {
    this.#timer ??= setInterval(() => {
      const renewed = this.#exclusive(async () => {
        for (const purse of this.#purses.values()) await purse.renew();
      });
      // The next reserve or settle meets the same failure and reports it.
      renewed.catch(() => {});
    }, RENEW_MS).unref();
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work, work);
    this.#queue = done.catch(() => {});
    return done;
  }
}
