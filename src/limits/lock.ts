/**
 * Locks that all functions of the stack share. The item of a lock has its owner and the time at which it ends. An owner takes it if it
 * is free, if it is its own already, or if its time is over: the locks of a function that was killed are free after a minute.
 *
 *     const lock = new Lock({ table, owner: context.awsRequestId });
 *     await lock.during(names, async (assertHeld) => {
 *       …               // read what others may have written
 *       assertHeld();   // right before each write: it throws if a lock was lost, as in a function that was suspended
 *       …               // write
 *     });
 *
 * A function makes one `Lock`, with an owner that no other attempt has: two attempts with one owner would both have the lock. Pieces
 * of work of one function share it, and it is given back after the last of them.
 *
 * For work that continues in another function, use `acquire`, `renew` and `release`, with an owner that those functions share. A run may leave
 * its work to the one that has the lock: it writes down the work, then tries to take the lock; the other one looks for work again
 * after it has released the lock.
 */

import { RetryableError } from '../core/errors/errors.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { asNumber, type Clock, type LimitsTable, realClock } from './table.ts';

/** The owner of a lock, and when it ends unless it is renewed. */
export interface Holder {
  owner: string;
  /** Epoch milliseconds. */
  untilMs: number;
}

interface LockOptions {
  table: LimitsTable;
  /** Up to 256 bytes. */
  owner: string;
  clock?: Clock;
}

/** How long a lock lasts. `during` renews it at each third of this time. */
export const HOLD_MS = 60_000;
/** Waiting callers try again after a random time of up to this, so that they do not return together. */
const LONGEST_PAUSE_MS = 1_000;
const NAMES_AT_ONCE = 16;
/** Twice as long as a function lives. A lock that lasts longer is of one with a wrong clock, and would stay for as long: it counts as free. */
const LONGEST_MS = 1_800_000;
/** DynamoDB deletes the item this long after the lock has ended. */
const KEPT_SECONDS = 86_400;

/** A lock in `during`. */
interface Use {
  /** Pieces of work that have or take it. */
  count: number;
  /** Until when it is ours for certain, epoch milliseconds. */
  untilMs: number;
  /** Serializes its requests, so that no release comes after a later `acquire`. */
  queue: Promise<unknown>;
}

export class Lock {
  readonly #table: LimitsTable;
  readonly #owner: string;
  readonly #clock: Clock;
  readonly #uses = new Map<string, Use>();

  constructor({ table, owner, clock = realClock }: LockOptions) {
    this.#table = table;
    this.#owner = owner;
    this.#clock = clock;
  }

