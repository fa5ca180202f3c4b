/** Ctrl-C and the end of the terminal, for commands that end in order: the first one stops, another Ctrl-C ends the process. */
import type { JudgeSettings } from '../../src/replay/compare/judge-replies.ts';

/** As the shell has it for a process that Ctrl-C ended: 128 + SIGINT. */
export const EXIT_STOPPED = 130;

/** Calls that are under way when the judge is stopped are paid: their answers are waited for so long. */
const STOP_GRACE_MS = 10_000;

export interface Stopping {
  signal: AbortSignal;
  /** From then on a replay ends in order. */
  begun: boolean;
  /** What the next signal is answered with. */
  say(text: string): void;
  dispose(): void;
}

export function stopOnSignals(): Stopping {
  const controller = new AbortController();
  let text = 'Stopping. Ctrl-C again to leave at once.';
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(EXIT_STOPPED);
    process.stderr.write(`\n${text}\n`);
    controller.abort();
  };
  // The terminal is gone, and both the kernel and the shell may say so. What is written to it fails, which is no reason to
  // lose what was measured.
  const hangUp = (): void => {
    for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
    if (!controller.signal.aborted) stop();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  process.on('SIGHUP', hangUp);
  return {
    signal: controller.signal,
    begun: false,
    say: (next) => {
      text = next;
    },
    dispose: () => {
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
      process.off('SIGHUP', hangUp);
    },
  };
}

/** Asks about no further pair once the signal has come, and gives up what is under way after a while. */
export function stoppedBy(signal: AbortSignal, judging: JudgeSettings): JudgeSettings {
  const late = new AbortController();
  const stop = (): void => void setTimeout(() => late.abort(), STOP_GRACE_MS).unref();
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  return { ...judging, signal: late.signal, goOn: () => !signal.aborted };
}
