/** What the exit codes of all commands mean. */

export const EXIT = {
  /** The command did what was asked. */
  done: 0,
  /** It did, and found what the caller asked to be told of: a crossed threshold, a broken set-up, a run that failed. */
  found: 1,
  /** It could not do it: a wrong option, a missing stack, no permission. */
  notDone: 2,
  /** It was interrupted by Ctrl-C, as shells report it: 128 + the number of SIGINT. */
  interrupted: 130,
} as const;
