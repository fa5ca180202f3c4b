/** When a gate is looked at while its replay is running, and at which level. */

import { LEVEL } from '../../shared/statistics/power.ts';
import { SpendingLook, spentAt } from '../../shared/statistics/spending.ts';

/** Looks up to the planned size. More of them would hardly end a replay earlier. */
const LOOKS = 10;
/** No look has fewer new pairs. */
const FEWEST_NEW = 10;
/** Each look beyond the planned size sees so many times as many pairs as the one before. */
const GROWTH = 1.5;
/** A look that would see this share of the captures is left to the one at their end. */
const CLOSE_TO_END = 0.95;

/**
 * Sizes are in pairs of requests. They are fixed before the first request is sent, so that they cannot depend on what is
 * measured: every tenth of the planned size, then half as much more each time, then at the end of the captures.
 */
export class Looks {
  readonly #planned: number;
  readonly #expected: number;
  #look = SpendingLook.none;
  #last = 0;

  /**
   * @param planned size at which a single look would probably decide
   * @param expected pairs until the end of the captures
   */
  constructor(planned: number, expected: number) {
    this.#planned = Math.max(1, Math.ceil(Math.min(planned, expected)));
    this.#expected = expected;
  }

  /** Pairs at the next look. `isEnd`: the one at the end of the captures, which may have fewer than expected. */
  get next(): { size: number; isEnd: boolean } {
    const planned = this.#planned;
    const step = Math.max(planned / LOOKS, FEWEST_NEW);
    let size = Math.min(planned, step * (Math.floor(this.#last / step) + 1));
    while (size <= this.#last) size *= GROWTH;
    const isEnd = size >= this.#expected * CLOSE_TO_END;
    return { size: isEnd ? this.#expected : Math.ceil(size), isEnd };
  }

  /**
   * Returns the level of the look.
   *
   * @param size more than at the look before
   * @param isEnd it is the last one, which uses up what is left
   */
  level(size: number, isEnd: boolean): number {
    this.#last = size;
    this.#look = this.#look.next(size, LEVEL * (isEnd ? 1 : spentAt(size / this.#planned)));
    return this.#look.level;
  }
}
