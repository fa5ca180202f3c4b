/** Finds the capture files that an input names one by one, and claims them for the run. */

import { capturedObject, overwrittenSince } from '../../captures/files/capture-objects.ts';
import type { ObjectFacts } from '../../core/aws/storage.ts';
import type { Execution } from '../../core/contract/execution.ts';
import { type FilesInput, type ListedFile, listedFileSchema, type RunOptions } from '../../core/contract/input.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { captureScope } from '../../judge/capture-scope.ts';
import { claimObject, type IsRunning } from './claim.ts';
import type { PlannerDependencies } from './types.ts';

/** Warnings about overwritten files that a person reads. */
const MOST_WARNINGS = 20;

/** @throws PermanentError `InvalidInput` if there is no such list, or if a line of it does not name a file */
export async function listedFiles(
  { files: { key } }: FilesInput,
  { storage, environment }: PlannerDependencies,
): Promise<ListedFile[]> {
  const where = `s3://${environment.WORK_BUCKET}/${key}`;
  const lines = await storage.getJsonLines(environment.WORK_BUCKET, key);
  const result = listedFileSchema.array().min(1).safeParse(lines);
  if (result.success) return result.data;
  throw new PermanentError('InvalidInput', 'The list of files is invalid or missing', {
    got: `${lines.length} lines`,
    expected: 'lines of {"bucket":…,"key":…}, each with "etag" and "versionId" if they are known',
    where,
  });
}

/**
 * Returns a function that returns the object of a file, or the run that processes it with the same options. That may be
 * this run, if the file was found before. The function throws PermanentError `NotACaptureFile`, `OutsideCaptureScope`,
 * `CaptureMissing`.
 *
 * @param options a dry run claims no files
 * @param warnings receives warnings for a person
 */
export function fileFinder(
  { storage, environment, isRunning }: PlannerDependencies,
  run: Execution,
  options: RunOptions,
  warnings: string[],
) {
  const scope = captureScope(environment);
  const work = { storage, workBucket: environment.WORK_BUCKET };
  const found = new Set<string>();
  // Cached by ARN, because thousands of files may have the same owner.
  const running = new Map<string, Promise<boolean>>();
  const isRunningOnce: IsRunning = (arn, claimedMs) => {
    const known = running.get(arn) ?? isRunning(arn, claimedMs);
    running.set(arn, known);
    return known;
  };
  return async (file: ListedFile): Promise<ObjectFacts | { duplicateOf: string }> => {
    const object = await capturedObject(storage, scope, file.bucket, file.key, file.versionId);
    const identity = [object.key, object.versionId, object.etag].join('\n');
    if (found.has(identity)) return { duplicateOf: run.name };
    found.add(identity);
    const overwritten = overwrittenSince(file, object);
    if (overwritten !== undefined && warnings.length < MOST_WARNINGS) warnings.push(overwritten);
    if (options.dryRun) return object;
    const owner = await claimObject(work, object, run, options, isRunningOnce);
    return owner === undefined ? object : { duplicateOf: owner.name };
  };
}
