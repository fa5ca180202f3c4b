/**
 * Recognizes two executions for the same object at the same time. EventBridge delivers at least once: while the first
 * execution runs, a second one with the same request ends as its duplicate.
 */
import { hash } from 'node:crypto';
import type { ObjectFacts, Work } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import { untilWritten } from '../../core/aws/until-written.ts';
import type { Execution } from '../../core/contract/execution.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { workKeys } from '../../core/contract/work-keys.ts';

type RunIdentity = Pick<Execution, 'name' | 'arn'>;

/**
 * Returns whether an execution is running. Returns false for an execution unknown to Step Functions, unless its claim
 * is new.
 */
export type IsRunning = (executionArn: string, claimedMs: number) => Promise<boolean>;

/**
 * Claims the object, in its version and with the request’s options, for this run.
 *
 * @returns the run that owns the claim, if it is still running; `undefined` when this run owns it
 * @throws RetryableError `StorageUnavailable` if others keep taking the claim
 */
export async function claimObject(
  { storage, workBucket }: Work,
  object: ObjectFacts,
  run: RunIdentity,
  options: RunOptions,
  isRunning: IsRunning,
): Promise<RunIdentity | undefined> {
  const { evaluate, reevaluate, sampleRate, verdicts, budgetUsd, judge } = options;
  // Without evaluation, options about judging make no difference.
  const asked = evaluate
    ? JSON.stringify([reevaluate, sampleRate ?? null, verdicts ?? null, budgetUsd ?? null, judge])
    : 'traces only';
  const { bucket, key: file, versionId = '', etag } = object;
  const identity = [bucket, file, versionId, etag, asked].join('\n');
  const key = workKeys.claim(hash('sha256', identity));
  const claim = { name: run.name, arn: run.arn, object: `s3://${bucket}/${file}`, etag, claimedMs: Date.now() };
  const where = `s3://${workBucket}/${key}`;
  const isTaken = async (of?: string) => (await storage.putJsonIf(workBucket, key, claim, of)) !== undefined;
  return untilWritten(where, async () => {
    // Usually there is no claim yet: then this is the only request.
    if (await isTaken()) return { result: undefined };
    const stored = await storage.getText(workBucket, key);
    if (stored === undefined) return undefined;
    const { name, arn, claimedMs } = parseStored<typeof claim>(stored.text, where);
    // A retried PlanCaptures finds its own claim.
    if (arn === run.arn) return { result: undefined };
    if (await isRunning(arn, claimedMs)) return { result: { name, arn } };
    return (await isTaken(stored.etag)) ? { result: undefined } : undefined;
  });
}
