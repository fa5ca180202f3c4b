import type { Random } from '../../src/core/values/random.ts';

/** Returns the time to the next arrival of a Poisson process. */
export const exponential = (random: Random, mean: number): number => -Math.log(1 - random.next()) * mean;
