/**
 * One budget, of a day or of a run, as one DynamoDB item that all Lambdas share:
 *
 *     scope      partition key
 *     committed  what is spent and what is on lease, in nanodollars; every lease is taken on the condition that this
 *                stays within the cap, in one atomic write
 *     spent      what has really been paid, in nanodollars
 *     lease#<id> one per Lambda at work: {amount, seq, until}. `amount` is the part of `committed` it has not yet
 *                reported as spent; after `until` it is taken for dead, and anybody may give its lease back.
 *
 * A deposit is money for answers that come when the Lambda that asked for them has long ended. Each is an item of its own,
 * `<scope>#deposit#<name>`, since a run has thousands and an item has room for 400 KB:
 *
 *     amount     the part of `committed` that is set aside; removed when the deposit ends
 *     until      epoch milliseconds, tells it from another one of that name
 *
 * It is made, and ended, in one transaction with the account's own item.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AttributeValue,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  TransactionCanceledException,
  TransactWriteItemsCommand,
  type Update,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../../contract/names.ts';
import { namedTableError } from './table-errors.ts';

/** A lease that its Lambda does not renew for this long is given back. Judge calls end within a minute. */
export const LEASE_MS = 120_000;

/** As long as the answers to a batch of requests are kept: after that nobody can have anything to pay from a deposit. */
const DEPOSIT_MS = 7 * 24 * 3_600_000;

/** What is kept of a day's or a run's figures: long enough to look them up for the month's bill. */
const TTL_SECONDS = 62 * 24 * 3600;

/** Nanodollars, as whole numbers: sums have no rounding, and 9 million dollars fit. */
export type Nanos = number;

interface AccountState {
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
interface LeaseChange {
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

/** A transaction, or a write that meets one under way, is refused at once: it takes some 10 ms. */
const CONFLICT_ATTEMPTS = 10;
const CONFLICT_WAIT_MS = 50;

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
    const item = await this.#get(this.#key);
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
  }

  async #get(key: Record<string, AttributeValue>): Promise<Record<string, AttributeValue>> {
    try {
      const command = new GetItemCommand({ TableName: this.#table, Key: key, ConsistentRead: true });
      return (await this.#client.send(command)).Item ?? {};
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
    ].join(' AND ');
    const update = {
      expression: `${end ? 'REMOVE #lease SET' : 'SET #lease = :lease,'} #committed = if_not_exists(#committed, :zero) + :committed, #spent = if_not_exists(#spent, :zero) + :spent, #ttl = :ttl`,
      condition,
      names: {
        '#lease': `${LEASE_PREFIX}${id}`,
        ...(previous === undefined ? {} : { '#seq': 'seq' }),
      },
      values: {
        ':committed': number(committed),
        ':spent': number(spent),
        ...(end ? {} : { ':lease': leaseValue(next) }),
        ...(previous === undefined ? {} : { ':seq': number(previous.seq) }),
        ...(take > 0 ? { ':limit': number(cap - take) } : {}),
      },
    };
    if (await this.#update(update, deposit && this.#depositMade(deposit))) return end ? undefined : next;
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
    if (deposit !== undefined && (await this.#deposit(deposit.name)) !== undefined) return undefined;
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
    const deposit = await this.#deposit(name);
    if (deposit === undefined) return false;
    const change = {
      expression: 'SET #committed = #committed + :change, #spent = #spent + :spent, #ttl = :ttl',
      names: {},
      values: { ':change': number(spent - deposit.amount), ':spent': number(spent) },
    };
    return this.#update(change, {
      ...this.#ofDeposit(name),
      UpdateExpression: 'REMOVE #amount',
      ConditionExpression: '#amount = :amount AND #until = :until',
      ExpressionAttributeValues: { ':amount': number(deposit.amount), ':until': number(deposit.until) },
    });
  }

  /** A deposit that has not ended. */
  async #deposit(name: string): Promise<{ amount: Nanos; until: number } | undefined> {
    const { amount, until } = await this.#get(this.#ofDeposit(name).Key);
    return amount === undefined ? undefined : { amount: asNumber(amount), until: asNumber(until) };
  }

  #ofDeposit(name: string) {
    return {
      TableName: this.#table,
      Key: { [budgetTable.partitionKey]: { S: `${this.scope}#deposit#${name}` } },
      ExpressionAttributeNames: { '#amount': 'amount', '#until': 'until' },
    };
  }

  #depositMade({ name, amount }: { name: string; amount: Nanos }): Update {
    const until = this.#now() + DEPOSIT_MS;
    const of = this.#ofDeposit(name);
    return {
      ...of,
      UpdateExpression: 'SET #amount = :amount, #until = :until, #ttl = :ttl',
      ConditionExpression: 'attribute_not_exists(#amount)',
      ExpressionAttributeNames: { ...of.ExpressionAttributeNames, '#ttl': budgetTable.ttlAttribute },
      ExpressionAttributeValues: {
        ':amount': number(amount),
        ':until': number(until),
        ':ttl': number(Math.ceil(until / 1000)),
      },
    };
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

  /**
   * @param beside a change of another item, made in one transaction with this one
   * @returns whether the conditions held
   */
  async #update(
    update: {
      expression: string;
      condition?: string;
      names: Record<string, string>;
      values: Record<string, AttributeValue>;
    },
    beside?: Update,
  ): Promise<boolean> {
    const own: Update = {
      TableName: this.#table,
      Key: this.#key,
      UpdateExpression: update.expression,
      ConditionExpression: update.condition,
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
    };
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (beside === undefined) {
          const command = new UpdateItemCommand({ ...own, ReturnValues: 'UPDATED_NEW' });
          this.#seen = asNumber((await this.#client.send(command)).Attributes?.committed);
        } else {
          await this.#client.send(
            new TransactWriteItemsCommand({ TransactItems: [{ Update: own }, { Update: beside }] }),
          );
        }
        return true;
      } catch (error) {
        if (isConditionFailed(error)) return false;
        if (!isConflict(error) || attempt >= CONFLICT_ATTEMPTS) throw namedTableError(error, this.#table, this.scope);
        await sleep(Math.random() * CONFLICT_WAIT_MS * attempt);
      }
    }
  }
}

const cancelledFor = (error: unknown, code: string): boolean =>
  error instanceof TransactionCanceledException &&
  (error.CancellationReasons ?? []).some((reason) => reason.Code === code);

const isConditionFailed = (error: unknown): boolean =>
  error instanceof ConditionalCheckFailedException || cancelledFor(error, 'ConditionalCheckFailed');

const isConflict = (error: unknown): boolean =>
  (error instanceof Error && error.name === 'TransactionConflictException') ||
  cancelledFor(error, 'TransactionConflict');
