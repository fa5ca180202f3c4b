/** Adds up what the chunks of a run have done, in memory that depends on the hours and variants, not on the chunks. */
import type { QualityCounts } from '../core/contract/quality.ts';
import { addTree, branch } from './count-tree.ts';
import { dayOf } from './counts-store.ts';

/** Hours × variants of one run: more than a year of two variants. With a dozen scorers, they take about 100 MB. */
const MAX_CELLS = 20_000;
/** Days of one run, each of which is an object. */
const MAX_DAYS = 1_100;

export interface RunSumsState {
  counts: QualityCounts;
  /** Captures that are in no counts, because they would add more hours than a run may have. */
  beyond: number;
}

export class RunSums {
  readonly counts: QualityCounts;
  #beyond: number;
  #cells = 0;
  readonly #days: Set<string>;

  constructor({ counts = {}, beyond = 0 }: Partial<RunSumsState> = {}) {
    this.counts = counts;
    this.#beyond = beyond;
    for (const hour of Object.values(counts)) this.#cells += Object.keys(hour).length;
    this.#days = new Set(Object.keys(counts).map(dayOf));
  }

  add(counts: QualityCounts): void {
    for (const [hour, variants] of Object.entries(counts)) {
      for (const [variant, cell] of Object.entries(variants)) {
        if (this.#hasRoom(hour, variant)) addTree(branch(branch(this.counts, hour), variant), cell);
        else this.#beyond += cell.captures ?? 0;
      }
    }
  }

  #hasRoom(hour: string, variant: string): boolean {
    if (Object.hasOwn(this.counts, hour) && Object.hasOwn(this.counts[hour] ?? {}, variant)) return true;
    const day = dayOf(hour);
    if (this.#cells >= MAX_CELLS || (this.#days.size >= MAX_DAYS && !this.#days.has(day))) return false;
    this.#cells += 1;
    this.#days.add(day);
    return true;
  }

  state(): RunSumsState {
    return { counts: this.counts, beyond: this.#beyond };
  }

  /** Returns a warning for the summary if counts are missing. */
  warnings(): string[] {
    if (this.#beyond === 0) return [];
    const most = `${MAX_CELLS} hours of variants on ${MAX_DAYS} days`;
    return [
      `${this.#beyond} captures are in no counts, so \`rates\` does not know them: a run counts at most ${most}. Run such a backfill in several parts, or look at the captures' times`,
    ];
  }
}
