/**
 * Locks that all functions of the stack share. Each lock is an item, or the claim of an item that also stores a value.
 * The item has its owner, the time at which the lock ends, and a revision that grows whenever an owner takes it. An
 * owner takes the lock if it is free, already its own, or expired: the locks of a killed function are free after a
 * minute.
 *
 *     const lock = new Lock({ table, owner: context.awsRequestId });
 *     await lock.during(scopes, async (items, assertHeld) => {
 *       …               // read what others may have written
 *       assertHeld();   // right before each write: it throws if a lock was lost, as in a function that was suspended
 *       …               // write
 *       await lock.release(scope, { expression: 'SET #fact = :fact', values: { fact } });
 *     });
 *
 * A function creates one `Lock`, with an owner that no other attempt has: two attempts with the same owner would both
 * have the lock.
 *
 * With `acquire` and `release` a run may leave its work to the owner of the lock: it writes down the work, then tries
 * to take the lock. The owner looks for work again after it has released the lock.
 */

import { RetryableError } from '../core/errors/errors.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { asNumber, type Clock, expiry, type Item, type ItemChange, type LimitsTable, realClock } from './table.ts';

/** The owner of a lock or its chunk, and when the lock ends unless it is renewed. */
interface Holder {
  owner: string;
  /** Epoch milliseconds. */
  untilMs: number;
}

interface LockOptions {
  table: LimitsTable;
  /** Up to 256 bytes. */
  owner: string;
  /** The owner's work, for readers of the item. */
  chunk?: string;
  clock?: Clock;
}

/** How long a lock lasts. `during` renews it after each third of this time. */
const HOLD_MS = 60_000;
/** Waiting callers try again after a random time of up to this, so that they do not return together. */
const LONGEST_PAUSE_MS = 1_000;
const SCOPES_AT_ONCE = 32;
/**
 * Twice the lifetime of a function. A lock that lasts longer comes from a wrong clock, and would remain for as long: it
 * counts as free.
 */
const LONGEST_MS = 1_800_000;

export class Lock {
  readonly #table: LimitsTable;
  readonly #who: { owner: string; chunk: string };
  readonly #clock: Clock;
  /** The locks that this owner has taken, and until when they are ours for certain, epoch milliseconds. */
  readonly #held = new Map<string, { revision: number; untilMs: number }>();

  constructor({ table, owner, chunk = '', clock = realClock }: LockOptions) {
    this.#table = table;
    this.#who = { owner, chunk };
    this.#clock = clock;
  }

