/**
 * The findings of a model's calls. All functions share them in an item of the limits table, by model id and Region;
 * without the table, they are only in memory. A process reads them once. They expire after seven days, and with another
 * version of the properties file.
 *
 *     learned#<model>#<region>#<version of the properties>   facts: JSON; asked: `since`, if a harmless question was answered; ttl
 */
import { randomUUID } from 'node:crypto';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { Lock } from '../../limits/lock.ts';
import { type Item, type LimitsTable, limitsTable, warnOnce } from '../../limits/table.ts';
import { PROPERTIES_VERSION } from './model-properties.ts';

const KEPT_MS = 7 * 86_400_000;
/** A process writes at most this often. */
const SAVE_MS = 60_000;
/** Maximum time that a function waits for another function's harmless question. */
const ASKED_MS = 300_000;
/** Number of answers that are remembered, by the bin of their length. Bins are 5% wide. */
const MAX_ANSWERS = 200;
const BIN = Math.log(1.05);
/** The longest answers, which are cut: one in fifty that is many times as long moves no other bound. */
const LONGEST_SHARE = 0.02;
const MARGIN = 1.1;
/** No bound is higher than this multiple of the form's own length. */
const MAX_GROWTH = 4;

/** With fewer captures, the cost of a capture is unknown. */
const ENOUGH_CAPTURES = 20;

interface Facts {
  /** Epoch milliseconds. */
  since: number;
  /** Features that the model refuses for a harmless question. Absent until it has answered such a question. */
  refused?: readonly string[];
  /** Bins of the output tokens of the last answers, newest last. */
  bins: readonly number[];
  /** Estimated and actual cost of captures, in US dollars. Older captures count less. */
  cost: { likely: number; paid: number; captures: number };
}

export class Learned {
  /** Absent: findings are lost when the process ends. */
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

  /** Reads the stored findings once. If the table does not answer, the findings are empty. */
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
   * @param own length of the answer's form
   * @param growth factor for earlier answers to the same question that were cut. Thinking takes as long about one
   *   scorer as about ten, so a cut answer gets twice the bound even beyond the bound of its form
   */
  bound(own: number, growth = 1): number {
    const sorted = this.#facts.bins.toSorted((a, b) => a - b);
    const quantile = sorted[sorted.length - 1 - Math.ceil(sorted.length * LONGEST_SHARE)] ?? 0;
    const most = own * MAX_GROWTH;
    const bound = Math.min(Math.max(own, Math.ceil(Math.exp(quantile * BIN) * MARGIN)), most);
    return Math.min(bound * growth, Math.max(most, bound * 2));
  }

  /** Whether `bound` is a guess: a single answer longer than its form may be the one long answer in fifty. */
  isGuess(own: number): boolean {
    const [first = Number.POSITIVE_INFINITY, second] = this.#facts.bins;
    return second === undefined && first * BIN > Math.log(own);
  }

  /**
   * Counts the answers about a capture.
   * @param tokens of the answer to all questions; for an answer that was cut, the bound that it would get next
   * @param likely, paid their estimated and their actual cost, in US dollars. Older captures count less
   * @param refused features that the model refuses for a harmless question. The length of its answer is no outlier, so
   *   it decides alone
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

  /** The actual cost of captures as a multiple of their estimate. `undefined` if too few are known. */
  get costs(): number | undefined {
    const { likely, paid, captures } = this.#facts.cost;
    return captures < ENOUGH_CAPTURES ? undefined : paid / likely;
  }

  /**
   * Asks a harmless question unless it was answered before. Asks once, even if many functions start at the same moment.
   * The others wait.
   * @param ask finds out the refused features
   * @returns the result of `ask`; `undefined` if the question was answered before
   * @throws RetryableError `LockTaken` if another function asks for minutes; the errors of `ask`
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

  /**
   * Writes the findings, at most once a minute. Functions replace each other's figures, which concern the same model.
   */
  async save(): Promise<void> {
    if (this.#facts.bins.length === 0 || this.#now() < this.#savedAt + SAVE_MS) return;
    this.#savedAt = this.#now();
    await this.#write();
  }

  async #write(): Promise<void> {
    const { since, refused } = this.#facts;
    const ttl = Math.ceil((since + KEPT_MS) / 1000);
    // A function without an answer to the harmless question does not replace an answer that another function has paid
    // for.
    const replaced = this.#now() + (refused ? KEPT_MS : -KEPT_MS);
    const values = { facts: JSON.stringify(this.#facts), ttl, asked: refused ? since : 0, replaced };
    const expression = 'SET #facts = :facts, #ttl = :ttl, #asked = :asked';
    const condition = 'attribute_not_exists(#asked) OR #asked <= :replaced';
    await this.table
      ?.update({ scope: this.#scope, expression, condition, values })
      .catch((error: unknown) => warnOnce('What the judge taught could not be kept', error));
  }
}

/** Settings, with the findings of calls if they are shared. */
export interface Taught {
  shared?: { learned?: (model: string) => Learned };
}

/** Returns the findings about each model by its id in the settings, shared by all callers in this process. */
export function connectLearned(settings: Pick<LambdaEnvironment, 'BUDGET_TABLE'>) {
  const byModel = new Map<string, Learned>();
  const of = (model: string): Learned => {
    const learned = byModel.get(model) ?? new Learned(model, limitsTable(settings));
    byModel.set(model, learned);
    return learned;
  };
  return { of, save: () => Promise.all([...byModel.values()].map((learned) => learned.save())) };
}
