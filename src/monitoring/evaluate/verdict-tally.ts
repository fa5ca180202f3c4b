/** Counts what became of each verdict of a chunk: the terms of the second equation, with their reasons and values. */

import type { EvaluateReceipt, VerdictCounts } from '../../contract/receipts.ts';
import type { NewAssessment } from '../../mlflow/types.ts';
import { addCounts, emptyVerdictCounts, noCounts } from '../counts.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';

export class VerdictTally {
  readonly #counts = emptyVerdictCounts();
  readonly #reasons = noCounts();
  readonly #verdicts: Record<string, Record<string, number>> = Object.create(null);
  #failedRecorded = 0;

  settle(term: keyof VerdictCounts, count = 1): void {
    this.#counts[term] += count;
  }

  notJudgeable(reason: string): void {
    this.settle('notJudgeable');
    addCounts(this.#reasons, { [reason]: 1 });
  }

  /** Counts the scorers that are not pending. */
  settled({ settled, reasons }: Pick<PendingVerdicts, 'settled' | 'reasons'>): void {
    addCounts(this.#counts, settled);
    addCounts(this.#reasons, reasons);
  }

  /** Counts an assessment that is in MLflow now. Numbers are summed as `count` and `sum`. */
  recorded({ name, value, error }: NewAssessment): void {
    if (error !== undefined) {
      this.settle('failed');
      this.#failedRecorded += 1;
      return;
    }
    this.settle('newVerdicts');
    this.#verdicts[name] ??= noCounts();
    addCounts(this.#verdicts[name], typeof value === 'number' ? { count: 1, sum: value } : { [String(value)]: 1 });
  }

  receipt(): Pick<EvaluateReceipt, 'counts' | 'failedRecorded' | 'reasons' | 'verdicts'> {
    return {
      counts: this.#counts,
      failedRecorded: this.#failedRecorded,
      reasons: this.#reasons,
      verdicts: this.#verdicts,
    };
  }
}
