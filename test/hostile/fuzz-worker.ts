/** Runs the fuzzer’s cases in turn, in a process that may be killed by its heap limit or by the fuzzer. */
import { type Case, runCase } from './cases.ts';

export interface CaseResult {
  error?: string;
  /** CPU time, in milliseconds. */
  cpuMs: number;
  /** The memory peak of the process so far. */
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
