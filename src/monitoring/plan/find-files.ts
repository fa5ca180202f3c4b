/** Finds the capture files that an input names one by one, and claims them for the run. */

import { capturedObject, overwrittenSince } from '../../captures/files/capture-objects.ts';
import type { ObjectFacts } from '../../core/aws/storage.ts';
import type { Execution } from '../../core/contract/execution.ts';
import { type FilesInput, type ListedFile, listedFileSchema, type RunOptions } from '../../core/contract/input.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { captureScope } from '../../judge/capture-scope.ts';
import { claimObject } from './claim.ts';
import type { PlannerDependencies } from './types.ts';

/** Warnings about overwritten files that a person reads. */
const MOST_WARNINGS = 20;

export class FileFinder {
  readonly #deps: PlannerDependencies;
  readonly #run: Execution;
  readonly #options: RunOptions;
  /** Whether files are claimed; a dry run claims none. */
  readonly #claims: boolean;
  readonly #warnings: string[];
  readonly #found = new Set<string>();
  /** Whether executions are running, by ARN: thousands of files may have the same owner. */
  readonly #running = new Map<string, Promise<boolean>>();

  /** @param warnings receives warnings for a person */
  constructor(deps: PlannerDependencies, run: Execution, options: RunOptions, claims: boolean, warnings: string[]) {
    this.#deps = deps;
    this.#run = run;
    this.#options = options;
    this.#claims = claims;
    this.#warnings = warnings;
  }

  /** @throws PermanentError `InvalidInput` if there is no such list, or if a line of it does not name a file */
  async list({ files: { key } }: FilesInput): Promise<ListedFile[]> {
    const { storage, environment } = this.#deps;
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
   * Returns the object of a file; or the run that processes it with the same options, which is this one if the file was found
   * before.
   *
   * @throws PermanentError `NotACaptureFile`, `OutsideCaptureScope`, `CaptureMissing`
   */
  async find(file: ListedFile): Promise<ObjectFacts | { duplicateOf: string }> {
    const { storage, environment } = this.#deps;
    const { WORK_BUCKET: workBucket } = environment;
    const object = await capturedObject(storage, captureScope(environment), file.bucket, file.key, file.versionId);
    const identity = [object.key, object.versionId, object.etag].join('\n');
    if (this.#found.has(identity)) return { duplicateOf: this.#run.name };
    this.#found.add(identity);
    const overwritten = overwrittenSince(file, object);
    if (overwritten !== undefined && this.#warnings.length < MOST_WARNINGS) this.#warnings.push(overwritten);
    if (!this.#claims) return object;
    const isRunning = (arn: string, claimedMs: number): Promise<boolean> => this.#isRunning(arn, claimedMs);
    const owner = await claimObject(storage, workBucket, object, this.#run, this.#options, isRunning);
    return owner === undefined ? object : { duplicateOf: owner.name };
  }

  #isRunning(arn: string, claimedMs: number): Promise<boolean> {
    const known = this.#running.get(arn) ?? this.#deps.isRunning(arn, claimedMs);
    this.#running.set(arn, known);
    return known;
  }
}
