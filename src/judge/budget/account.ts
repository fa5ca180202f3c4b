/**
 * One budget, of a day or of a run, as one DynamoDB item that all Lambdas share:
 *
 *     scope      partition key
 *     committed  nanodollars that are spent or leased. A lease is taken on the condition that this stays within the cap, in
 *                one atomic write
 *     spent      nanodollars that were paid
 *     lease#<id> one per active Lambda: {amount, seq, until}. `amount` is the part of `committed` that the Lambda has not yet
 *                reported as spent. After `until` the Lambda counts as dead, and any other may give its lease back.
 *
 * A deposit is money for answers that arrive after the Lambda that asked for them has ended. Each deposit is a separate item,
 * `<scope>#deposit#<name>`, because a run has thousands and an item is limited to 400 KB:
 *
 *     amount     the part of `committed` that is set aside. It is removed when the deposit ends
 *     until      epoch milliseconds; distinguishes the deposit from another one with the same name
 *
 * A deposit is created and ended in one transaction with the account's item.
 */
import { asNumber, type BudgetTable, type ItemChange } from './budget-table.ts';

/** A lease that its Lambda does not renew for this long is given back. Judge calls end within a minute. */
export const LEASE_MS = 120_000;

/** As long as the answers to a batch of requests are kept. After that, nothing can be paid from a deposit. */
const DEPOSIT_MS = 7 * 24 * 3_600_000;

/** Time to keep the figures of a day or a run, long enough to check the monthly bill. */
const TTL_SECONDS = 62 * 24 * 3600;

/** Nanodollars as whole numbers, so that sums are not rounded. 9 million dollars fit. */
export type Nanos = number;

interface AccountState {
  committed: Nanos;
  spent: Nanos;
  leases: Map<string, Lease>;
}

export interface Lease {
  amount: Nanos;
  /** Number of the last write. Distinguishes a write that was repeated after a lost reply from one that lost a race. */
  seq: number;
  /** Epoch milliseconds. */
  until: number;
}

/** A change of a lease, made in one write. */
interface LeaseChange {
  /** Nanodollars to add to the lease, within `cap`. */
  take: Nanos;
  cap: Nanos;
  /** Nanodollars to report as paid. */
  spent: Nanos;
  /** Ends the lease and gives its rest back. */
  end: boolean;
  /** Nanodollars of the lease that become a deposit of this name. */
  deposit?: { name: string; amount: Nanos } | undefined;
}

/** A change of the account's item. */
interface AccountChange {
  /** Nanodollars to add. */
  committed: Nanos;
  spent: Nanos;
  /** Replaces the lease `previous` by `next`, if it is unchanged. Without `next` the lease is removed. */
  lease?: { id: string; previous: Lease | undefined; next: Lease | undefined };
  /** `committed` must not exceed this before the change. */
  limit?: Nanos | undefined;
}

const LEASE_PREFIX = 'lease#';

export class Account {
  readonly scope: string;
  readonly #table: BudgetTable;
  readonly #now: () => number;
  /** `committed` as this Lambda last saw it. */
  #seen: Nanos | undefined;

  constructor(options: { table: BudgetTable; scope: string; now: () => number }) {
    this.scope = options.scope;
    this.#table = options.table;
    this.#now = options.now;
  }

  /** Nanodollars committed by all Lambdas, as of the last read or write here; `undefined` before the first. */
  get committed(): Nanos | undefined {
    return this.#seen;
  }

