/** Comparisons of a run added up. */
import { REGRESSIONS, type Regression, type ReplyComparison, regressionsOf } from './compare-replies.ts';

export type Preference = 'better' | 'same' | 'worse';

/** Pairs by the judge's verdict on the new reply. */
export type Judged = Record<Preference | 'undecided' | 'failed' | 'overBudget', number> & {
  /** Of those that failed, by the code of the error. */
  errors?: Record<string, number>;
};

export const nothingJudged = (): Judged => ({ better: 0, same: 0, worse: 0, undecided: 0, failed: 0, overBudget: 0 });

/** Adds pairs that have no verdict. */
export function addFailed(judged: Judged, code: string, count = 1): void {
  judged.errors ??= {};
  judged.errors[code] = (judged.errors[code] ?? 0) + count;
}

/** Codes and counts, in words; empty where all have a verdict. */
export const errorsText = ({ errors = {} }: Judged): string =>
  Object.entries(errors)
    .map(([code, count]) => `${code} ${count}`)
    .join(', ');

/** A judge that was asked and has said nothing of any pair is one that does not work, in words. */
export function withoutAnyVerdict(judged: Judged): string | undefined {
  const { better, same, worse, undecided, failed } = judged;
  if (failed === 0 || better + same + worse + undecided > 0) return undefined;
  return `not one of ${failed} pairs has a verdict: ${errorsText(judged)}`;
}

/** A request whose reply got worse, with what a person needs to see that. */
export interface RegressionRow {
  key: string;
  eventId?: string;
  file: string;
  line: number;
  regressions: Regression[];
  overlap?: number;
  input: string;
  before: string;
  after: string;
  rationale?: string;
}

export interface Quality {
  compared: number;
  identical: number;
  same: number;
  status: Record<ReplyComparison['status'], number>;
  /** Replies with text. */
  texts: number;
  meanOverlap: number | null;
  /** Words after ÷ words before, over all texts. */
  lengthRatio: number | null;
  refusals: { before: number; after: number; new: number; gone: number };
  json: { compared: number; broken: number; repaired: number; structureChanged: number; valuesChanged: number };
  regressions: Record<Regression, number>;
  /** Requests with at least one regression; other words for the same thing are none. */
  regressed: number;
  /** `undecided`: the two orders contradict each other; `overBudget`: not asked, since the money was spent. */
  judged?: Judged;
}

const MAX_ROWS = 100;

/** A reply with little in common is worth a look, and may be as good. */
const isRegressed = (regressions: readonly Regression[]): boolean =>
  regressions.some((name) => name !== 'little-in-common');

/** Worst first: by the gravest regression, then by how little is in common. */
const gravity = (row: RegressionRow): number => Math.min(...row.regressions.map((name) => REGRESSIONS.indexOf(name)));
const worseFirst = (a: RegressionRow, b: RegressionRow): number =>
  gravity(a) - gravity(b) || (a.overlap ?? 0) - (b.overlap ?? 0);

export class QualityTally {
  #overlap = 0;
  #words: [number, number] = [0, 0];
  readonly quality: Quality = {
    compared: 0,
    identical: 0,
    same: 0,
    status: { 'both-ok': 0, 'both-failed': 0, 'newly-failing': 0, 'newly-succeeding': 0 },
    texts: 0,
    meanOverlap: null,
    lengthRatio: null,
    refusals: { before: 0, after: 0, new: 0, gone: 0 },
    json: { compared: 0, broken: 0, repaired: 0, structureChanged: 0, valuesChanged: 0 },
    regressions: Object.fromEntries(REGRESSIONS.map((name) => [name, 0])) as Record<Regression, number>,
    regressed: 0,
  };
  rows: RegressionRow[] = [];

  /** @param row called for a reply that got worse */
  add(comparison: ReplyComparison, row: () => Omit<RegressionRow, 'regressions' | 'overlap'>): void {
    const { quality } = this;
    quality.compared++;
    quality.status[comparison.status]++;
    if (comparison.identical) quality.identical++;
    if (comparison.same) quality.same++;
    if (comparison.overlap !== undefined) {
      quality.texts++;
      this.#overlap += comparison.overlap;
      this.#words[0] += comparison.words?.[0] ?? 0;
      this.#words[1] += comparison.words?.[1] ?? 0;
      quality.meanOverlap = this.#overlap / quality.texts;
      quality.lengthRatio = this.#words[0] > 0 ? this.#words[1] / this.#words[0] : null;
    }
    this.#addRefusal(comparison);
    this.#addJson(comparison);
    const regressions = regressionsOf(comparison);
    if (regressions.length > 0) {
      if (isRegressed(regressions)) quality.regressed++;
      for (const name of regressions) quality.regressions[name]++;
      this.addRow({ ...row(), regressions, overlap: comparison.overlap });
    }
  }

  /** A reply that the judge found worse, whatever else is known of it. */
  addJudgedWorse(
    row: Omit<RegressionRow, 'regressions' | 'overlap'>,
    comparison: ReplyComparison,
    rationale: string | undefined,
  ): void {
    const earlier = regressionsOf(comparison);
    this.quality.regressions['judged-worse']++;
    if (!isRegressed(earlier)) this.quality.regressed++;
    // Its row may have been dropped as one of the lesser ones: with the judge's verdict it is a graver one.
    this.rows = this.rows.filter(({ key }) => key !== row.key);
    this.addRow({ ...row, regressions: [...earlier, 'judged-worse'], overlap: comparison.overlap, rationale });
  }

  addRow(row: RegressionRow): void {
    this.rows.push(row);
    if (this.rows.length > MAX_ROWS * 2) this.#trim();
  }

  /** The gravest rows, worst first. */
  worst(): RegressionRow[] {
    this.#trim();
    return this.rows;
  }

  #trim(): void {
    this.rows.sort(worseFirst);
    this.rows.length = Math.min(this.rows.length, MAX_ROWS);
  }

  #addRefusal({ refusal }: ReplyComparison): void {
    if (!refusal) return;
    const { refusals } = this.quality;
    if (refusal.before) refusals.before++;
    if (refusal.after) refusals.after++;
    if (refusal.after && !refusal.before) refusals.new++;
    if (refusal.before && !refusal.after) refusals.gone++;
  }

  #addJson({ json: found }: ReplyComparison): void {
    if (!found) return;
    const { json } = this.quality;
    json.compared++;
    if (found.before && !found.after) json.broken++;
    if (!found.before && found.after) json.repaired++;
    if (found.before && found.after) {
      if (found.sameStructure === false) json.structureChanged++;
      else if ((found.differences?.length ?? 0) > 0) json.valuesChanged++;
    }
  }
}
