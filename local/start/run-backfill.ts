/** Runs a backfill for `npm start`, which has put the files without events. */
import { DescribeExecutionCommand } from '@aws-sdk/client-sfn';
import { startNamed } from '../../bin/operate/executions.ts';
import { type ProcessFilesOptions, type Run, runOf } from '../../bin/operate/process-files.ts';
import { followRuns, RunWatcher } from '../../bin/operate/run-progress.ts';

const POLL_MS = 400;

/** Runs one execution over all captures under a prefix and waits until it has ended, successfully or not. */
export async function runBackfill(
  options: Omit<ProcessFilesOptions, 'files' | 'startLimitMs'> & { prefix: string },
): Promise<Run[]> {
  const { clients, captureBucket: bucket, workBucket, stateMachineArn, prefix, signal, pollMs = POLL_MS } = options;
  const started = await startNamed(clients.sfn, stateMachineArn, { bucket, prefix });
  await followRuns([new RunWatcher(clients, workBucket, started)], {
    signal,
    pollMs: { least: pollMs, most: pollMs },
    onLook: ([look]) => {
      const { status = 'RUNNING', planned, chunks } = look ?? {};
      const runs = [{ ...started, keys: [prefix], status }];
      options.onProgress?.({ unit: 'chunks', total: planned?.chunks ?? 0, done: chunks?.done ?? 0, runs });
    },
  });
  return [runOf(await clients.sfn.send(new DescribeExecutionCommand({ executionArn: started.arn })), [prefix])];
}
