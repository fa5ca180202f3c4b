/** Captures by batch inference. The job may take a day: its execution's name is kept, so the canary can be left. */
import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { Canary } from '../canary.ts';
import { BATCHED, canaryLines, renamed, withOwnQuestions } from '../captures.ts';
import { captureKey } from './judge.ts';
import { eventInput } from './refusals.ts';

/** Bedrock gives a job up to a day; then come the answers. */
const JOB_LIMIT_MS = 25 * 3_600_000;
const BATCH_KEY = captureKey('batch');

/** Puts the file, if a batch job is asked for. It must be there before the stack, whose rule would have it judged at once. */
export async function putBatchFile(canary: Canary): Promise<void> {
  if (!canary.state.batch) return;
  const lines = withOwnQuestions(renamed(await canaryLines(canary, BATCHED), 'batch'));
  const Body = `${lines.join('\n')}\n`;
  await canary.clients.s3.send(new PutObjectCommand({ Bucket: canary.fact('captureBucket'), Key: BATCH_KEY, Body }));
}

export async function batchStep(canary: Canary): Promise<void> {
  if (!canary.state.batch) return canary.skip('batch-accepted', 'not asked for');
  const { captureBucket } = await canary.outputs();
  if (!canary.fact('batchExecution')) {
    const input = eventInput(captureBucket, BATCH_KEY, { judge: 'batch' });
    canary.fact('batchExecution', await canary.start(await canary.machine('stateMachineArn'), input));
  }
  canary.progress.log('The batch job may take a day. Ctrl-C leaves the canary; it says how to resume');
  const { status, error, summary } = await canary.ended(canary.fact('batchExecution'), JOB_LIMIT_MS);
  const { newVerdicts = 0, failed = 0 } = summary?.verdicts ?? {};
  canary.note(
    'batch-accepted',
    status === 'SUCCEEDED' && (summary?.batch?.jobs.length ?? 0) > 0 && failed === 0,
    `${status} ${error}: ${summary?.evaluatedTraces} of ${BATCHED} judged, ${newVerdicts} verdicts, ${failed} failed, ${JSON.stringify(summary?.batch ?? {})}`,
  );
}
