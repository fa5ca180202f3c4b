/** The process that works on heavy captures, one after the other. `HeavyCaptures` starts it and may kill it at any time. */
import { collectGarbage } from '../../core/process/memory.ts';
import { doHeavyWork, type HeavyJob } from './heavy-work.ts';

const send = (message: unknown): void => void process.send?.(message);

process.on('message', (job: HeavyJob) => {
  doHeavyWork(job, (line) => send({ line }));
  collectGarbage();
  send({ done: true });
});
// The function has ended, or needs it no more.
process.on('disconnect', () => process.exit());
