/**
 * One budget, of a day or of a run, as one DynamoDB item that all Lambdas share:
 *
 *     scope      partition key
 *     committed  what is spent and what is on lease, in nanodollars; every lease is taken on the condition that this
 *                stays within the cap, in one atomic write
 *     spent      what has really been paid, in nanodollars
 *     lease#<id> one per Lambda at work: {amount, seq, until}. `amount` is the part of `committed` it has not yet
 *                reported as spent; after `until` it is taken for dead, and anybody may give its lease back.
 *                A deposit is a lease that no Lambda holds: money for answers that come when the Lambda that asked for
 *                them has long ended
 */
import {
  type AttributeValue,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../../contract.ts';
import { namedTableError } from './table-errors.ts';

/** A lease that its Lambda does not renew for this long is given back. Judge calls end within a minute. */
export const LEASE_MS = 120_000;

/** As long as the answers to a batch of requests are kept: after that nobody can have anything to pay from a deposit. */
export const DEPOSIT_MS = 7 * 24 * 3_600_000;

/** What is kept of a day's or a run's figures: long enough to look them up for the month's bill. */
const TTL_SECONDS = 62 * 24 * 3600;

/** Nanodollars, as whole numbers: sums have no rounding, and 9 million dollars fit. */
export type Nanos = number;

export interface AccountState {
  committed: Nanos;
  spent: Nanos;
  leases: Map<string, Lease>;
}

export interface Lease {
  amount: Nanos;
  /** Number of the last write: tells a write that was repeated after a lost reply from one that lost a race. */
  seq: number;
  /** Epoch milliseconds. */
  until: number;
}

/** A change of a lease, made in one write. */
export interface LeaseChange {
  /** Nanodollars added to the lease, within `cap`. */
  take: Nanos;
  cap: Nanos;
  /** Nanodollars to report as paid. */
  spent: Nanos;
  /** The rest of the lease is given back. */
  end: boolean;
  /** Nanodollars of the lease that become a deposit of this name. */
  deposit?: { name: string; amount: Nanos } | undefined;
}

const LEASE_PREFIX = 'lease#';
const number = (value: number): AttributeValue => ({ N: String(value) });
const leaseValue = ({ amount, seq, until }: Lease): AttributeValue => ({
  M: { amount: number(amount), seq: number(seq), until: number(until) },
});
const asNumber = (value: AttributeValue | undefined): number => Number(value?.N ?? 0);

export class Account {
  readonly scope: string;
  readonly #client: DynamoDBClient;
  readonly #table: string;
  readonly #now: () => number;
  /** `committed` as this Lambda last saw it. */
  #seen: Nanos | undefined;

  constructor(options: { client: DynamoDBClient; table: string; scope: string; now: () => number }) {
    this.scope = options.scope;
    this.#client = options.client;
    this.#table = options.table;
    this.#now = options.now;
  }

  get #key(): Record<string, AttributeValue> {
    return { [budgetTable.partitionKey]: { S: this.scope } };
  }

  /** Nanodollars committed by all, as of the last read or write here; `undefined` before the first. */
  get committed(): Nanos | undefined {
    return this.#seen;
  }

  /** The item as it is now, zeros when there is none yet. */
  async read(): Promise<AccountState> {
    try {
      const { Item: item = {} } = await this.#client.send(
        new GetItemCommand({ TableName: this.#table, Key: this.#key, ConsistentRead: true }),
      );
      const leases = new Map<string, Lease>();
      for (const [name, value] of Object.entries(item)) {
        if (!name.startsWith(LEASE_PREFIX)) continue;
        const { amount, seq, until } = value.M ?? {};
        leases.set(name.slice(LEASE_PREFIX.length), {
          amount: asNumber(amount),
          seq: asNumber(seq),
          until: asNumber(until),
        });
      }
      this.#seen = asNumber(item.committed);
      return { committed: this.#seen, spent: asNumber(item.spent), leases };
    } catch (error) {
      throw namedTableError(error, this.#table, this.scope);
    }
  }

  /**
   * Writes a lease's new state: adds to it, reports what was paid from it, renews it, or ends it.
   *
   * @param previous the lease as this Lambda last wrote it; `undefined` for a new one
   * @returns the lease now (`undefined` when ended), `full` when the cap leaves no room, `lost` when the lease had run
   *   out and somebody gave it back: what was `spent` is booked all the same
   */
  async write(
    id: string,
    previous: Lease | undefined,
    change: LeaseChange,
  ): Promise<Lease | undefined | 'full' | 'lost'> {
    const { take, cap, spent, end, deposit } = change;
    if (take > cap) return 'full';
    // More may have been paid than was reserved: then the lease is used up, and the excess is committed on top.
    const left = (previous?.amount ?? 0) + take - spent - (deposit?.amount ?? 0);
    const next: Lease = { amount: Math.max(0, left), seq: (previous?.seq ?? 0) + 1, until: this.#now() + LEASE_MS };
    const committed = take + Math.max(0, -left) - (end ? next.amount : 0);
    const condition = [
      previous === undefined ? 'attribute_not_exists(#lease)' : '#lease.#seq = :seq',
      ...(take > 0 ? ['(attribute_not_exists(#committed) OR #committed <= :limit)'] : []),
      ...(deposit === undefined ? [] : ['attribute_not_exists(#deposit)']),
    ].join(' AND ');
    const set = `${end ? 'REMOVE #lease SET' : 'SET #lease = :lease,'}${deposit === undefined ? '' : ' #deposit = :deposit,'}`;
    const ok = await this.#update({
      expression: `${set} #committed = if_not_exists(#committed, :zero) + :committed, #spent = if_not_exists(#spent, :zero) + :spent, #ttl = :ttl`,
      condition,
      names: {
        '#lease': `${LEASE_PREFIX}${id}`,
        ...(previous === undefined ? {} : { '#seq': 'seq' }),
        ...(deposit === undefined ? {} : { '#deposit': `${LEASE_PREFIX}${deposit.name}` }),
      },
      values: {
        ':committed': number(committed),
        ':spent': number(spent),
        ...(end ? {} : { ':lease': leaseValue(next) }),
        ...(previous === undefined ? {} : { ':seq': number(previous.seq) }),
        ...(take > 0 ? { ':limit': number(cap - take) } : {}),
        ...(deposit === undefined
          ? {}
          : { ':deposit': leaseValue({ amount: deposit.amount, seq: 1, until: this.#now() + DEPOSIT_MS }) }),
      },
    });
    if (ok) return end ? undefined : next;
    return this.#afterRefusal(id, previous, next, change);
  }

  /** Why a conditional write did not go through; it may have, when its first reply was lost and the SDK sent it again. */
  async #afterRefusal(
    id: string,
    previous: Lease | undefined,
    next: Lease,
    { spent, end, deposit }: LeaseChange,
  ): Promise<Lease | undefined | 'full' | 'lost'> {
    const { leases } = await this.read();
    const stored = leases.get(id);
    // The deposit is there: this write went through, or that of an attempt at the same work that goes on elsewhere.
    if (deposit !== undefined && leases.has(deposit.name)) return undefined;
    if (stored !== undefined && stored.seq === next.seq) return next;
    if (stored?.seq === previous?.seq) return 'full';
    // A lease that has not run out is given back by nobody else: it is our own end that went through.
    if (end && previous !== undefined && this.#now() < previous.until) return undefined;
    if (spent > 0) await this.#book(spent);
    return 'lost';
  }

  /** Books money that no lease covers any more. */
  async #book(spent: Nanos): Promise<void> {
    await this.#update({
      expression:
        'SET #committed = if_not_exists(#committed, :zero) + :spent, #spent = if_not_exists(#spent, :zero) + :spent, #ttl = :ttl',
      names: {},
      values: { ':spent': number(spent) },
    });
  }

  /** Gives back the leases of Lambdas that are dead. @returns nanodollars that came free. */
  async reclaim(state: AccountState): Promise<Nanos> {
    let freed = 0;
    for (const [id, lease] of state.leases) {
      if (lease.until > this.#now()) continue;
      if (await this.#give(id, lease, 0)) freed += lease.amount;
    }
    return freed;
  }

  /**
   * Ends a deposit: what was paid is booked, the rest is given back.
   * @returns whether it was there; a deposit ends once, however often this is called
   */
  async settleDeposit(name: string, spent: Nanos): Promise<boolean> {
    const deposit = (await this.read()).leases.get(name);
    return deposit !== undefined && (await this.#give(name, deposit, spent));
  }

  /** Ends a lease in the state in which it was read. @returns false when it has ended or changed meanwhile. */
  #give(id: string, { amount, seq }: Lease, spent: Nanos): Promise<boolean> {
    return this.#update({
      expression: 'REMOVE #lease SET #committed = #committed + :change, #spent = #spent + :spent, #ttl = :ttl',
      condition: '#lease.#seq = :seq',
      names: { '#lease': `${LEASE_PREFIX}${id}`, '#seq': 'seq' },
      values: { ':change': number(spent - amount), ':spent': number(spent), ':seq': number(seq) },
    });
  }

  /** @returns whether the condition held. */
  async #update(update: {
    expression: string;
    condition?: string;
    names: Record<string, string>;
    values: Record<string, AttributeValue>;
  }): Promise<boolean> {
    try {
      const { Attributes: updated } = await this.#client.send(
        new UpdateItemCommand({
          TableName: this.#table,
          Key: this.#key,
          ReturnValues: 'UPDATED_NEW',
          UpdateExpression: update.expression,
          ...(update.condition === undefined ? {} : { ConditionExpression: update.condition }),
          ExpressionAttributeNames: {
            ...update.names,
            '#committed': 'committed',
            '#spent': 'spent',
            '#ttl': budgetTable.ttlAttribute,
          },
          ExpressionAttributeValues: {
            ...update.values,
            ...(update.expression.includes(':zero') ? { ':zero': number(0) } : {}),
            ':ttl': number(Math.floor(this.#now() / 1000) + TTL_SECONDS),
          },
        }),
      );
      this.#seen = asNumber(updated?.committed);
      return true;
    } catch (error) {
      if (error instanceof ConditionalCheckFailedException) return false;
      throw namedTableError(error, this.#table, this.scope);
    }
  }
}
