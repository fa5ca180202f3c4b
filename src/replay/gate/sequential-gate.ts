/** A gate that is looked at again and again while its replay is running. */

import { LEVEL } from '../../shared/statistics/power.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { decideGate, gateOf } from './gate.ts';
import { Looks } from './looks.ts';
import type { Threshold } from './thresholds.ts';
import type { GateResult, ThresholdResult } from './types.ts';

/** A look that was taken: its pairs and its one-sided level. */
export interface Look {
  pairs: number;
  level: number;
}

export interface SequentialOptions {
  thresholds: readonly Threshold[];
  /** Pairs at which a single look would probably decide. */
  planned: number;
  /** Pairs until the end of the captures. */
  expected: number;
  /** As a share. */
  zeroTolerance?: number;
}

/** Each threshold is decided at one look, and stays so. */
export class SequentialGate {
  readonly #options: SequentialOptions;
  readonly #looks: Looks;
  readonly #decided = new Map<Threshold, ThresholdResult>();
  #results: ThresholdResult[] = [];
  readonly taken: Look[] = [];

  constructor(options: SequentialOptions) {
    this.#options = options;
    this.#looks = new Looks(options.planned, options.expected);
  }

  /** Pairs at the next look. `isEnd`: the one at the end of the captures, which may have fewer than expected. */
  get next(): { size: number; isEnd: boolean } {
    return this.#looks.next;
  }

  /** Thresholds that are not decided. */
  get open(): Threshold[] {
    return this.#options.thresholds.filter((threshold) => !this.#decided.has(threshold));
  }

  get result(): GateResult {
    return gateOf(this.#results);
  }

  /**
   * @param data the first pairs of the schedule
   * @param pairs their number; more than at the look before, or 0 at the end of captures without a pair
   * @param isEnd there will be no further look
   */
  look(data: ComparedData, pairs: number, isEnd: boolean): void {
    const { thresholds, zeroTolerance } = this.#options;
    const level = pairs === 0 ? LEVEL : this.#looks.level(pairs, isEnd);
    if (pairs > 0) this.taken.push({ pairs, level });
    const found = decideGate(thresholds, data, { level, zeroTolerance }).thresholds;
    this.#results = thresholds.map((threshold, i) => {
      const result = this.#decided.get(threshold) ?? (found[i] as ThresholdResult);
      if (result.outcome !== 'cannot-tell') this.#decided.set(threshold, result);
      return result;
    });
  }
}
