/** Work that the first Ctrl-C interrupts. The second one ends the process. */
import { EXIT, notice, progress } from './output.ts';
import { stopOnSignals } from './stop-signals.ts';

export interface Interruption {
  signal: AbortSignal;
  /** From now on there are results to write, so that the work ends by itself after a signal. @param said on the signal */
  writes(said: string): void;
}

/**
 * Does work that Ctrl-C interrupts, with the exit code for interruptions.
 *
 * @param explain returns the text to print then
 * @returns `undefined` if it was interrupted before it started to write results
 */
export async function unlessInterrupted<T>(
  work: (interruption: Interruption) => Promise<T>,
  explain: () => readonly string[],
): Promise<T | undefined> {
  let text = 'Press Ctrl-C again to leave immediately.';
  const { signal, dispose } = stopOnSignals(() => process.stderr.write(`\n${text}\n`));
  let hasResults = false;
  const writes = (said: string): void => {
    text = said;
    hasResults = true;
  };
  try {
    return await work({ signal, writes });
  } catch (error) {
    if (hasResults || !signal.aborted) throw error;
    progress.end();
    for (const line of explain()) notice(line);
    process.exitCode = EXIT.interrupted;
    return undefined;
  } finally {
    dispose();
  }
}
