/** Runs the fuzzer's cases one after the other in a process that may be killed: by its heap, or by the one who waits for it. */
import { type Case, runCase } from './cases.ts';

export interface CaseResult {
  error?: string;
  /** Processor time, milliseconds. */
  cpuMs: number;
  /** Most memory that the process has had so far. */
  peakMb: number;
}

process.on('message', (one: Case) => {
  const before = process.cpuUsage();
  void runCase(one)
    .then(() => undefined)
    .catch((error: unknown) => (error instanceof Error ? `${error.stack}` : String(error)))
    .then((error) => {
      const { user, system } = process.cpuUsage(before);
      const facts = { cpuMs: (user + system) / 1000, peakMb: process.resourceUsage().maxRSS / 1024 };
      process.send?.({ ...(error === undefined ? {} : { error }), ...facts } satisfies CaseResult);
    });
});
