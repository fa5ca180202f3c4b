/**
 * What the calls of a model have taught. It is kept by model id and Region in an item of the table of limits, for all functions; without
 * the table, in memory alone. It is read once by a process, and forgotten after seven days and with another file of properties.
 *
 *     learned#<model>#<region>#<version of the properties>   facts: JSON of when it began, what is refused, and the bins; ttl
 */
import { randomUUID } from 'node:crypto';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { Lock } from '../../limits/lock.ts';
import { type Item, type LimitsTable, limitsTable, warnOnce } from '../../limits/table.ts';
import { PROPERTIES_VERSION } from './model-properties.ts';

const KEPT_MS = 7 * 86_400_000;
/** A process writes at most this often. */
const SAVE_MS = 60_000;
/** How long a function waits for the one that asks a harmless question. */
const ASKED_MS = 300_000;
/** As many answers are remembered, by the bin of their length. Bins are 5% wide. */
const MAX_ANSWERS = 200;
const BIN = Math.log(1.05);
/** The longest answers, which are cut: one in fifty that is many times as long moves no other bound. */
const LONGEST_SHARE = 0.02;
const MARGIN = 1.1;
/** No bound is higher than this multiple of what the form takes. */
export const MAX_GROWTH = 4;

/** What captures cost, as multiples of their estimate. */
export type Costs = readonly [least: number, likely: number, most: number];

/** From bare values to the highest bound, whose cut answers are asked for again. */
const COSTS_UNKNOWN: Costs = [0.25, 1, 7];
/** With fewer captures, an estimate is a range. */
const ENOUGH_CAPTURES = 20;

export class Learned {
  /** What the model refuses of a harmless question; `undefined` until it has answered one. */
  refused: readonly string[] | undefined;
  /** Absent: what is learned ends with the process. */
  readonly table: LimitsTable | undefined;
  readonly #scope: string;
  readonly #now: () => number;
  /** Epoch milliseconds. */
  #since: number;
  /** Of the last answers, the newest last: the bin of the output tokens. */
  #bins: readonly number[] = [];
  /** The bounds that the service has named for the bound on an answer. */
  #named: { least: number; most: number } = { least: 1, most: 1e9 };
  /** What captures cost by their estimate, and what was paid, in US dollars; older ones count less. */
  #cost = { likely: 0, paid: 0, captures: 0 };
  #read: Promise<void> | undefined;
  #savedAt = Number.NEGATIVE_INFINITY;

  constructor(model: string, table?: LimitsTable, now: () => number = Date.now) {
    this.#scope = `learned#${model}#${process.env.AWS_REGION}#${PROPERTIES_VERSION}`;
    this.table = table;
    this.#now = now;
    this.#since = now();
  }

  /** Reads what is kept, once. If the table does not answer, nothing is known. */
  ready(): Promise<void> {
    const read = async () => this.#load(await this.table?.get(this.#scope));
    this.#read ??= read().catch((error: unknown) => warnOnce('What the judge taught could not be read', error));
    return this.#read;
  }

