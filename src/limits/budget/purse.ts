/**
 * One Lambda's part of an account: a lease from which it pays call by call. DynamoDB is asked once for many calls while much
 * money is left, and for every call near the cap.
 */
import { RetryableError } from '../../core/errors/errors.ts';
import { type Account, LEASE_MS, type Lease, type Nanos } from './account.ts';

/** A lease takes this share of the remaining money, so that near the cap no Lambda reserves much of it … */
const SHARE_OF_REST = 0.02;
/** … and at most this many times the most expensive call so far, so that a Lambda that crashes blocks little. */
const MAX_CALLS_ON_LEASE = 64;
/** While calls end, spending is reported and the lease renewed at least this often. */
const REPORT_MS = 5_000;
/** If no calls end because the judge is slow, the lease is renewed this long after the last write. */
export const RENEW_MS = 40_000;

/** After the cap had no room, DynamoDB is not asked again for this long. Other Lambdas may give money back at any time. */
const FULL_MEMORY_MS = 1_000;

/** Invariant: amount of the lease = free + reserved + unreported. */
export class Purse {
  readonly account: Account;
  readonly cap: Nanos;
  readonly #now: () => number;
  #lease: Lease | undefined;
  /** The part of the lease that no call has reserved. Negative if more is reserved or paid than the lease covers. */
  #free: Nanos = 0;
  /** Reserved by calls in flight. */
  #reserved: Nanos = 0;
  /** Paid and not yet reported. */
  #unreported: Nanos = 0;
  #inFlight = 0;
  #closed = false;
  #writtenAt = 0;
  #mostExpensive: Nanos = 0;
  /** The smallest amount that did not fit, and how long that is remembered. */
  #full = { amount: Number.POSITIVE_INFINITY, until: 0 };

  constructor(account: Account, cap: Nanos, now: () => number) {
    this.account = account;
    this.cap = cap;
    this.#now = now;
  }

  /** Calls of this Lambda that have reserved but not settled. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Reserves money for one call, from the lease or by extending it. Must not run concurrently: see `LeasedBudget`.
   * @returns whether there was room
   */
  async reserve(amount: Nanos): Promise<boolean> {
    this.#mostExpensive = Math.max(this.#mostExpensive, amount);
    // A loop, because calls can give money back or exceed their maximum while the lease is extended.
    while (amount > this.#free) {
      if (!(await this.#extend(amount - this.#free))) return false;
    }
    this.#free -= amount;
    this.#reserved += amount;
    this.#inFlight += 1;
    return true;
  }

  /** Cancels a reservation whose call will not be made. */
  release(amount: Nanos): void {
    // Calls that were in flight when the purse was closed are booked at their maximum.
    if (this.#closed) return;
    this.#free += amount;
    this.#reserved -= amount;
    this.#inFlight -= 1;
  }

  settle(reserved: Nanos, actual: Nanos): void {
    if (this.#closed) return;
    this.release(reserved);
    this.#free -= actual;
    this.#unreported += actual;
  }

  /** Reports payments when that is due. Must not run concurrently: see `LeasedBudget`. */
  async report(): Promise<void> {
    const due = this.#now() - this.#writtenAt >= REPORT_MS || this.#free < 0;
    if (due && this.#unreported > 0) await this.#write(0, false);
  }

  /** Renews the lease while calls are in flight. Must not run concurrently: see `LeasedBudget`. */
  async renew(): Promise<void> {
    if (this.#lease !== undefined && this.#inFlight > 0 && this.#now() - this.#writtenAt >= RENEW_MS) {
      await this.#write(0, false);
    }
  }

  /** Reports the remaining payments and gives unused money back. Calls still in flight are booked at their maximum. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unreported += this.#reserved;
    this.#reserved = 0;
    if (this.#lease !== undefined || this.#unreported > 0) await this.#write(0, true);
  }

  /** Closes, and makes a deposit of the reserved money. @returns false if nothing was reserved */
  async closeWithDeposit(name: string): Promise<boolean> {
    const amount = this.#reserved;
    if (amount === 0) {
      await this.close();
      return false;
    }
    this.#closed = true;
    this.#reserved = 0;
    if (await this.#write(0, true, { name, amount })) return true;
    throw new RetryableError('BudgetTableUnavailable', 'The lease of the deposit has expired', {
      got: `no renewal for ${LEASE_MS} ms`,
      where: this.account.scope,
    });
  }

  get #rest(): Nanos {
    return this.cap - (this.account.committed ?? 0);
  }

  /** Adds at least `needed` to the lease. */
  async #extend(needed: Nanos): Promise<boolean> {
    if (needed >= this.#full.amount && this.#now() < this.#full.until) return false;
    if (this.account.committed === undefined) await this.account.read();
    const generous = Math.min(this.#rest * SHARE_OF_REST, this.#mostExpensive * MAX_CALLS_ON_LEASE);
    // DynamoDB charges for a refused write as for one that is made, and a read does not slow down the writers.
    if (this.#rest >= needed && (await this.#write(Math.max(needed, Math.floor(generous)), false))) return true;
    const state = await this.account.read();
    if (this.#rest < needed) await this.account.reclaim(state);
    if (this.#rest >= needed && (await this.#write(needed, false))) return true;
    this.#full = { amount: needed, until: this.#now() + FULL_MEMORY_MS * (0.5 + Math.random()) };
    return false;
  }

  /**
   * @returns false if the cap has no room for `take`, or the lease of the deposit is lost. The rest of the change is then not
   *   made either
   */
  async #write(take: Nanos, end: boolean, deposit?: { name: string; amount: Nanos }): Promise<boolean> {
    const spent = this.#unreported;
    const result = await this.account.write(this.#lease, { take, cap: this.cap, spent, end, deposit });
    if (result === 'full') return false;
    this.#lease = result === 'lost' ? undefined : result;
    this.#writtenAt = this.#now();
    this.#unreported -= spent;
    this.#free = (this.#lease?.amount ?? 0) - this.#reserved - this.#unreported;
    // This Lambda was suspended past the end of its lease, and another gave it back. Payments are booked; a new lease starts.
    if (result !== 'lost') return true;
    if (deposit !== undefined) return false;
    return take > 0 || this.#unreported > 0 ? this.#write(take, end) : true;
  }
}
