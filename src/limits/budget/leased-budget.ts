/**
 * The judge's budget across Lambdas. The worst case of a call is reserved before the call and settled at its cost afterward.
 * Caps apply to a day (UTC) and to a run. The accounts are in DynamoDB (`account.ts`).
 *
 * Guarantees: reserved and paid money never exceed a cap, so payments do not either, unless a call costs more than its
 * announced maximum. Less than one call's maximum per Lambda remains unused at the end. The lease of a Lambda that crashes is
 * given back after LEASE_MS. What it had paid but not reported (calls of the last 5 seconds) is not counted. A crash between two
 * writes, or a reply that is lost, may leave a lease's money committed for the day: less can be spent then, never more.
 */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { PermanentError } from '../../core/errors/errors.ts';
import { BudgetTable } from '../table.ts';
import { Account, type Nanos } from './account.ts';
import { Purse, RENEW_MS } from './purse.ts';
import { bookable } from './spending-limit.ts';

const NANOS_PER_USD = 1e9;
/** Reservations are rounded up, so that spending stays below a cap. */
const toNanos = (usd: number): Nanos => Math.ceil(usd * NANOS_PER_USD - 1e-6);

export interface BudgetOptions {
  client: DynamoDBClient;
  table: string;
  /** US dollars per day (UTC). If 0 or absent, there is no daily cap. */
  dailyUsd?: number | undefined;
  /** US dollars for the run. If absent, the run has no separate cap. */
  runUsd?: number | undefined;
  /** Execution name. */
  run: string;
  /** Epoch milliseconds. */
  now?: (() => number) | undefined;
}

interface Reservation {
  /** Books the cost of the call in US dollars, 0 if it was not made. Call it once. */
  settle(actualUsd: number): Promise<void>;
}

export interface Budget {
  /**
   * @param maxUsd the worst case of the call
   * @returns `held` if a cap has no room for it
   */
  reserve(maxUsd: number): Promise<Reservation | 'held'>;
  /** Gives back reserved money that was not used. Calls in flight are booked at their maximum. */
  close(): Promise<void>;
  /**
   * Sets money aside for an answer that arrives after this Lambda has ended.
   * @param maxUsd the worst case of the answer
   * @returns false if a cap has no room for it
   */
  setAside(maxUsd: number): Promise<boolean>;
  /** Closes as `close` does, and makes a deposit of the money that was set aside. No deposit of that name may exist. */
  closeWithDeposit(name: string): Promise<Deposit>;
  /** Gives back the deposit that an earlier attempt at the same work may have left. Call it before reserving anything. */
  dropDeposit(name: string): Promise<void>;
  /**
   * Ends a deposit: books the cost of its answers and gives the rest back.
   * @returns false if it had ended before. Nothing is booked then, because the cost was booked when it ended
   */
  settleDeposit(deposit: Deposit, paidUsd: number): Promise<boolean>;
}

/** Money that was set aside, and the accounts that contain it. */
export interface Deposit {
  name: string;
  scopes: string[];
}

export const dayScope = (epochMs: number): string => `day#${new Date(epochMs).toISOString().slice(0, 10)}`;
export const runScope = (run: string): string => `run#${run}`;

/** @throws PermanentError `InvalidBudget` */
export function createBudget(options: BudgetOptions): Budget {
  for (const where of ['dailyUsd', 'runUsd'] as const) {
    const got = options[where];
    if (got === undefined || (got >= 0 && Number.isFinite(got))) continue;
    const facts = { got, expected: 'US dollars, 0 or more', where };
    throw new PermanentError('InvalidBudget', 'The budget is not an amount of money', facts);
  }
  return new LeasedBudget(options);
}

class LeasedBudget implements Budget {
  readonly #options: BudgetOptions;
  readonly #table: BudgetTable;
  readonly #now: () => number;
  readonly #purses = new Map<string, Purse>();
  /** Serializes writes, so that a lease is extended once for all waiting calls and not once for each. */
  #queue: Promise<unknown> = Promise.resolve();
  /** Callbacks for when a call of this Lambda settles. */
  #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BudgetOptions) {
    this.#options = options;
    this.#table = new BudgetTable(options.client, options.table);
    this.#now = options.now ?? Date.now;
  }

  async reserve(maxUsd: number): Promise<Reservation | 'held'> {
    const amount = toNanos(maxUsd);
    for (;;) {
      const purses = await this.#exclusive(() => this.#take(amount));
      if (purses !== 'held') return this.#reservation(purses, amount);
      // Calls in flight mostly cost less than they reserved. The money that they give back may be enough.
      if (![...this.#purses.values()].some(({ inFlight }) => inFlight > 0)) return 'held';
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
    const paid = toNanos(bookable(paidUsd));
    const ended = await Promise.all(scopes.map((scope) => this.#account(scope).settleDeposit(name, paid)));
    return ended.some(Boolean);
  }

  #account(scope: string): Account {
    return new Account({ table: this.#table, scope, now: this.#now });
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

  /** Returns the purses of the current accounts. The purse of a past day remains until `close`. */
  #current(): Purse[] {
    const { dailyUsd, runUsd, run } = this.#options;
    const caps = [
      ...(runUsd === undefined ? [] : [{ scope: runScope(run), usd: runUsd }]),
      ...(dailyUsd === undefined || dailyUsd === 0 ? [] : [{ scope: dayScope(this.#now()), usd: dailyUsd }]),
    ];
    return caps.map(({ scope, usd }) => {
      const known = this.#purses.get(scope);
      if (known !== undefined) return known;
      const purse = new Purse(this.#account(scope), Math.floor(usd * NANOS_PER_USD), this.#now);
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

  /** Renews the leases while a slow judge answers. */
  #keepAlive(): void {
    this.#timer ??= setInterval(() => {
      const renewed = this.#exclusive(async () => {
        for (const purse of this.#purses.values()) await purse.renew();
      });
      // The next reserve or settle fails in the same way and reports it.
      renewed.catch(() => {});
    }, RENEW_MS).unref();
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work, work);
    this.#queue = done.catch(() => {});
    return done;
  }
}