  #load({ facts }: Item = {}): void {
    const kept = JSON.parse(facts?.S ?? '{}');
    if (kept.since > this.#now() - KEPT_MS)
      ({ since: this.#since, refused: this.refused, bins: this.#bins, named: this.#named, cost: this.#cost } = kept);
  }

  /** Returns the bound on the next answer, in tokens. @param own what the form of the answer takes */
  bound(own: number): number {
    const sorted = this.#bins.toSorted((a, b) => a - b);
    const quantile = sorted[sorted.length - 1 - Math.ceil(sorted.length * LONGEST_SHARE)] ?? 0;
    return Math.min(Math.max(own, Math.ceil(Math.exp(quantile * BIN) * MARGIN)), own * MAX_GROWTH);
  }

  /** Returns the bound that the service accepts in place of this one. */
  accepted(tokens: number): number {
    return Math.min(Math.max(tokens, this.#named.least), this.#named.most);
  }

  /** Notes the bound that the service has named when it refused another one. @returns whether that changes what is accepted */
  noteNamed(refused: number, bound: number): boolean {
    this.#named = { ...this.#named, [bound < refused ? 'most' : 'least']: bound };
    return this.accepted(refused) !== refused;
  }

  /** Whether `bound` is a guess: a single answer that is longer than its form may be the long one in fifty. */
  isGuess(own: number): boolean {
    const [first = Number.POSITIVE_INFINITY, ...others] = this.#bins;
    return others.length === 0 && first * BIN > Math.log(own);
  }

  /** Counts the answer to a capture's questions. @param tokens of an answer that was cut: the bound that it would get next */
  answered(tokens: number): void {
    this.#bins = [...this.#bins.slice(1 - MAX_ANSWERS), Math.ceil(Math.log(Math.max(1, tokens)) / BIN)];
  }

  /** Counts what a capture cost. */
  paid(likelyUsd: number, paidUsd: number): void {
    const kept = 1 - 1 / MAX_ANSWERS;
    const { likely, paid, captures } = this.#cost;
    this.#cost = { likely: likely * kept + likelyUsd, paid: paid * kept + paidUsd, captures: captures + 1 };
  }

  get costs(): Costs {
    const { likely, paid, captures } = this.#cost;
    if (likely === 0) return COSTS_UNKNOWN;
    const times = captures < ENOUGH_CAPTURES ? 2 : 1;
    return [paid / likely / times, paid / likely, (paid / likely) * times];
  }

  /**
   * Asks a harmless question if it has not been answered: once, however many functions begin at the same moment. The others wait.
   * @param ask sets `refused`
   * @throws RetryableError `LockTaken` if another function asks for minutes; what `ask` throws
   */
  async askOnce(ask: () => Promise<void>): Promise<void> {
    await this.ready();
    if (this.refused !== undefined) return;
    if (this.table === undefined) return ask();
    const ifUnknown = async (items: ReadonlyMap<string, Item>) => {
      this.#load(items.get(this.#scope));
      if (this.refused === undefined) await ask().then(() => this.#write());
    };
    const lock = new Lock({ table: this.table, owner: randomUUID() });
    await lock.during([this.#scope], ifUnknown, this.#now() + ASKED_MS);
  }

  /** Writes what was learned, at most once a minute. Functions replace each other's facts, which are of the same model. */
  async save(): Promise<void> {
    if (this.#bins.length === 0 || this.#now() < this.#savedAt + SAVE_MS) return;
    this.#savedAt = this.#now();
    await this.#write();
  }

  async #write(): Promise<void> {
    const facts = { since: this.#since, refused: this.refused, bins: this.#bins, named: this.#named, cost: this.#cost };
    const values = { facts: JSON.stringify(facts), ttl: Math.ceil((this.#since + KEPT_MS) / 1000) };
    await this.table
      ?.update({ scope: this.#scope, expression: 'SET #facts = :facts, #ttl = :ttl', values })
      .catch((error: unknown) => warnOnce('What the judge taught could not be kept', error));
  }
}

export type LearnedModels = ReturnType<typeof connectLearned>;

/** Settings with what calls have taught, where it is known. */
export interface Taught {
  shared?: { learned?: Pick<LearnedModels, 'of'> };
}

export const costsOf = ({ shared }: Taught, model: string): Costs => shared?.learned?.of(model).costs ?? COSTS_UNKNOWN;

/** Returns what calls have taught of each model, by its id in the settings, for all that ask it in this process. */
export function connectLearned(settings: Pick<LambdaEnvironment, 'BUDGET_TABLE'>) {
  const byModel = new Map<string, Learned>();
  const of = (model: string): Learned => {
    const learned = byModel.get(model) ?? new Learned(model, limitsTable(settings));
    byModel.set(model, learned);
    return learned;
  };
  return { of, save: () => Promise.all([...byModel.values()].map((learned) => learned.save())) };
}
