/** What two compared runs show, for tests and benchmarks of the gate. */
import type { ComparedData } from '../../src/replay/compare/compared-data.ts';

/** Two runs of `pairs` requests that all succeeded, without values and replies. */
export const noCases = (pairs: number): ComparedData => ({
  failures: [
    [0, pairs],
    [0, pairs],
  ],
  pairs: { requests: pairs, known: pairs, newlyFailing: 0, newlySucceeding: 0 },
  metrics: {},
});
