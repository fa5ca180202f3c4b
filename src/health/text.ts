/** Signs of states, on terminals and on the page. */

import type { Finding } from './findings.ts';
import STATES from './states.json' with { type: 'json' };

/** A sign for each state, so that nothing depends on color. */
export const SIGNS = STATES.signs;

/** Returns the sign of a finding, and its state in words: what is not beyond its bound may still not be clearly within it. */
export const signOf = ({ state, isWithin }: Pick<Finding, 'state' | 'isWithin'>): [sign: string, words: string] =>
  state === 'healthy' && isWithin === false ? ['·', 'not clearly within'] : [SIGNS[state], state];
