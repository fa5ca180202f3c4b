/** What a person's Ctrl-C, a closed terminal and a supervisor's SIGTERM have in common: the end of a local command. */

export interface Stopping {
  /** Aborted at the first signal. */
  signal: AbortSignal;
  /** Resolves at the first signal. */
  stopped: Promise<void>;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Exit code of a program that was interrupted: 128 + SIGINT's number. */
export const INTERRUPTED = 130;

/** Catches the first signal; the second ends this process at once. */
export function stopOnSignals(): Stopping {
  const controller = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    const onSignal = () => {
      if (controller.signal.aborted) process.exit(INTERRUPTED);
      controller.abort(new Stopped());
      resolve();
    };
    for (const signal of SIGNALS) process.on(signal, onSignal);
  });
  return { signal: controller.signal, stopped };
}

/** Thrown out of work that a signal ended. */
export class Stopped extends Error {
  override name = 'Stopped';

  constructor() {
    super('Stopped by a signal');
  }
}