  /**
   * Takes or renews a lock.
   *
   * @param name up to 1,000 bytes
   * @returns the other owner that has it; `undefined` when it is ours
   */
  async acquire(name: string, holdMs = HOLD_MS): Promise<Holder | undefined> {
    for (;;) {
      const now = this.#clock.now();
      const most = now + LONGEST_MS;
      const isFree = '(attribute_not_exists(#owner) OR #owner = :owner OR #until <= :now OR #until > :most)';
      if (await this.#write(name, holdMs, isFree, { now, most })) return undefined;
      const { owner, until } = await this.#table.get(scopeOf(name));
      // It may have been released in the meantime.
      if (owner?.S !== undefined) return { owner: owner.S, untilMs: asNumber(until) };
    }
  }

  /** @returns false when another owner has taken the lock */
  renew(name: string): Promise<boolean> {
    return this.#write(name, HOLD_MS, '#owner = :owner');
  }

  /** Gives the lock back, if it is ours. */
  async release(name: string): Promise<void> {
    const values = { owner: this.#owner };
    const expression = 'REMOVE #owner, #until';
    await this.#table.update({ scope: scopeOf(name), expression, condition: '#owner = :owner', values });
  }

  /**
   * Does the work while it has all of the locks, and never without them. It keeps none of them while it waits for one.
   *
   * @param work gets a function that throws RetryableError `LockLost` if a lock may end within 20 seconds
   * @param beginBy epoch milliseconds after which it does not begin
   * @throws RetryableError `LockTaken` when another owner still has one of the locks at `beginBy`
   */
  async during<T>(
    names: Iterable<string>,
    work: (assertHeld: () => void) => Promise<T>,
    beginBy = Number.POSITIVE_INFINITY,
  ): Promise<T> {
    const all = [...new Set(names)].sort();
    for (;;) {
      const other = await this.#acquireAll(all);
      if (other === undefined) break;
      const pauseMs = Math.random() * LONGEST_PAUSE_MS;
      if (this.#clock.now() + pauseMs > beginBy) throw other;
      await this.#clock.sleep(pauseMs);
    }
    const ended = new AbortController();
    const renewal = this.#keep(all, ended.signal);
    try {
      return await work(() => this.#assertHeld(all));
    } finally {
      ended.abort();
      await renewal;
      await this.#giveBack(all);
    }
  }

  /** Takes all of the locks, or keeps none. @returns the error that names a lock of another owner */
  async #acquireAll(names: readonly string[]): Promise<RetryableError | undefined> {
    for (const name of names) this.#useOf(name).count += 1;
    try {
      await forEachConcurrently(NAMES_AT_ONCE, names, (name) => this.#serialized(name, () => this.#acquireOne(name)));
      return undefined;
    } catch (error) {
      await this.#giveBack(names);
      if (error instanceof RetryableError && error.name === 'LockTaken') return error;
      throw error;
    }
  }

  async #acquireOne(name: string): Promise<void> {
    const use = this.#useOf(name);
    const now = this.#clock.now();
    // Another piece of work has it. The first renewal here comes after a third of the time, and a third must be left then.
    if (use.untilMs - now > 0.75 * HOLD_MS) return;
    const other = await this.acquire(name);
    if (other === undefined) use.untilMs = now + HOLD_MS;
    else {
      const facts = { got: `taken by ${other.owner} until ${new Date(other.untilMs).toISOString()}`, where: name };
      throw new RetryableError('LockTaken', 'Another run has the lock', facts);
    }
  }

  /** Renews the locks until the work has ended. */
  async #keep(names: readonly string[], ended: AbortSignal): Promise<void> {
    const third = () => this.#clock.sleep(HOLD_MS / 3, ended).catch(() => undefined);
    for (await third(); !ended.aborted; await third()) {
      await forEachConcurrently(NAMES_AT_ONCE, names, async (name) => {
        const use = this.#useOf(name);
        const now = this.#clock.now();
        // Without an answer it ends when its time is over.
        const isOurs = await this.renew(name).catch(() => undefined);
        if (isOurs !== undefined) use.untilMs = isOurs ? now + HOLD_MS : 0;
      });
    }
  }

  #assertHeld(names: readonly string[]): void {
    const least = this.#clock.now() + HOLD_MS / 3;
    const lost = names.find((name) => this.#useOf(name).untilMs < least);
    if (lost !== undefined) throw new RetryableError('LockLost', 'The lock was not renewed in time', { where: lost });
  }

  /** A lock that cannot be given back ends by itself. */
  async #giveBack(names: readonly string[]): Promise<void> {
    await forEachConcurrently(NAMES_AT_ONCE, names, (name) => {
      const use = this.#useOf(name);
      use.count -= 1;
      return this.#serialized(name, async () => {
        if (use.count > 0) return;
        if (use.untilMs > 0) await this.release(name).catch(() => undefined);
        use.untilMs = 0;
        if (use.count === 0) this.#uses.delete(name);
      });
    });
  }

  #useOf(name: string): Use {
    const use = this.#uses.get(name) ?? { count: 0, untilMs: 0, queue: Promise.resolve() };
    this.#uses.set(name, use);
    return use;
  }

  #serialized<T>(name: string, work: () => Promise<T>): Promise<T> {
    const use = this.#useOf(name);
    const done = use.queue.then(work);
    use.queue = done.catch(() => undefined);
    return done;
  }

  async #write(name: string, holdMs: number, condition: string, values: Record<string, number> = {}): Promise<boolean> {
    const until = this.#clock.now() + holdMs;
    const made = await this.#table.update({
      scope: scopeOf(name),
      expression: 'SET #owner = :owner, #until = :until, #ttl = :ttl',
      condition,
      values: { ...values, owner: this.#owner, until, ttl: Math.ceil(until / 1000) + KEPT_SECONDS },
    });
    return made !== undefined;
  }
}

const scopeOf = (name: string): string => `lock#${name}`;
