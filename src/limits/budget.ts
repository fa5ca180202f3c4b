/**
 * The judge's budget over all functions: a cap in US dollars for each day (UTC) and each run.
 *
 * An item of the table counts the committed part of a cap. A function commits a block with one conditional write, pays
 * its calls from the block in memory, and returns the rest when it ends. A call is reserved at its worst case and paid
 * at its cost. Payments therefore never exceed the cap, even if functions are killed, repeated or lost, unless a call
 * costs more than its announced maximum.
 *
 * A block is at most 2% of the rest of the cap, or the worst case of up to 16 calls in flight if that is more. No call
 * starts beyond the cap: if calls in flight have used it up, the next call waits for one of them. A killed function
 * leaves its block committed until the day or the run ends, and so does a write whose reply is lost. After 20 blocks of
 * 2%, two thirds of a cap are left.
 *
 *     <scope>                  committed: nanodollars that are spent, or in a block or a deposit
 *                              spent: nanodollars that were paid; updated when a function commits another block, or ends
 *     <scope>#deposit#<name>   amount: nanodollars for answers that arrive after the asking function has ended
 *
 * Money is committed before it goes into a deposit, and the deposit ends before its money is returned.
 *
 * @example
 *     const reserved = await budget.reserve(0.02);   // the worst case of the call, in dollars
 *     if (reserved !== 'held') await reserved.settle(0.004);   // its cost
 *     await budget.close();
 */
import { RetryableError } from '../core/errors/errors.ts';
import { chargeOf, type SpendingLimit } from './spending-limit.ts';
import { asNumber, dayAt, expiry, type Item, type LimitsTable } from './table.ts';

const NANOS_PER_USD = 1e9;
/** Whole nanodollars, so that sums are not rounded: 9 million dollars fit. */
type Nanos = number;
/** Rounded up, so that spending stays below a cap. */
const toNanos = (usd: number): Nanos => Math.ceil(usd * NANOS_PER_USD - 1e-6);

/** Maximum share of the rest that a function commits … */
const SHARE_OF_REST = 0.02;
/**
 * … and its limits in calls: `inFlight` are allowed regardless of that share; `most` is twice the number of concurrent
 * calls of a function.
 */
const CALLS_IN_BLOCK = { inFlight: 16, most: 64 };
/** A cap without room is not asked again for this long. Other functions may give money back at any time. */
const FULL_MS = 1_000;
/** Number of attempts at a commitment whose reply is lost. Each attempt may leave too much committed. */
const COMMIT_ATTEMPTS = 3;
/** The figures are kept long enough to check the monthly bill. */
const ITEM_DAYS = 62;

export interface BudgetOptions {
  table: LimitsTable;
  /** US dollars per day (UTC). If 0 or absent, there is no daily cap. */
  dailyUsd?: number | undefined;
  /** US dollars for the run. If absent, the run has no separate cap. */
  runUsd?: number | undefined;
  /** Execution name. */
  run: string;
  /** Returns epoch milliseconds. */
  now?: (() => number) | undefined;
}

/** Money for answers that arrive later, and the accounts that hold it. */
export interface Deposit {
  name: string;
  scopes: string[];
}

export const dayScope = (epochMs: number): string => `day#${dayAt(epochMs)}`;
export const runScope = (run: string): string => `run#${run}`;

/** Returns the US dollars of a cap that are spent, or that functions have committed. @param item of the cap */
export const usedUsd = (item: Item | undefined): number => asNumber(item?.committed) / NANOS_PER_USD;

/** The cap of a day or of a run, and this function's block of it. */
class Account {
  readonly scope: string;
  readonly cap: Nanos;
  readonly #table: LimitsTable;
  readonly #now: () => number;
  /** The amount that all functions have committed, as last seen. */
  #committed: Nanos | undefined;
  /** The part of the block that is not reserved for a call. Negative if a call cost more than its maximum. */
  #free: Nanos = 0;
  /** Reserved by the calls in flight. */
  #reserved: Nanos = 0;
  /** Paid, and not yet counted in the item. */
  #paid: Nanos = 0;
  #isClosed = false;
  /** The smallest amount that the cap had no room for, and how long this result is used. */
  #full = { amount: Number.POSITIVE_INFINITY, until: 0 };

  constructor({ table, now = Date.now }: BudgetOptions, scope: string, capUsd = 0) {
    this.scope = scope;
    this.#table = table;
    this.#now = now;
    this.cap = Math.floor(capUsd * NANOS_PER_USD);
  }

  get isInUse(): boolean {
    return this.#reserved > 0;
  }

  /** Reads how much is left of the cap. */
  async left(): Promise<Nanos> {
    this.#committed = asNumber((await this.#table.get(this.scope)).committed);
    return this.cap - this.#committed;
  }

