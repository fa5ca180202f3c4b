/**
 * What the calls of a model have taught. It is kept by model id and Region in an item of the table of limits, for all functions; without
 * the table, in memory alone. It is read once by a process, and forgotten after seven days and with another file of properties.
 *
 *     learned#<model>#<region>   facts: JSON of `Facts`, ttl
 */
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { type LimitsTable, limitsTable, warnOnce } from '../../limits/table.ts';
import { PROPERTIES_VERSION } from './model-properties.ts';

const KEPT_MS = 7 * 86_400_000;
/** A process writes at most this often. */
const SAVE_MS = 60_000;
/** As many answers are remembered, by the bin of their length. Bins are 5% wide. */
const MAX_ANSWERS = 200;
const BIN = Math.log(1.05);
/** The longest answers, which are cut: one in fifty that is many times as long moves no other bound. */
const LONGEST_SHARE = 0.02;
const MARGIN = 1.1;
/** No bound is higher than this multiple of what the form takes. */
export const MAX_GROWTH = 4;

interface Facts {
  properties: string;
  /** Epoch milliseconds. */
  since: number;
  /** What the model refuses of a harmless question; absent until it has answered one. */
  refused?: string[];
  /** Of the last answers, the newest last: the bin of the output tokens. */
  bins: number[];
}

export class Learned {
  readonly #scope: string;
  readonly #table: LimitsTable | undefined;
  readonly #now: () => number;
  #facts: Facts;
  #read: Promise<void> | undefined;
  #savedAt = Number.NEGATIVE_INFINITY;
  #isChanged = false;

  constructor(model: string, table?: LimitsTable, now: () => number = Date.now) {
    this.#scope = `learned#${model}#${process.env.AWS_REGION}`;
    this.#table = table;
    this.#now = now;
    this.#facts = { properties: PROPERTIES_VERSION, since: now(), bins: [] };
  }

  /** Whether what is learned outlives the process. */
  get isKept(): boolean {
    return this.#table !== undefined;
  }

  /** What the model refuses of a harmless question; `undefined` until it has answered one. */
  get refused(): readonly string[] | undefined {
    return this.#facts.refused;
  }

  /** Reads what is kept, once. If the table does not answer, nothing is known. */
  ready(): Promise<void> {
    this.#read ??= this.#load().catch((error: unknown) => warnOnce('What the judge taught could not be read', error));
    return this.#read;
  }

  async #load(): Promise<void> {
    const { facts } = (await this.#table?.get(this.#scope)) ?? {};
    const kept: Facts | undefined = facts?.S === undefined ? undefined : JSON.parse(facts.S);
    if (kept?.properties === PROPERTIES_VERSION && kept.since > this.#now() - KEPT_MS) this.#facts = kept;
  }

  /** Returns the bound on the next answer, in tokens. @param own what the form of the answer takes */
  bound(own: number): number {
    const sorted = this.#facts.bins.toSorted((a, b) => a - b);
    const quantile = sorted[sorted.length - 1 - Math.ceil(sorted.length * LONGEST_SHARE)] ?? 0;
    return Math.min(Math.max(own, Math.ceil(Math.exp(quantile * BIN) * MARGIN)), own * MAX_GROWTH);
  }

  /** Whether `bound` is a guess: a single answer that is longer than its form may be the long one in fifty. */
  isGuess(own: number): boolean {
    const [first, ...others] = this.#facts.bins;
    return first === undefined || (others.length === 0 && Math.exp(first * BIN) > own);
  }

  /** Counts the answer to a capture's questions. @param tokens of an answer that was cut: the bound that it would get next */
  answered(tokens: number): void {
    const bin = Math.ceil(Math.log(Math.max(1, tokens)) / BIN);
    this.#facts.bins = [...this.#facts.bins.slice(1 - MAX_ANSWERS), bin];
    this.#isChanged = true;
  }

  /** Keeps what the model refuses of a harmless question, now that it has answered it. */
  settle(refused: Iterable<string>): void {
    this.#facts.refused = [...refused];
    this.#isChanged = true;
  }

  /** Writes what was learned, at most once a minute. Functions replace each other's facts, which are of the same model. */
  async save(): Promise<void> {
    const now = this.#now();
    if (!this.#isChanged || now < this.#savedAt + SAVE_MS) return;
    this.#savedAt = now;
    this.#isChanged = false;
    const values = { facts: JSON.stringify(this.#facts), ttl: Math.ceil((this.#facts.since + KEPT_MS) / 1000) };
    const expression = 'SET #facts = :facts, #ttl = :ttl';
    await this.#table
      ?.update({ scope: this.#scope, expression, values })
      .catch((error: unknown) => warnOnce('What the judge taught could not be kept', error));
  }
}

export type LearnedModels = ReturnType<typeof connectLearned>;

/** Returns what calls have taught of each model, for all that ask it in this process. */
export function connectLearned(settings: Pick<LambdaEnvironment, 'BUDGET_TABLE'>) {
  const byModel = new Map<string, Learned>();
  return {
    /** @param model as in the settings */
    of(model: string): Learned {
      const learned = byModel.get(model) ?? new Learned(model, limitsTable(settings));
      byModel.set(model, learned);
      return learned;
    },
    async save(): Promise<void> {
      await Promise.all([...byModel.values()].map((learned) => learned.save()));
    },
  };
}
