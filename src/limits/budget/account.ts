/**
 * One budget, of a day or of a run, in items of a DynamoDB table that all Lambdas share. None is over 1 KB, so each write costs
 * one unit, and a partition takes 1,000 of them per second.
 *
 *     <scope>               the account
 *       committed           nanodollars that are spent or leased, and those that a crash has lost (below). A lease is taken on
 *                           the condition that this stays within the cap, in one atomic write
 *       spent               nanodollars that were paid from leases and deposits that have ended
 *       leases              number of the last lease
 *       swept, horizon, sweptAt   see `reclaim`
 *       m0 … m15            the latest changes of `committed`, so that a lost reply can be looked up
 *     <scope>#lease#<n>     one per active Lambda: {amount, paid, seq, until}. `amount` is the part of `committed` that the Lambda
 *                           has not reported as paid, `paid` what it has. After `until` the Lambda counts as dead, and any other
 *                           may end its lease
 *     <scope>#deposit#<name>  money for answers that arrive after the Lambda that asked for them has ended: {amount, until}
 *
 * The account takes part in no transaction, since those conflict where many write. So a change has two steps, in this order:
 * money is committed before a lease has it, and a lease or deposit is ended before its money is given back. A crash between
 * the two leaves too much committed, never too little: the day loses at most that lease. Giving back is not repeated after a
 * lost reply, unless the account tells that it was not done.
 */
import { randomInt } from 'node:crypto';
import { RetryableError } from '../../core/errors/errors.ts';
import { asNumber, type BudgetTable, type Item, type ItemChange } from '../table.ts';

/** A lease that its Lambda does not renew for this long is given back. Judge calls end within a minute. */
export const LEASE_MS = 120_000;

/** As long as the answers to a batch of requests are kept. After that, nothing can be paid from a deposit. */
const DEPOSIT_MS = 7 * 24 * 3_600_000;

/** Time to keep the figures of a day or a run, long enough to check the monthly bill. */
const TTL_SECONDS = 62 * 24 * 3600;
/** Time to keep a lease that has ended. */
const ENDED_TTL_SECONDS = 24 * 3600;

/** Dead leases are looked for at most this often, by one Lambda for all. A lease is written long before, or never. */
const SWEEP_MS = 15_000;
const READS_AT_ONCE = 32;
/** Leases after which a sweep notes how far it is: the first sweep of a long day has 300,000, and its Lambda may end. */
const NOTED_EVERY = 2048;

/** Latest changes that the account remembers. 16 marks take 250 bytes. */
const MARKS = 16;
/** How often a commitment whose reply is lost is made again. Each time may leave too much committed. */
const COMMIT_ATTEMPTS = 3;

/** Nanodollars as whole numbers, so that sums are not rounded. 9 million dollars fit. */
export type Nanos = number;

interface AccountState {
  committed: Nanos;
  spent: Nanos;
  leases: number;
  swept: number;
  horizon: number;
  /** Epoch milliseconds. */
  sweptAt: number;
}

export interface Lease {
  number: number;
  amount: Nanos;
  paid: Nanos;
  /** Number of the last write. */
  seq: number;
  /** Epoch milliseconds. */
  until: number;
}