  /** Reads the current item. Amounts are 0 if it does not exist yet. */
  async read(): Promise<AccountState> {
    const item = await this.#table.get(this.scope);
    const leases = new Map<string, Lease>();
    for (const [name, { M: lease = {} }] of Object.entries(item)) {
      if (!name.startsWith(LEASE_PREFIX)) continue;
      const { amount, seq, until } = lease;
      const id = name.slice(LEASE_PREFIX.length);
      leases.set(id, { amount: asNumber(amount), seq: asNumber(seq), until: asNumber(until) });
    }
    this.#seen = asNumber(item.committed);
    return { committed: this.#seen, spent: asNumber(item.spent), leases };
  }

  /**
   * Writes a lease's new state: adds to it, reports what was paid from it, renews it, or ends it.
   *
   * @param previous the lease as this Lambda last wrote it; `undefined` for a new one
   * @returns the lease now (`undefined` if it ended); `full` if the cap has no room; `lost` if the lease had expired and
   *   another Lambda gave it back, in which case `spent` is booked all the same
   */
  async write(
    id: string,
    previous: Lease | undefined,
    change: LeaseChange,
  ): Promise<Lease | undefined | 'full' | 'lost'> {
    const { take, cap, spent, end, deposit } = change;
    if (take > cap) return 'full';
    // If more was paid than reserved, the lease is used up and the excess is committed in addition.
    const left = (previous?.amount ?? 0) + take - spent - (deposit?.amount ?? 0);
    const next: Lease = { amount: Math.max(0, left), seq: (previous?.seq ?? 0) + 1, until: this.#now() + LEASE_MS };
    const update: AccountChange = {
      committed: take + Math.max(0, -left) - (end ? next.amount : 0),
      spent,
      lease: { id, previous, next: end ? undefined : next },
      limit: take > 0 ? cap - take : undefined,
    };
    if (await this.#update(update, deposit && this.#newDeposit(deposit))) return end ? undefined : next;
    return this.#afterRefusal(id, previous, next, change);
  }

  /** Finds out why a conditional write was refused. It may have succeeded if its reply was lost and the SDK repeated it. */
  async #afterRefusal(
    id: string,
    previous: Lease | undefined,
    next: Lease,
    { spent, end, deposit }: LeaseChange,
  ): Promise<Lease | undefined | 'full' | 'lost'> {
    const { leases } = await this.read();
    const stored = leases.get(id);
    // If the deposit exists, this write succeeded, or the write of a concurrent attempt at the same work did.
    if (deposit !== undefined && (await this.#deposit(deposit.name)) !== undefined) return undefined;
    if (stored !== undefined && stored.seq === next.seq) return next;
    if (stored?.seq === previous?.seq) return 'full';
    // Only its Lambda ends a lease that has not expired, so this write succeeded.
    if (end && previous !== undefined && this.#now() < previous.until) return undefined;
    if (spent > 0) await this.#update({ committed: spent, spent });
    return 'lost';
  }

  /** Gives back the leases of dead Lambdas. */
  async reclaim({ leases }: AccountState): Promise<void> {
    for (const [id, lease] of leases) {
      if (lease.until > this.#now()) continue;
      await this.#update({ committed: -lease.amount, spent: 0, lease: { id, previous: lease, next: undefined } });
    }
  }

  /**
   * Ends a deposit: books what was paid and gives the rest back.
   * @returns false if the deposit does not exist. It ends only once, however often this is called
   */
  async settleDeposit(name: string, spent: Nanos): Promise<boolean> {
    const deposit = await this.#deposit(name);
    if (deposit === undefined) return false;
    return this.#update(
      { committed: spent - deposit.amount, spent },
      {
        scope: this.#depositScope(name),
        expression: 'REMOVE #amount',
        condition: '#amount = :amount AND #until = :until',
        values: deposit,
      },
    );
  }

  /** Returns a deposit that has not ended. */
  async #deposit(name: string): Promise<{ amount: Nanos; until: number } | undefined> {
    const { amount, until } = await this.#table.get(this.#depositScope(name));
    return amount === undefined ? undefined : { amount: asNumber(amount), until: asNumber(until) };
  }

  #depositScope(name: string): string {
    return `${this.scope}#deposit#${name}`;
  }

  #newDeposit({ name, amount }: { name: string; amount: Nanos }): ItemChange {
    const until = this.#now() + DEPOSIT_MS;
    return {
      scope: this.#depositScope(name),
      expression: 'SET #amount = :amount, #until = :until, #ttl = :ttl',
      condition: 'attribute_not_exists(#amount)',
      values: { amount, until, ttl: Math.ceil(until / 1000) },
    };
  }

  /**
   * @param other a change of another item, made in the same transaction
   * @returns whether the conditions were met
   */
  async #update({ committed, spent, lease, limit }: AccountChange, other?: ItemChange): Promise<boolean> {
    const conditions: string[] = [];
    const values: ItemChange['values'] = { committed, spent, ttl: Math.floor(this.#now() / 1000) + TTL_SECONDS };
    if (lease?.next !== undefined) values.lease = lease.next;
    if (lease?.previous !== undefined) {
      values.seq = lease.previous.seq;
      conditions.push('#lease.#seq = :seq');
    } else if (lease !== undefined) conditions.push('attribute_not_exists(#lease)');
    if (limit !== undefined) {
      values.limit = limit;
      conditions.push('(attribute_not_exists(#committed) OR #committed <= :limit)');
    }
    const leaseClause = lease === undefined ? '' : lease.next === undefined ? ' REMOVE #lease' : ', #lease = :lease';
    const change: ItemChange = {
      scope: this.scope,
      expression: `SET #ttl = :ttl${leaseClause} ADD #committed :committed, #spent :spent`,
      condition: conditions.length === 0 ? undefined : conditions.join(' AND '),
      names: lease === undefined ? {} : { '#lease': `${LEASE_PREFIX}${lease.id}` },
      values,
    };
    const changed = await this.#table.update(change, other);
    if (changed?.committed !== undefined) this.#seen = asNumber(changed.committed);
    return changed !== undefined;
  }
}
