/** Graceful shutdown of a command on Ctrl-C, on SIGTERM and when the terminal is closed. */

export type Stopping = ReturnType<typeof stopOnSignals>;

/** Exit code of an interrupted program, as shells report it: 128 + the number of SIGINT. */
export const INTERRUPTED = 130;

/** Catches the first signal. A second one ends the process immediately. @param onStop called on the first signal */
export function stopOnSignals(onStop: () => void = () => {}) {
  const controller = new AbortController();
  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    onStop();
    controller.abort(new Stopped());
    resolve();
  };
  // The terminal is gone, and both the kernel and the shell may send the signal. Writing to the terminal fails from now on,
  // which must not lose any results.
  const hangUp = (): void => {
    for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
    if (!controller.signal.aborted) stop();
  };
  const handlers = [
    ['SIGINT', stop],
    ['SIGTERM', stop],
    ['SIGHUP', hangUp],
  ] as const;
  for (const [name, handler] of handlers) process.on(name, handler);
  return {
    /** Aborted on the first signal, with a `Stopped`. */
    signal: controller.signal,
    /** Resolves on the first signal. */
    stopped,
    /** Removes the signal handlers. */
    dispose: (): void => {
      for (const [name, handler] of handlers) process.off(name, handler);
    },
  };
}

/** Thrown out of work that a signal has ended. */
export class Stopped extends Error {
  override name = 'Stopped';

  constructor() {
    super('Stopped by a signal');
  }
}
