/** Keeps the scores of rows for the area under the ROC curve, which needs all scores at once, up to a fixed number. */
import { Random } from '../../core/values/random.ts';

/** Scores that all stores of a measurement may keep: 24 MB. */
const MAX_SCORES = 3_000_000;
/** Minimum room of a store even if the budget is used up, for example for the last of many hours. */
const FEWEST_SCORES = 10_000;
const FIRST_ROWS = 64;

/** The number of scores that the stores of a measurement may still keep. */
export const scoreBudget = (): { left: number } => ({ left: MAX_SCORES });

export class ScoreStore {
  /** Names of the scores of a row. */
  names: readonly string[] = [];
  values = new Float64Array(0);
  /** The class of each row's label, by the caller's number. */
  labels = new Uint16Array(0);
  /** Rows that are kept, and all that were added. */
  rows = 0;
  added = 0;
  /** Number of rows whose scores belong to other classes than those of the first row, and so cannot be compared. */
  others = 0;
  readonly #budget: { left: number };
  readonly #random = new Random(1);

  constructor(budget: { left: number }) {
    this.#budget = budget;
  }

  /**
   * Adds a row, unless its scores belong to other classes than those of the first row. When the store is full, the kept
   * rows are a random sample of all rows (Vitter 1985).
   */
  add(names: readonly string[], scores: readonly number[], label: number): void {
    if (this.added === 0) this.names = [...names];
    const isSame = names.length === this.names.length && names.every((name, at) => name === this.names[at]);
    const order = isSame ? undefined : this.names.map((name) => names.indexOf(name));
    if (order !== undefined && (names.length !== order.length || order.includes(-1))) {
      this.others += 1;
      return;
    }
    this.added += 1;
    if (this.rows === this.labels.length) this.#grow();
    const at = this.rows < this.labels.length ? this.rows++ : this.#random.below(this.added);
    if (at >= this.rows) return;
    this.labels[at] = label;
    const width = this.names.length;
    for (let column = 0; column < width; column += 1) {
      this.values[at * width + column] = scores[order?.[column] ?? column] as number;
    }
  }

  #grow(): void {
    const width = this.names.length;
    const wanted = Math.max(FIRST_ROWS, this.labels.length);
    const own = Math.floor(FEWEST_SCORES / width) - this.labels.length;
    const more = Math.min(wanted, Math.max(own, Math.floor(this.#budget.left / width)));
    if (more <= 0) return;
    this.#budget.left -= more * width;
    const size = this.labels.length + more;
    const [values, labels] = [new Float64Array(size * width), new Uint16Array(size)];
    values.set(this.values);
    labels.set(this.labels);
    [this.values, this.labels] = [values, labels];
  }
}
