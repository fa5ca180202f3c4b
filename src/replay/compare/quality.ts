/** Adds up the comparisons of all replies of a run. */

import { namedCounts } from '../../core/text/terminal-text.ts';
import type { Preference } from '../../judge/pairwise.ts';
import type { PreparedRequest } from '../request/preparer.ts';
import { REGRESSIONS, type Regression, regressionsOf } from './compare-replies.ts';
import { isEmptied, pairOf, replyText, type StoredReply } from './replies-file.ts';

/** Number of pairs by the judge's verdict on the new reply. */
export type Judged = Record<Preference | 'undecided' | 'failed' | 'overBudget', number> & {
  /** Number of failed pairs by error code. */
  errors?: Record<string, number>;
};

export const nothingJudged = (): Judged => ({ better: 0, same: 0, worse: 0, undecided: 0, failed: 0, overBudget: 0 });

/** The error codes with their counts; empty without errors. */
export const errorsText = ({ errors }: Judged): string => namedCounts(errors);

/** A request whose reply got worse, with all data that a person needs to see why. */
export interface RegressionRow extends Pick<PreparedRequest, 'eventId' | 'file' | 'line'> {
  key: string;
  /** Id of the request in the second run, from which its trace's id is derived. */
  requestId?: string;
  regressions: Regression[];
  overlap?: number;
  input: string;
  before: string;
  after: string;
  rationale?: string;
}

const nothingCompared = () => ({
  compared: 0,
  identical: 0,
  same: 0,
  status: { 'both-ok': 0, 'both-failed': 0, 'newly-failing': 0, 'newly-succeeding': 0 },
  /** Number of replies with text. */
  texts: 0,
  meanOverlap: null as number | null,
  /** Words in the new replies ÷ words in the old replies, over all texts. */
  lengthRatio: null as number | null,
  refusals: { before: 0, after: 0 },
  /** `valuesChanged`: pairs of the same structure with different values. */
  json: { compared: 0, valuesChanged: 0 },
  regressions: Object.fromEntries(REGRESSIONS.map((name) => [name, 0])) as Record<Regression, number>,
  /** Requests with at least one regression other than `little-in-common`. */
  regressed: 0,
  /**
   * Pairs with two replies that a judge can compare. Equal pairs need no verdict. Pairs with an empty new reply
   * (`emptied`) count as worse without a verdict.
   */
  comparable: { equal: 0, differing: 0, emptied: 0 },
});

export interface Quality extends ReturnType<typeof nothingCompared> {
  /** `undecided`: the verdicts of the two orders contradict each other; `overBudget`: not asked, the budget was used up. */
  judged?: Judged;
  /**
   * `asked`: differing pairs with a verdict on harm in the new reply. `new`: pairs in which only the new reply does
   * harm.
   */
  harm?: { asked: number; new: number };
}

const MAX_ROWS = 100;

/** Adds counts to the counts of the same names, at every depth. */
function addCounts(counts: object, more: object): void {
  const sums = counts as Record<string, unknown>;
  for (const [name, value] of Object.entries(more)) {
    const own = sums[name];
    if (typeof own === 'number') sums[name] = own + value;
    else if (own !== null && value !== null) addCounts(own as object, value);
  }
}

/** A reply with little in common may still be as good. */
export const isRegressed = (regressions: readonly Regression[]): boolean =>
  regressions.some((name) => name !== 'little-in-common');

/** Order of the rows: the gravest regression first, then the least overlap. */
const rankOf = (row: RegressionRow): number => Math.min(...row.regressions.map((name) => REGRESSIONS.indexOf(name)));
const worseFirst = (a: RegressionRow, b: RegressionRow): number =>
  rankOf(a) - rankOf(b) || (a.overlap ?? 0) - (b.overlap ?? 0);

