/** What stopped a step of a state machine, in words. */

import type { Raised } from '../../contract/execution.ts';
import { causeOf } from '../../shared/cause.ts';

export const raisedText = ({ Error: name, Cause }: Raised): string => {
  const cause = causeOf(Cause);
  return cause === '' ? name : `${name}: ${cause}`;
};