  /** Reserves the worst case of a call. Must not run concurrently. @returns whether there is room */
  async reserve(amount: Nanos): Promise<boolean> {
    // Calls may give money back, or exceed their maximum, while the block is extended.
    while (amount > this.#free) if (!(await this.#extend(amount))) return false;
    this.#free -= amount;
    this.#reserved += amount;
    return true;
  }

  /** Ends the reservation of a call that cost `paid`. */
  async settle(amount: Nanos, paid: Nanos): Promise<void> {
    // Calls that were in flight when the budget was closed are charged at their maximum.
    if (this.#isClosed) return;
    this.#reserved -= amount;
    this.#free += amount - paid;
    this.#paid += paid;
    if (this.#free < 0) await this.#write(-this.#free);
  }

  /** Gives the rest of the block back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#paid += this.#reserved;
    this.#reserved = 0;
    if (this.#free !== 0 || this.#paid > 0) await this.#write(-this.#free);
  }

  /** Commits a block from which a call of this amount can be reserved. @returns false if the cap or the block has no room */
  async #extend(amount: Nanos): Promise<boolean> {
    if (amount >= this.#full.amount && this.#now() < this.#full.until) return false;
    for (let isFresh = this.#committed === undefined; ; isFresh = true) {
      const left = isFresh ? await this.left() : this.cap - (this.#committed ?? 0);
      const inFlight = Math.min(this.#reserved + amount, amount * CALLS_IN_BLOCK.inFlight);
      const block = Math.max(inFlight, Math.min(Math.floor(left * SHARE_OF_REST), amount * CALLS_IN_BLOCK.most));
      if (this.#reserved + amount > block) return false;
      const more = block - this.#reserved - this.#free;
      if (more <= left && (await this.#write(more, this.cap - more))) return true;
      if (!isFresh || more <= left) continue;
      this.#full = { amount, until: this.#now() + FULL_MS * (0.5 + Math.random()) };
      return false;
    }
  }

  /**
   * Adds an amount to the block, or returns it, and counts payments. @returns whether at most `limit` was committed
   * before
   */
  async #write(amount: Nanos, limit?: Nanos): Promise<boolean> {
    const paid = this.#paid;
    if (!(await this.add(amount, paid, limit))) return false;
    this.#paid -= paid;
    this.#free += amount;
    return true;
  }

  /** Adds to the numbers of the item. @returns whether no more than `limit` was committed before */
  async add(committed: Nanos, spent: Nanos, limit?: Nanos): Promise<boolean> {
    const expression = 'SET #ttl = :ttl ADD #committed :committed, #spent :spent';
    const condition = limit === undefined ? undefined : '(attribute_not_exists(#committed) OR #committed <= :limit)';
    const values = { committed, spent, ttl: this.#ttl, ...(limit === undefined ? {} : { limit }) };
    for (let attempt = 1; attempt <= COMMIT_ATTEMPTS; attempt += 1) {
      const made = await this.#table.updateOnce({ scope: this.scope, expression, condition, values });
      if (made === undefined) return false;
      if (made !== 'unknown') this.#committed = asNumber(made.committed);
      // Committing twice wastes money. Returning money twice would exceed the cap.
      if (made !== 'unknown' || committed <= 0) return true;
      values.spent = 0;
    }
    throw noAnswer(this.scope);
  }

  /** Makes a deposit of committed money. @returns false if another attempt has made a deposit of that name */
  async deposit(name: string, amount: Nanos): Promise<boolean> {
    const made = await this.#table.updateOnce({
      scope: this.#depositScope(name),
      expression: 'SET #amount = :amount, #ttl = :ttl',
      condition: 'attribute_not_exists(#amount)',
      values: { amount, ttl: this.#ttl },
    });
    if (made === 'unknown') throw noAnswer(this.#depositScope(name));
    return made !== undefined;
  }

  /** Ends a deposit: counts payments and returns the rest. @returns false if there is no such deposit */
  async settleDeposit(name: string, paid: Nanos): Promise<boolean> {
    const scope = this.#depositScope(name);
    const expression = 'SET #ttl = :ttl REMOVE #amount';
    const before = await this.#table.update({ scope, expression, values: { ttl: this.#ttl }, returns: 'ALL_OLD' });
    if (before?.amount === undefined) return false;
    await this.add(paid - asNumber(before.amount), paid);
    return true;
  }

  #depositScope(name: string): string {
    return `${this.scope}#deposit#${name}`;
  }

  get #ttl(): number {
    return expiry(this.#now(), ITEM_DAYS);
  }
}

const noAnswer = (where: string): RetryableError =>
  new RetryableError('BudgetTableUnavailable', 'DynamoDB did not answer', { where });

/** Reserves money in all accounts, or in none. @returns whether all accounts have room */
async function inEach(
  accounts: readonly Account[],
  reserve: (account: Account) => Promise<boolean>,
  giveBack: (account: Account) => Promise<unknown>,
): Promise<boolean> {
  for (const [index, account] of accounts.entries()) {
    let isTaken = false;
    try {
      isTaken = await reserve(account);
    } finally {
      if (!isTaken) await Promise.all(accounts.slice(0, index).map(giveBack));
    }
    if (!isTaken) return false;
  }
  return true;
}

export class Budget implements SpendingLimit {
  readonly #options: BudgetOptions;
  readonly #accounts = new Map<string, Account>();
  /** Serializes reservations, so that a block is extended once for all calls that wait, and not once for each. */
  #queue: Promise<unknown> = Promise.resolve();
  /** Calls of this function that have ended. */
  #ended = 0;
  /** Called when one ends. */
  #waiting: (() => void)[] = [];

  constructor(options: BudgetOptions) {
    this.#options = options;
  }

  /**
   * @param maxUsd the worst case of the call
   * @returns `held` if a cap has no room for it; otherwise a function that charges the cost of the call, 0 if it was
   *   not made
   */
  async reserve(maxUsd: number): Promise<{ settle(actualUsd: number): Promise<void> } | 'held'> {
    const amount = toNanos(maxUsd);
    for (;;) {
      const ended = this.#ended;
      const accounts = this.#current();
      const release = (account: Account) => account.settle(amount, 0);
      const reserved = this.#queue.then(() => inEach(accounts, (account) => account.reserve(amount), release));
      this.#queue = reserved.catch(() => undefined);
      if (await reserved) return { settle: (actualUsd) => this.#settle(accounts, amount, actualUsd) };
      // Calls mostly cost less than their worst case. The money that calls in flight return may be enough.
      if (this.#ended > ended) continue;
      if (![...this.#accounts.values()].some(({ isInUse }) => isInUse)) return 'held';
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Returns committed money that was not used. Calls in flight are charged at their worst case. */
  async close(): Promise<void> {
    await this.#queue;
    const closed = [...this.#accounts.values()].map((account) => account.close());
    this.#accounts.clear();
    this.#wake();
    await Promise.all(closed);
  }

  /**
   * Sets money aside for answers that arrive after this function has ended. No deposit of that name may exist.
   *
   * @param mostUsd the worst case of each answer
   * @returns the deposit, and for each answer, in this order, whether there is room
   */
  async setAside(name: string, mostUsd: readonly number[]): Promise<{ deposit: Deposit; hasRoom: boolean[] }> {
    const amounts = mostUsd.map(toNanos);
    for (;;) {
      const accounts = this.#current();
      const room = Math.min(...(await Promise.all(accounts.map((account) => account.left()))));
      let sum = 0;
      const hasRoom = amounts.map((amount) => {
        const fits = sum + amount <= room;
        if (fits) sum += amount;
        return fits;
      });
      if (sum === 0 || accounts.length === 0) return { deposit: { name, scopes: [] }, hasRoom };
      const giveBack = (account: Account) => account.add(-sum, 0);
      if (!(await inEach(accounts, (account) => account.add(sum, 0, account.cap - sum), giveBack))) continue;
      for (const account of accounts) if (!(await account.deposit(name, sum))) await giveBack(account);
      return { deposit: { name, scopes: accounts.map(({ scope }) => scope) }, hasRoom };
    }
  }

  /** Returns the deposit that an earlier attempt at the same work may have left. Call it before reserving money. */
  async dropDeposit(name: string): Promise<void> {
    await this.settleDeposit({ name, scopes: this.#current().map(({ scope }) => scope) }, 0);
  }

  /**
   * Ends a deposit: charges the cost of its answers and returns the rest.
   * @returns false if it had already ended, and its cost was charged then
   */
  async settleDeposit({ name, scopes }: Deposit, paidUsd: number): Promise<boolean> {
    const paid = toNanos(chargeOf(paidUsd));
    const ended = scopes.map((scope) => new Account(this.#options, scope).settleDeposit(name, paid));
    return (await Promise.all(ended)).some(Boolean);
  }

  /** Returns the accounts from which calls are paid. The account of a past day remains until `close`. */
  #current(): readonly Account[] {
    const { dailyUsd = 0, runUsd, run, now = Date.now } = this.#options;
    const caps: [scope: string, usd: number][] = [];
    if (runUsd !== undefined) caps.push([runScope(run), runUsd]);
    if (dailyUsd > 0) caps.push([dayScope(now()), dailyUsd]);
    return caps.map(([scope, usd]) => {
      const account = this.#accounts.get(scope) ?? new Account(this.#options, scope, usd);
      this.#accounts.set(scope, account);
      return account;
    });
  }

  async #settle(accounts: readonly Account[], amount: Nanos, actualUsd: number): Promise<void> {
    const paid = toNanos(chargeOf(actualUsd));
    const settled = accounts.map((account) => account.settle(amount, paid));
    this.#wake();
    await Promise.all(settled);
  }

  #wake(): void {
    this.#ended += 1;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
