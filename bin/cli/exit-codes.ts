/** What the exit codes of all commands mean. docs/commands.md lists them. */
import { GATE_EXIT_CODES } from '../../src/replay/gate/types.ts';
import { INTERRUPTED } from './stop-signals.ts';

export const EXIT = {
  /** The command did what was asked. */
  done: 0,
  /** It did, and found what the caller asked to be told of: a crossed threshold, a broken set-up, a run that failed. */
  found: 1,
  /** It could not do it: a wrong option, a missing stack, no permission. */
  notDone: 2,
  /** It did, and the data at hand cannot decide a threshold. */
  undecided: GATE_EXIT_CODES['cannot-tell'],
  /** It was interrupted by Ctrl-C. */
  interrupted: INTERRUPTED,
} as const;
