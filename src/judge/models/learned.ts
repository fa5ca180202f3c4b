/**
 * What the calls of a model have taught. It is kept by model id and Region in an item of the table of limits, for all functions; without
 * the table, in memory alone. It is read once by a process, and forgotten after seven days and with another file of properties.
 *
 *     learned#<model>#<region>#<version of the properties>   facts: JSON; asked: when it began, if a harmless question was answered; ttl
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
const MAX_GROWTH = 4;

/** With fewer captures, it is not known what a capture costs. */
const ENOUGH_CAPTURES = 20;

interface Facts {
  /** Epoch milliseconds. */
  since: number;
  /** What the model refuses of a harmless question; absent until it has answered one. */
  refused?: readonly string[];
  /** Of the last answers, the newest last: the bin of the output tokens. */
  bins: readonly number[];
  /** What captures cost by their estimate, and what was paid, in US dollars; older ones count less. */
  cost: { likely: number; paid: number; captures: number };
}

export class Learned {
  /** Absent: what is learned ends with the process. */
  readonly table: LimitsTable | undefined;
  readonly #scope: string;
  readonly #now: () => number;
  #facts: Facts;
  #read: Promise<void> | undefined;
  #savedAt = Number.NEGATIVE_INFINITY;

  constructor(model: string, table?: LimitsTable, now: () => number = Date.now) {
    this.#scope = `learned#${model}#${process.env.AWS_REGION}#${PROPERTIES_VERSION}`;
    this.table = table;
    this.#now = now;
    this.#facts = { since: now(), bins: [], cost: { likely: 0, paid: 0, captures: 0 } };
  }

  get refused(): readonly string[] | undefined {
    return this.#facts.refused;
  }

  /** Reads what is kept, once. If the table does not answer, nothing is known. */
  ready(): Promise<void> {
    const read = async () => this.#load(await this.table?.get(this.#scope));
    this.#read ??= read().catch((error: unknown) => warnOnce('What the judge taught could not be read', error));
    return this.#read;
  }

  #load({ facts }: Item = {}): void {
    const kept = JSON.parse(facts?.S ?? '{}');
    if (kept.since > this.#now() - KEPT_MS) this.#facts = kept;
  }

  /**
   * Returns the bound on the next answer, in tokens.
   * @param own what the form of the answer takes
   * @param growth by answers to the same question that were cut. Thinking takes as long about one scorer as about ten, so that a cut
   *   answer gets twice the bound even beyond that of its form
   */
  bound(own: number, growth = 1): number {
    const sorted = this.#facts.bins.toSorted((a, b) => a - b);
    const quantile = sorted[sorted.length - 1 - Math.ceil(sorted.length * LONGEST_SHARE)] ?? 0;
    const most = own * MAX_GROWTH;
    const bound = Math.min(Math.max(own, Math.ceil(Math.exp(quantile * BIN) * MARGIN)), most);
    return Math.min(bound * growth, Math.max(most, bound * 2));
  }

  /** Whether `bound` is a guess: a single answer that is longer than its form may be the long one in fifty. */
  isGuess(own: number): boolean {
    const [first = Number.POSITIVE_INFINITY, second] = this.#facts.bins;
    return second === undefined && first * BIN > Math.log(own);
  }

  /**
   * Counts the answers about a capture.
   * @param tokens of the one to all its questions; of an answer that was cut: the bound that it would get next
   * @param likely, paid what they cost by their estimate, and what was paid, in US dollars. Older captures count less
   * @param refused what the model refuses of a harmless question, which is not the long one in fifty: its answer decides alone
   */
  answered(tokens: number, [likely, paid] = [0, 0], refused?: Iterable<string>): void {
    const bin = Math.ceil(Math.log(Math.max(1, tokens)) / BIN);
    const { bins, cost } = this.#facts;
    this.#facts.bins = [...bins, bin, ...(refused ? [bin] : [])].slice(-MAX_ANSWERS);
    if (refused) this.#facts.refused = [...refused];
    if (likely === 0 || paid === 0) return;
    const kept = 1 - 1 / MAX_ANSWERS;
    this.#facts.cost = {
      likely: cost.likely * kept + likely,
      paid: cost.paid * kept + paid,
      captures: cost.captures + 1,
    };
  }

  /** What captures cost, as a multiple of their estimate; `undefined` if too few are known. */
  get costs(): number | undefined {
    const { likely, paid, captures } = this.#facts.cost;
    return captures < ENOUGH_CAPTURES ? undefined : paid / likely;
  }

  /**
   * Asks a harmless question if it has not been answered: once, however many functions begin at the same moment. The others wait.
   * @param ask teaches what is refused
   * @returns what `ask` returns; `undefined` if the question was answered before
   * @throws RetryableError `LockTaken` if another function asks for minutes; what `ask` throws
   */
  async askOnce<T>(ask: () => Promise<T>): Promise<T | undefined> {
    await this.ready();
    if (this.refused !== undefined) return undefined;
    if (this.table === undefined) return ask();
    let asked: T | undefined;
    const ifUnknown = async (items: ReadonlyMap<string, Item>) => {
      this.#load(items.get(this.#scope));
      if (this.refused !== undefined) return;
      asked = await ask();
      await this.#write();
    };
    const lock = new Lock({ table: this.table, owner: randomUUID() });
    await lock.during([this.#scope], ifUnknown, this.#now() + ASKED_MS);
    return asked;
  }

  /** Writes what was learned, at most once a minute. Functions replace each other's figures, which are of the same model. */
  async save(): Promise<void> {
    if (this.#facts.bins.length === 0 || this.#now() < this.#savedAt + SAVE_MS) return;
    this.#savedAt = this.#now();
    await this.#write();
  }

  async #write(): Promise<void> {
    const { since, refused } = this.#facts;
    const ttl = Math.ceil((since + KEPT_MS) / 1000);
    // A function that knows of no harmless question does not replace the answer that another one has paid for.
    const replaced = this.#now() + (refused ? KEPT_MS : -KEPT_MS);
    const values = { facts: JSON.stringify(this.#facts), ttl, asked: refused ? since : 0, replaced };
    const expression = 'SET #facts = :facts, #ttl = :ttl, #asked = :asked';
    const condition = 'attribute_not_exists(#asked) OR #asked <= :replaced';
    await this.table
      ?.update({ scope: this.#scope, expression, condition, values })
      .catch((error: unknown) => warnOnce('What the judge taught could not be kept', error));
  }
}

/** Settings with what calls have taught, where it is known. */
export interface Taught {
  shared?: { learned?: (model: string) => Learned };
}

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
