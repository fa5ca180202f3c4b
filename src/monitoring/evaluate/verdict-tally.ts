/** Counts the outcomes of the verdicts of a chunk: the terms of the second equation, with their reasons and values. */

import { type EvaluateReceipt, VERDICT_TERMS, type VerdictCounts } from '../../core/contract/receipts.ts';
import { addCounts, noCounts } from '../../core/values/counts.ts';
import type { HeldFor } from '../../judge/errors.ts';
import type { NewAssessment } from '../../mlflow/types.ts';
import { emptyVerdictCounts } from '../counts.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';

export class VerdictTally {
  readonly #byRange: VerdictCounts[];
  readonly #beyond: number[];
  readonly #reasons = noCounts();
  readonly #verdicts: Record<string, Record<string, number>> = Object.create(null);
  #failedRecorded = 0;

  /** @param ranges the number of ranges of the chunk. The other methods are given the ordinal of one */
  constructor(ranges: number) {
    this.#byRange = Array.from({ length: ranges }, () => emptyVerdictCounts());
    this.#beyond = this.#byRange.map(() => 0);
  }

  settle(range: number, term: keyof VerdictCounts, count = 1): void {
    const counts = this.#byRange[range];
    if (counts !== undefined) counts[term] += count;
  }

  notJudgeable(range: number, reason: string): void {
    this.settle(range, 'notJudgeable');
    addCounts(this.#reasons, { [reason]: 1 });
  }

  held(range: number, count: number, heldFor: HeldFor | undefined): void {
    this.settle(range, 'heldByBudget', count);
    if (heldFor !== undefined && heldFor !== 'budget' && count > 0) addCounts(this.#reasons, { [heldFor]: count });
  }

  /** Counts the scorers that are not pending, and how many the capture has beyond those of every capture. */
  settled(range: number, { settled, beyond, reasons }: Pick<PendingVerdicts, 'settled' | 'beyond' | 'reasons'>): void {
    this.#beyond[range] = (this.#beyond[range] ?? 0) + beyond;
    for (const term of VERDICT_TERMS) this.settle(range, term, settled[term]);
    for (const reason of Object.values(reasons)) addCounts(this.#reasons, { [reason]: 1 });
  }

  /** Counts an assessment that is in MLflow now. Numbers are summed as `count` and `sum`. */
  recorded(range: number, { name, value, error }: Pick<NewAssessment, 'name' | 'value' | 'error'>): void {
    if (error !== undefined) {
      this.settle(range, 'failed');
      this.#failedRecorded += 1;
      return;
    }
    this.settle(range, 'newVerdicts');
    this.#verdicts[name] ??= noCounts();
    addCounts(this.#verdicts[name], typeof value === 'number' ? { count: 1, sum: value } : { [String(value)]: 1 });
  }

  /** Counts a verdict that this run has written before, and that counts as already there so far. */
  repeated(range: number, verdict: Pick<NewAssessment, 'name' | 'value'>): void {
    this.settle(range, 'alreadyThere', -1);
    this.recorded(range, verdict);
  }

  receipt(): Pick<EvaluateReceipt, 'counts' | 'byRange' | 'beyond' | 'failedRecorded' | 'reasons' | 'verdicts'> {
    const counts = emptyVerdictCounts();
    for (const one of this.#byRange) addCounts(counts, one);
    const rows = this.#byRange.map((one) => VERDICT_TERMS.map((term) => one[term]));
    return {
      counts,
      ...(rows.length === 1 ? {} : { byRange: rows }),
      ...(this.#beyond.some((count) => count > 0) && { beyond: this.#beyond }),
      failedRecorded: this.#failedRecorded,
      reasons: this.#reasons,
      verdicts: this.#verdicts,
    };
  }
}
