/** What stopped a step of a state machine, in words. */
import { causeOf } from '../../common/cause.ts';
import type { Raised } from '../../replay-contract.ts';

export const raisedText = ({ Error: name, Cause }: Raised): string => {
  const cause = causeOf(Cause);
  return cause === '' ? name : `${name}: ${cause}`;
};
