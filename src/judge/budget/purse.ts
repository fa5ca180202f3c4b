/**
 * What one Lambda holds of an account: a lease from which it pays call by call, so that DynamoDB is asked once for many
 * calls while there is plenty, and for every call near the cap.
 */
import type { Account, Lease, Nanos } from './account.ts';

/** A lease takes this share of what is left, so that near the cap nobody sits on much of it … */
const SHARE_OF_REST = 0.02;
/** … and never more than this many of the dearest call so far, so that a Lambda that dies holds up little. */
const MAX_CALLS_ON_LEASE = 64;
/** Spending is reported, and the lease renewed, at least this often while calls end. */
const REPORT_MS = 5_000;
/** A lease without calls that end (a slow judge) is renewed this long before it runs out. */
export const RENEW_MS = 40_000;

/** For this long nobody is asked again after the cap left no room: money of other Lambdas may come free any moment. */
const FULL_MEMORY_MS = 1_000;

/** At any time: amount of the lease = free + reserved + unreported. */
export class Purse {
  readonly account: Account;
  readonly cap: Nanos;
  readonly #id: string;
  readonly #now: () => number;
  #lease: Lease | undefined;
  /** Of the lease, not reserved by a call under way; below zero when more is reserved or paid than the lease covers. */
  #free: Nanos = 0;
  /** Of calls under way. */
  #reserved: Nanos = 0;
  /** Paid and not yet reported. */
  #unreported: Nanos = 0;
  #underWay = 0;
  #closed = false;
  #writtenAt = 0;
  #dearest: Nanos = 0;
  /** The smallest amount that did not fit, and until when that is remembered. */
  #full = { amount: Number.POSITIVE_INFINITY, until: 0 };

  constructor(account: Account, cap: Nanos, id: string, now: () => number) {
    this.account = account;
    this.cap = cap;
    this.#id = id;
    this.#now = now;
  }

  /** Calls of this Lambda that have reserved and not settled. */
  get underWay(): number {
    return this.#underWay;
  }

  /**
   * Sets money aside for one call, from the lease or by a larger lease. One at a time: see `LeasedBudget`.
   * @returns whether there was room
   */
  async reserve(amount: Nanos): Promise<boolean> {
    this.#dearest = Math.max(this.#dearest, amount);
    // What calls give back or cost beyond their maximum while the lease is extended counts as well: hence `while`.
    while (amount > this.#free) {
      if (!(await this.#extend(amount - this.#free))) return false;
    }
    this.#free -= amount;
    this.#reserved += amount;
    this.#underWay += 1;
    return true;
  }

  /** Undoes a reservation whose call will not be made. */
  release(amount: Nanos): void {
    // What was under way when the purse was closed is booked at its maximum.
    if (this.#closed) return;
    this.#free += amount;
    this.#reserved -= amount;
    this.#underWay -= 1;
  }

  settle(reserved: Nanos, actual: Nanos): void {
    if (this.#closed) return;
    this.release(reserved);
    this.#free -= actual;
    this.#unreported += actual;
  }

  /** Reports what was paid when that is due. One at a time: see `LeasedBudget`. */
  async report(): Promise<void> {
    const due = this.#now() - this.#writtenAt >= REPORT_MS || this.#free < 0;
    if (due && this.#unreported > 0) await this.#write(0, false);
  }

  /** Keeps the lease while calls are under way. One at a time: see `LeasedBudget`. */
  async renew(): Promise<void> {
    if (this.#lease !== undefined && this.#underWay > 0 && this.#now() - this.#writtenAt >= RENEW_MS) {
      await this.#write(0, false);
    }
  }

  /** Reports the rest and gives back what is not used; calls still under way are booked at what they reserved. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unreported += this.#reserved;
    this.#reserved = 0;
    if (this.#lease !== undefined || this.#unreported > 0) await this.#write(0, true);
  }

  /** The same, but what is reserved becomes a deposit. @returns whether there is one */
  async closeWithDeposit(name: string): Promise<boolean> {
    const amount = this.#reserved;
    if (amount === 0) {
      await this.close();
      return false;
    }
    this.#closed = true;
    this.#reserved = 0;
    await this.#write(0, true, { name, amount });
    return true;
  }

  get #rest(): Nanos {
    return this.cap - (this.account.committed ?? 0);
  }

  /** Adds at least `needed` to the lease. */
  async #extend(needed: Nanos): Promise<boolean> {
    if (needed >= this.#full.amount && this.#now() < this.#full.until) return false;
    if (this.account.committed === undefined) await this.account.read();
    const generous = Math.min(this.#rest * SHARE_OF_REST, this.#dearest * MAX_CALLS_ON_LEASE);
    const wanted = Math.max(needed, Math.floor(generous));
    if (await this.#write(wanted, false)) return true;
    const state = await this.account.read();
    await this.account.reclaim(state);
    if (this.#rest >= needed && (await this.#write(needed, false))) return true;
    this.#full = { amount: needed, until: this.#now() + FULL_MEMORY_MS };
    return false;
  }

  /** @returns false when the cap left no room for `take`; the rest of the change is then not made either. */
  async #write(take: Nanos, end: boolean, deposit?: { name: string; amount: Nanos }): Promise<boolean> {
    const spent = this.#unreported;
    const result = await this.account.write(this.#id, this.#lease, { take, cap: this.cap, spent, end, deposit });
    if (result === 'full') return false;
    this.#lease = result === 'lost' ? undefined : result;
    this.#writtenAt = this.#now();
    this.#unreported -= spent;
    this.#free = (this.#lease?.amount ?? 0) - this.#reserved - this.#unreported;
    // This Lambda stood still past its lease, and another gave it back. What was paid is booked; a new lease starts.
    const isOpen = take > 0 || this.#unreported > 0 || deposit !== undefined;
    return result === 'lost' && isOpen ? this.#write(take, end, deposit) : true;
  }
}
