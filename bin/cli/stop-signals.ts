/** Graceful shutdown of a command on Ctrl-C, on SIGTERM and when the terminal is closed. */

/** Exit code of an interrupted program, as shells report it: 128 + the number of SIGINT. */
export const INTERRUPTED = 130;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Catches the first signal. A second one ends the process immediately. @param onStop called on the first signal */
export function stopOnSignals(onStop: () => void = () => {}) {
  const controller = new AbortController();
  const stop = (name: NodeJS.Signals): void => {
    // The terminal is gone, and both the kernel and the shell may send the signal. Writing to the terminal fails from now on,
    // which must not lose any results.
    const isGone = name === 'SIGHUP';
    if (isGone) for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
    if (controller.signal.aborted && !isGone) process.exit(INTERRUPTED);
    if (controller.signal.aborted) return;
    onStop();
    controller.abort();
  };
  for (const name of SIGNALS) process.on(name, stop);
  return {
    /** Aborted on the first signal. */
    signal: controller.signal,
    /** Removes the signal handlers. */
    dispose: (): void => {
      for (const name of SIGNALS) process.off(name, stop);
    },
  };
}