/** The sum of comparisons, and the rows of replies that got worse. */
export class ReplyQualityTally {
  /** Over all texts: the shares of common words, and the words of both replies. */
  readonly #texts = { overlap: 0, before: 0, after: 0 };
  readonly quality: Quality = nothingCompared();
  #withoutCaptured = 0;
  #rows: RegressionRow[] = [];

  add(stored: StoredReply): void {
    const { quality } = this;
    const { comparison } = stored;
    if (!comparison) {
      this.#withoutCaptured++;
      return;
    }
    quality.compared++;
    quality.status[comparison.status]++;
    if (comparison.identical) quality.identical++;
    if (comparison.same) quality.same++;
    if (comparison.status === 'both-ok' && comparison.same) quality.comparable.equal++;
    if (pairOf(stored)) quality.comparable.differing++;
    if (isEmptied(stored)) quality.comparable.emptied++;
    if (comparison.overlap !== undefined) {
      quality.texts++;
      const [before = 0, after = 0] = comparison.words ?? [];
      this.#addTexts({ overlap: comparison.overlap, before, after });
    }
    const { refusal, json } = comparison;
    if (refusal?.before) quality.refusals.before++;
    if (refusal?.after) quality.refusals.after++;
    if (json) quality.json.compared++;
    if (json?.sameStructure && !json.equal) quality.json.valuesChanged++;
    const regressions = regressionsOf(comparison);
    if (regressions.length > 0) {
      if (isRegressed(regressions)) quality.regressed++;
      for (const name of regressions) quality.regressions[name]++;
      this.#addRow(stored, regressions);
    }
  }

  #addTexts(texts: TallyJson['texts']): void {
    const { quality } = this;
    addCounts(this.#texts, texts);
    const { overlap, before, after } = this.#texts;
    quality.meanOverlap = quality.texts > 0 ? overlap / quality.texts : null;
    quality.lengthRatio = before > 0 ? after / before : null;
  }

  /** Adds the sums of another process. */
  merge({ quality, withoutCaptured, regressions, texts }: TallyJson): void {
    const { meanOverlap: _, lengthRatio: __, ...counts } = quality;
    addCounts(this.quality, counts);
    this.#withoutCaptured += withoutCaptured;
    this.#rows.push(...regressions);
    this.#trim();
    this.#addTexts(texts);
  }

  toJSON() {
    return { ...this.result(), texts: this.#texts };
  }

  /** Adds that the judge finds a reply worse, or that it newly does harm. */
  addJudged(stored: StoredReply, found: Extract<Regression, 'new-harm' | 'judged-worse'>[], rationale?: string): void {
    const earlier = stored.comparison ? regressionsOf(stored.comparison) : [];
    for (const name of found) this.quality.regressions[name]++;
    if (!isRegressed(earlier)) this.quality.regressed++;
    // An earlier row of the reply is replaced. It may also have been dropped as a minor one.
    this.#rows = this.#rows.filter(({ key }) => key !== stored.key);
    this.#addRow(stored, [...earlier, ...found], rationale);
  }

  /** The sums so far, with the gravest regressions, worst first. */
  result(): { quality: Quality; withoutCaptured: number; regressions: RegressionRow[] } {
    this.#trim();
    return { quality: this.quality, withoutCaptured: this.#withoutCaptured, regressions: this.#rows };
  }

  #addRow(stored: StoredReply, regressions: Regression[], rationale?: string): void {
    const { key, event_id: eventId, request_id: requestId, file, line, input, captured, reply, comparison } = stored;
    const [before, after] = [captured ? replyText(captured) : '', replyText(reply)];
    const { overlap } = comparison ?? {};
    this.#rows.push({ key, eventId, requestId, file, line, regressions, overlap, input, before, after, rationale });
    if (this.#rows.length > MAX_ROWS * 2) this.#trim();
  }

  #trim(): void {
    this.#rows.sort(worseFirst).splice(MAX_ROWS);
  }
}

export type TallyJson = ReturnType<ReplyQualityTally['toJSON']>;
