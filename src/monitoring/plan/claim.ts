/**
 * Tells two executions of the same object at the same time apart. EventBridge delivers at least once; the second
 * execution ends as a duplicate of the first while that one runs, if both are asked for the same.
 */
import { hash } from 'node:crypto';
import type { RunOptions } from '../../contract/input.ts';
import { workKeys } from '../../contract/work-keys.ts';
import type { ObjectFacts, Storage } from '../../shared/storage.ts';
import { parseStored } from '../../shared/storage-errors.ts';

interface RunIdentity {
  name: string;
  arn: string;
}

/** Whether an execution is still under way; a name that Step Functions does not know is not. */
export type IsRunning = (executionArn: string) => Promise<boolean>;

/** Each round lost means that another execution took the claim in between; five in a row would be five such executions. */
const CLAIM_ROUNDS = 5;

/**
 * Claims (bucket, key, version, etag, what is asked) for this run.
 *
 * @returns the identity of the run that holds it, when that one is still running; `undefined` when this run has it.
 */
export async function claimObject(
  storage: Storage,
  workBucket: string,
  object: ObjectFacts,
  run: RunIdentity,
  options: RunOptions,
  isRunning: IsRunning,
): Promise<RunIdentity | undefined> {
  const { evaluate, reevaluate, sampleRate, budgetUsd, judge } = options;
  // How is judged makes no difference where nothing is.
  const asked = evaluate ? JSON.stringify([reevaluate, sampleRate, budgetUsd ?? null, judge]) : 'traces only';
  const identity = [object.bucket, object.key, object.versionId ?? '', object.etag, asked].join('\n');
  const key = workKeys.claim(hash('sha256', identity));
  const claim = { name: run.name, arn: run.arn, object: `s3://${object.bucket}/${object.key}`, etag: object.etag };
  let holder: RunIdentity | undefined;
  for (let round = 0; round < CLAIM_ROUNDS; round += 1) {
    const stored = await storage.getText(workBucket, key);
    if (stored === undefined) {
      if (await storage.putJsonIf(workBucket, key, claim)) return undefined;
      continue;
    }
    holder = parseStored<RunIdentity>(stored.text, `s3://${workBucket}/${key}`);
    // A retried PlanCaptures finds its own claim.
    if (holder.arn === run.arn) return undefined;
    if (await isRunning(holder.arn)) return { name: holder.name, arn: holder.arn };
    if (await storage.putJsonIf(workBucket, key, claim, stored.etag)) return undefined;
  }
  return holder;
}
