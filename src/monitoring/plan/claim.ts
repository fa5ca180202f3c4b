/**
 * Recognizes two executions for the same object at the same time. EventBridge delivers at least once: while the first
 * execution runs, a second one with the same request ends as its duplicate.
 */
import { hash } from 'node:crypto';
import type { ObjectFacts, Work } from '../../core/aws/storage.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { workKeys } from '../../core/contract/work-keys.ts';

interface RunIdentity {
  name: string;
  arn: string;
}

/**
 * Returns whether an execution is running. Returns false for an execution unknown to Step Functions, unless its claim
 * is new.
 */
export type IsRunning = (executionArn: string, claimedMs: number) => Promise<boolean>;

/** A round is lost when another execution takes the claim in between; five in a row would be five such executions. */
const CLAIM_ROUNDS = 5;

/**
 * Claims the object, in its version and with the request’s options, for this run.
 *
 * @returns the run that owns the claim, if it is still running; `undefined` when this run owns it
 */
export async function claimObject(
  { storage, workBucket }: Work,
  object: ObjectFacts,
  run: RunIdentity,
  options: RunOptions,
  isRunning: IsRunning,
): Promise<RunIdentity | undefined> {
  const { evaluate, reevaluate, sampleRate, budgetUsd, judge } = options;
  // Without evaluation, options about judging make no difference.
  const asked = evaluate ? JSON.stringify([reevaluate, sampleRate, budgetUsd ?? null, judge]) : 'traces only';
  const identity = [object.bucket, object.key, object.versionId ?? '', object.etag, asked].join('\n');
  const key = workKeys.claim(hash('sha256', identity));
  const claim = {
    name: run.name,
    arn: run.arn,
    object: `s3://${object.bucket}/${object.key}`,
    etag: object.etag,
    claimedMs: Date.now(),
  };
  let owner: typeof claim | undefined;
  let etag: string | undefined;
  for (let round = 0; round < CLAIM_ROUNDS; round += 1) {
    // Usually there is no claim yet: then this is the only request.
    if (await storage.putJsonIf(workBucket, key, claim, etag)) return undefined;
    const stored = await storage.getText(workBucket, key);
    etag = stored?.etag;
    if (stored === undefined) continue;
    owner = parseStored<typeof claim>(stored.text, `s3://${workBucket}/${key}`);
    // A retried PlanCaptures finds its own claim.
    if (owner.arn === run.arn) return undefined;
    if (await isRunning(owner.arn, owner.claimedMs)) return { name: owner.name, arn: owner.arn };
  }
  return owner;
}
