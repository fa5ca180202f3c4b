/** Graceful shutdown of a command that writes results: the first Ctrl-C stops the work, the second ends the process. */
import { type Stopping, stopOnSignals } from '../cli/stop-signals.ts';

export interface CommandStopping extends Stopping {
  /** Whether the work has started. From then on the command ends gracefully after a signal. */
  started: boolean;
  /** Sets the text that is printed on the next signal. */
  say(text: string): void;
}

export function stopCommandOnSignals(): CommandStopping {
  let text = 'Stopping. Press Ctrl-C again to leave immediately.';
  const stopping = stopOnSignals(() => process.stderr.write(`\n${text}\n`));
  const say = (next: string): void => {
    text = next;
  };
  return { ...stopping, started: false, say };
}