/** A change of a lease. */
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
    const { committed, spent, leases, swept, horizon, sweptAt } = await this.#table.get(this.scope);
    this.#seen = asNumber(committed);
    return {
      committed: this.#seen,
      spent: asNumber(spent),
      leases: asNumber(leases),
      swept: asNumber(swept),
      horizon: asNumber(horizon),
      sweptAt: asNumber(sweptAt),
    };
  }

  /**
   * Writes a lease's new state: adds to it, reports what was paid from it, renews it, or ends it.
   *
   * @param previous the lease as this Lambda last wrote it; `undefined` for a new one, which makes no deposit
   * @returns the lease now (`undefined` if it ended); `full` if the cap has no room; `lost` if the lease had expired and
   *   another Lambda ended it, in which case `spent` is booked all the same
   */
  async write(previous: Lease | undefined, change: LeaseChange): Promise<Lease | undefined | 'full' | 'lost'> {
    const { take, cap, spent, end, deposit } = change;
    if (take > cap) return 'full';
    // If more was paid than reserved, the lease is used up and the excess is committed in addition.
    const left = (previous?.amount ?? 0) + take - spent - (deposit?.amount ?? 0);
    const committed = take + Math.max(0, -left);
    if (previous === undefined && end) {
      await this.#add({ committed, spent });
      return undefined;
    }
    let { number, paid, seq } = previous ?? { number: undefined, paid: 0, seq: 0 };
    if (committed > 0 || number === undefined) {
      const limit = take > 0 ? cap - take : undefined;
      const made = await this.#add({ committed, spent: 0, leases: number === undefined ? 1 : 0 }, limit);
      if (made === undefined) return 'full';
      number ??= asNumber(made.leases);
    }
    const next = { number, amount: Math.max(0, left), paid: paid + spent, seq: seq + 1, until: this.#now() + LEASE_MS };
    if (await this.#writeLease(previous, end ? undefined : next, number, deposit && this.#newDeposit(deposit))) {
      if (!end) return next;
      await this.#add({ committed: -next.amount, spent: next.paid });
      return undefined;
    }
    // A concurrent attempt at the same work made the deposit, and this one's money goes back.
    if (deposit !== undefined && (await this.#deposit(deposit.name)) !== undefined) {
      return this.write(previous, { take: 0, cap, spent, end });
    }
    await this.#add({ committed: spent - committed, spent });
    return 'lost';
  }

  /**
   * Ends the leases of dead Lambdas. All leases up to `swept` have ended. One without an item ended long ago, or was never
   * written, if its number is not above `horizon`: the last number when the previous sweep began.
   */
  async reclaim({ leases, swept, horizon, sweptAt }: AccountState): Promise<void> {
    const now = this.#now();
    if (leases === swept || now - sweptAt < SWEEP_MS) return;
    const claimed = await this.#table.update({
      scope: this.scope,
      expression: 'SET #sweptAt = :now, #horizon = :leases',
      condition: '(attribute_not_exists(#sweptAt) OR #sweptAt <= :before)',
      values: { now, leases, before: now - SWEEP_MS },
    });
    if (claimed === undefined) return;
    let allEnded = swept;
    let noted = swept;
    for (let first = swept + 1; first <= leases; first += READS_AT_ONCE) {
      const count = Math.min(READS_AT_ONCE, leases + 1 - first);
      const numbers = Array.from({ length: count }, (_, index) => first + index);
      const open = await Promise.all(numbers.map((number) => this.#isOpen(number, number > horizon)));
      if (allEnded === first - 1) allEnded += open.includes(true) ? open.indexOf(true) : count;
      if (allEnded === noted || (allEnded < noted + NOTED_EVERY && first + count <= leases)) continue;
      noted = allEnded;
      await this.#table.update({ scope: this.scope, expression: 'SET #swept = :swept', values: { swept: noted } });
    }
  }

  /** Ends the lease if its Lambda is dead. @returns whether it has not ended */
  async #isOpen(number: number, mayBeUnwritten: boolean): Promise<boolean> {
    const item = await this.#table.get(this.#leaseScope(number));
    if (item.ttl === undefined) return mayBeUnwritten;
    if (item.amount === undefined) return false;
    const [amount, paid, seq, until] = [item.amount, item.paid, item.seq, item.until].map(asNumber) as [
      Nanos,
      Nanos,
      number,
      number,
    ];
    if (until > this.#now()) return true;
    const ended = await this.#writeLease({ number, amount, paid, seq, until }, undefined, number);
    if (ended) await this.#add({ committed: -amount, spent: paid });
    return false;
  }

  /**
   * Ends a deposit: books what was paid and gives the rest back.
   * @returns false if the deposit does not exist. It ends only once, however often this is called
   */
  async settleDeposit(name: string, spent: Nanos): Promise<boolean> {
    const deposit = await this.#deposit(name);
    if (deposit === undefined) return false;
    const op = newOperation();
    const ended = await this.#table.update({
      scope: this.#depositScope(name),
      expression: 'SET #op = :op REMOVE #amount',
      condition: '#amount = :amount AND #until = :until',
      values: { ...deposit, op },
    });
    // The SDK repeats a request whose reply is lost, and the repetition is refused.
    if (ended === undefined && !(await this.#isLast(this.#depositScope(name), op))) return false;
    await this.#add({ committed: spent - deposit.amount, spent });
    return true;
  }

  /** Returns a deposit that has not ended. */
  async #deposit(name: string): Promise<{ amount: Nanos; until: number } | undefined> {
    const { amount, until } = await this.#table.get(this.#depositScope(name));
    return amount === undefined ? undefined : { amount: asNumber(amount), until: asNumber(until) };
  }

  #depositScope(name: string): string {
    return `${this.scope}#deposit#${name}`;
  }

  #leaseScope(number: number): string {
    return `${this.scope}#lease#${number}`;
  }

  async #isLast(scope: string, op: number): Promise<boolean> {
    return asNumber((await this.#table.get(scope)).op) === op;
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
   * Replaces the lease `previous` by `next`, or ends it, if it is unchanged.
   *
   * @param other a change of another item, made in the same transaction
   * @returns whether that was done
   */
  async #writeLease(
    previous: Lease | undefined,
    next: Lease | undefined,
    number: number,
    other?: ItemChange,
  ): Promise<boolean> {
    const op = newOperation();
    const { number: _, seq: nextSeq, ...kept } = next ?? { number, seq: 0 };
    const set = Object.keys({ ...kept, op, ttl: 0 }).map((name) => `#${name} = :${name}`);
    const ttl = Math.floor(this.#now() / 1000) + ENDED_TTL_SECONDS;
    const change: ItemChange = {
      scope: this.#leaseScope(number),
      expression: `SET ${set.join(', ')}${next === undefined ? ' REMOVE #amount, #paid, #seq, #until' : ', #seq = :next'}`,
      condition: previous === undefined ? 'attribute_not_exists(#ttl)' : '#seq = :seq',
      values: {
        ...kept,
        op,
        ttl,
        ...(next === undefined ? {} : { next: nextSeq }),
        ...(previous === undefined ? {} : { seq: previous.seq }),
      },
    };
    return (await this.#table.update(change, other)) !== undefined || this.#isLast(change.scope, op);
  }

  /**
   * Adds to the account's numbers.
   *
   * @param limit `committed` must not exceed this before
   * @returns the account's numbers; `undefined` if the limit was exceeded
   */
  async #add(change: { committed: Nanos; spent: Nanos; leases?: number }, limit?: Nanos): Promise<Item | undefined> {
    const { committed, spent, leases = 0 } = change;
    if (committed === 0 && spent === 0 && leases === 0) return {};
    const op = newOperation();
    const mark = `m${op % MARKS}`;
    const request: ItemChange = {
      scope: this.scope,
      expression: `SET #ttl = :ttl, #${mark} = :op ADD #committed :committed, #spent :spent, #leases :leases`,
      condition: limit === undefined ? undefined : '(attribute_not_exists(#committed) OR #committed <= :limit)',
      values: {
        committed,
        spent,
        leases,
        op,
        ttl: Math.floor(this.#now() / 1000) + TTL_SECONDS,
        ...(limit === undefined ? {} : { limit }),
      },
    };
    for (let attempt = 1; ; attempt += 1) {
      const made = await this.#table.updateOnce(request);
      const item = made === 'unknown' ? await this.#table.get(this.scope) : made;
      if (item?.committed !== undefined) this.#seen = asNumber(item.committed);
      if (made !== 'unknown' || asNumber(item?.[mark]) === op) return item;
      // To commit twice wastes money. To give back twice would exceed the cap.
      if (committed <= 0) return item;
      if (attempt >= COMMIT_ATTEMPTS) {
        const facts = { got: `${attempt} lost replies`, where: this.scope };
        throw new RetryableError('BudgetTableUnavailable', 'DynamoDB did not answer', facts);
      }
    }
  }
}

/** A number that no other operation has. */
const newOperation = (): number => randomInt(2 ** 48 - 1);