  /**
   * Takes a lock.
   *
   * @param scope the key of the item, up to 1,000 bytes
   * @returns the item before the change, empty if it did not exist; or the other owner that has the lock
   */
  async acquire(
    scope: string,
    holdMs = HOLD_MS,
  ): Promise<{ item: Item; other?: never } | { item?: never; other: Holder }> {
    for (let least = 0; ; ) {
      const now = this.#clock.now();
      const revision = Math.max(now, least);
      const most = now + LONGEST_MS;
      const untilMs = now + holdMs;
      // Other values in the item are kept equally long.
      const ttl = expiry(untilMs);
      const item = await this.#table.update({
        scope,
        expression: 'SET #owner = :owner, #chunk = :chunk, #until = :until, #revision = :revision, #ttl = :ttl',
        condition:
          '(attribute_not_exists(#revision) OR #revision < :revision) AND (attribute_not_exists(#owner) OR #owner = :owner OR #until <= :now OR #until > :most)',
        values: { ...this.#who, until: untilMs, revision, ttl, now, most },
        returns: 'ALL_OLD',
      });
      if (item !== undefined) {
        this.#held.set(scope, { revision, untilMs });
        return { item };
      }
      const { owner, chunk, until, revision: known } = await this.#table.get(scope);
      const other = { owner: chunk?.S || owner?.S || '', untilMs: asNumber(until) };
      const isFree = owner === undefined || owner.S === this.#who.owner || other.untilMs <= now || other.untilMs > most;
      if (!isFree) return { other };
      // The lock was released in the meantime, or its revision comes from a clock that is ahead.
      least = asNumber(known) + 1;
    }
  }

  /** Returns the revision of a lock that this owner has. */
  revisionOf(scope: string): number | undefined {
    return this.#held.get(scope)?.revision;
  }

  /**
   * Releases a lock, and changes the item in the same write. The expression must be a `SET`.
   *
   * @throws RetryableError `LockLost` if another owner has taken the lock since; then the item is not changed
   */
  async release(scope: string, { expression = '', values = {} }: Partial<ItemChange> = {}): Promise<void> {
    const { revision } = this.#held.get(scope) ?? { revision: -1 };
    this.#held.delete(scope);
    const made = await this.#table.update({
      scope,
      expression: `${expression} REMOVE #owner, #chunk, #until`.trim(),
      // The owner may already be removed: the SDK repeats a request whose reply is lost.
      condition: '#revision = :revision',
      values: { ...values, revision },
    });
    if (made === undefined) throw lost(scope);
  }

  /**
   * Does the work for items while it holds their locks, and never without them: first for free items, then for the
   * rest. It holds no lock while it waits.
   *
   * @param work gets the items by scope as they were, and a function that throws RetryableError `LockLost` if a lock
   *   may end within 20 seconds. Locks that it has not released are released after it.
   * @param beginBy epoch milliseconds after which it does not start
   * @throws RetryableError `LockTaken` when another owner still has one of the locks at `beginBy`
   */
  async during(
    scopes: Iterable<string>,
    work: (items: ReadonlyMap<string, Item>, assertHeld: () => void) => Promise<void>,
    beginBy = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    for (let left = [...new Set(scopes)]; ; ) {
      let taken: RetryableError | undefined;
      const items = new Map<string, Item>();
      const take = async (scope: string): Promise<void> => {
        const { item, other } = await this.acquire(scope);
        if (item !== undefined) items.set(scope, item);
        else taken = takenBy(other, scope);
      };
      try {
        await forEachConcurrently(SCOPES_AT_ONCE, left, take);
        if (items.size > 0) await this.#renewed([...items.keys()], () => work(items, () => this.#assertHeld(items)));
      } finally {
        await this.#giveBack(items.keys());
      }
      if (taken === undefined) return;
      left = left.filter((scope) => !items.has(scope));
      const pauseMs = Math.random() * LONGEST_PAUSE_MS;
      if (this.#clock.now() + pauseMs > beginBy) throw taken;
      await this.#clock.sleep(pauseMs);
    }
  }

  /** Renews the locks until the work has ended. */
  async #renewed(scopes: readonly string[], work: () => Promise<void>): Promise<void> {
    const ended = new AbortController();
    const third = () => this.#clock.sleep(HOLD_MS / 3, ended.signal).catch(() => undefined);
    const renewal = (async () => {
      for (await third(); !ended.signal.aborted; await third()) {
        await forEachConcurrently(SCOPES_AT_ONCE, scopes, (scope) => this.#renew(scope));
      }
    })();
    try {
      await work();
    } finally {
      ended.abort();
      await renewal;
    }
  }

  async #renew(scope: string): Promise<void> {
    const held = this.#held.get(scope);
    if (held === undefined) return;
    const until = this.#clock.now() + HOLD_MS;
    const change = {
      scope,
      expression: 'SET #until = :until',
      condition: '#owner = :owner AND #revision = :revision',
      values: { owner: this.#who.owner, revision: held.revision, until },
    };
    // Without a reply, the lock ends when its time is over.
    const made = await this.#table.update(change).catch(() => 'unknown' as const);
    if (made !== 'unknown') held.untilMs = made === undefined ? 0 : until;
  }

  #assertHeld(items: ReadonlyMap<string, Item>): void {
    const least = this.#clock.now() + HOLD_MS / 3;
    for (const scope of items.keys()) {
      if ((this.#held.get(scope)?.untilMs ?? Infinity) < least) throw lost(scope);
    }
  }

  /** A lock that cannot be given back ends by itself. */
  async #giveBack(scopes: Iterable<string>): Promise<void> {
    const left = [...scopes].filter((scope) => this.#held.has(scope));
    await forEachConcurrently(SCOPES_AT_ONCE, left, (scope) => this.release(scope).catch(() => undefined));
  }
}

const lost = (scope: string): RetryableError =>
  new RetryableError('LockLost', 'The lock was not renewed in time', { where: scope });

const takenBy = ({ owner, untilMs }: Holder, scope: string): RetryableError =>
  new RetryableError('LockTaken', 'Another run has the lock', {
    got: `taken by ${owner} until ${new Date(untilMs).toISOString()}`,
    where: scope,
  });
