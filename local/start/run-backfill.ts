/** Runs a backfill for `npm start`, which has put the files without events. */
import { startNamed } from '../../bin/operate/executions.ts';
import type { ProcessFilesOptions, Run } from '../../bin/operate/process-files.ts';
import { followRuns, runWatcher } from '../../bin/operate/run-progress.ts';

/** Runs one execution over all captures under a prefix and waits until it has ended, successfully or not. */
export async function runBackfill(
  options: Omit<ProcessFilesOptions, 'files' | 'startLimitMs'> & { prefix: string },
): Promise<Run[]> {
  const { clients, captureBucket: bucket, workBucket, stateMachineArn, prefix, signal, onPoll = () => {} } = options;
  const started = await startNamed(clients.sfn, stateMachineArn, { bucket, prefix });
  const results = await followRuns([runWatcher(clients, workBucket, started)], onPoll, signal);
  return results.map((result) => ({ ...result, keys: [prefix] }));
}
