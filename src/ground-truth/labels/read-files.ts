/** The step of a run that reads label files: into labels that wait for their predictions, and a report on each file. */

import type { ObjectFacts, Work } from '../../core/aws/storage.ts';
import type { Label, LabelCounts, LabelFault, LabelFileReport, TruthInput } from '../../core/contract/ground-truth.ts';
import { type ListedFile, listedFileSchema } from '../../core/contract/input.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import { addCounts, noCounts } from '../../core/values/counts.ts';
import { sum } from '../../core/values/sum.ts';
import { maskedFault, maskedLabel } from '../masked.ts';
import { labelCounts, STEP_RESERVE_MS, type StepDependencies } from '../types.ts';
import { isLabelFile, readLabels } from './read-labels.ts';
import { fileDigest, MAX_FAULTS, SEGMENT_LABELS, segmentName, writeSegment } from './waiting.ts';

/** Characters of the labels of a segment: some pages each are few labels. */
const SEGMENT_CHARS = 8 * 1024 * 1024;
/** Names of files that were left out, in the log of an invocation. */
const SHOWN_NAMES = 10;

/** Errors that concern a single file. The other files are still read. */
const OF_THE_FILE = ['NoIdColumn', 'NoLabelColumn', 'NotJsonLines', 'NotUtf8', 'NotGzip', 'LabelFileTooLarge'];
const fault = (name: string, what: string) => ({ name, message: `The label file ${what}` });
const MISSING = fault('LabelFileMissing', 'was deleted before it was read');
const TOO_SLOW = fault('LabelFileTooLarge', 'cannot be read within the time of one invocation; split it');
/** Replaces errors of the storage about captures by errors about label files. */
const SAID_OF_CAPTURES: Record<string, LabelFileReport['error']> = {
  CaptureChanged: fault('LabelFileChanged', 'was overwritten while it was read; read it again'),
  CaptureMissing: MISSING,
  CaptureArchived: fault('LabelFileArchived', 'is archived by S3; restore it, and read it again'),
};

/**
 * Reads the label files of an input while there is time. A file that was read before and has not changed is not read
 * again; its report is added to the run's reports.
 *
 * @throws PermanentError `NotALabelFile` if the input names a single file that is not a label file; errors of the
 *   storage
 *
 * @example
 *     const { files, cursor } = await readLabelFiles({ bucket, prefix: 'labels/' }, null, deps);
 */
export async function readLabelFiles(input: TruthInput, cursor: string | null, deps: StepDependencies) {
  const files: string[] = [];
  const leftOut: string[] = [];
  let left = 0;
  let next: string | null = null;
  for await (const { file, position } of filesOf(input, cursor, deps)) {
    const hasTime = deps.remainingMs() >= STEP_RESERVE_MS;
    const isLabels = isLabelFile(file.key);
    const report = hasTime && isLabels ? await readFile(file, files.length === 0, deps) : undefined;
    if (!hasTime || (isLabels && report === undefined)) {
      next = cursor ?? '';
      break;
    }
    if (report !== undefined) files.push(report);
    else left += 1;
    if (!isLabels && left <= SHOWN_NAMES) leftOut.push(`s3://${file.bucket}/${file.key}`);
    cursor = position;
  }
  if (left > 0) logger.warn('Objects that are no label files were left out', { objects: left, first: leftOut });
  return { cursor: next, files };
}

/** Yields the files of an input behind a cursor. */
async function* filesOf(input: TruthInput, cursor: string | null, { storage, workBucket }: StepDependencies) {
  if ('files' in input) {
    const lines = await storage.getJsonLines<ListedFile>(workBucket, input.files.key);
    for (const [index, line] of lines.entries()) {
      if (index >= Number(cursor ?? 0)) yield { file: listedFileSchema.parse(line), position: String(index + 1) };
    }
  } else if ('prefix' in input) {
    for await (const { bucket, key } of storage.list(input.bucket, input.prefix, cursor ?? '')) {
      yield { file: { bucket, key }, position: key };
    }
  } else if ('key' in input) {
    const { bucket, key } = input;
    if (!isLabelFile(key)) {
      const facts = { got: key, expected: 'a key that ends with .jsonl, .json, .csv, or one of these and .gz' };
      throw new PermanentError('NotALabelFile', 'The key does not name a label file', facts);
    }
    yield { file: { bucket, key }, position: key };
  }
}

/**
 * @param isFirst whether the file had the whole time of the invocation
 * @returns the key of the report; `undefined` if there is not enough time for the file now
 */
async function readFile({ bucket, key, etag, versionId }: ListedFile, isFirst: boolean, deps: StepDependencies) {
  const { storage, workBucket } = deps;
  const facts = await storage.head(bucket, key, versionId);
  const file: ObjectFacts = facts ?? { bucket, key, etag: etag ?? '', size: 0, lastModifiedMs: 0 };
  const digest = fileDigest(file);
  const reportKey = truthKeys.file(digest);
  if ((await storage.head(workBucket, reportKey)) !== undefined) return reportKey;
  const log = fileLog(digest, deps);
  const error = facts === undefined ? MISSING : await readInto(log, facts, deps);
  if (error === 'noTime' && !isFirst) return undefined;
  const report: LabelFileReport = {
    bucket,
    key,
    etag: file.etag,
    readAt: new Date().toISOString(),
    ...log.result(error === 'noTime' ? TOO_SLOW : error),
  };
  // Only the first report counts: labels in its segments may have been joined already.
  await storage.putJsonIf(workBucket, reportKey, report);
  logger.info('A label file was read', { bucket, key, counts: report.counts, reasons: report.reasons, error });
  return reportKey;
}

/** @returns why no part of the file can be used */
async function readInto(
  log: ReturnType<typeof fileLog>,
  facts: ObjectFacts,
  { storage, environment, remainingMs }: StepDependencies,
): Promise<LabelFileReport['error'] | 'noTime'> {
  try {
    const bytes = await storage.read(facts);
    const file = { name: facts.key, timeMs: facts.lastModifiedMs };
    for await (const item of readLabels(bytes, file, environment.GROUND_TRUTH)) {
      if (remainingMs() < STEP_RESERVE_MS) return 'noTime';
      await log.add('id' in item ? maskedLabel(item, environment) : maskedFault(item, environment));
    }
    await log.flush();
    return undefined;
  } catch (error) {
    const named = toNamedError(error);
    const known = OF_THE_FILE.includes(named.name) ? named : SAID_OF_CAPTURES[named.name];
    if (known === undefined || !(error instanceof PermanentError)) throw error;
    return known;
  }
}

/** Collects the contents of a file: writes labels in segments as they arrive, and counts faults. */
function fileLog(digest: string, work: Work) {
  const reasons = noCounts();
  const faults: LabelFault[] = [];
  const segments: LabelCounts[] = [];
  let labels: Label[] = [];
  let chars = 0;
  const flush = async (): Promise<void> => {
    if (labels.length === 0) return;
    const name = segmentName(digest, segments.length);
    segments.push(await writeSegment(work, name, labels));
    labels = [];
    chars = 0;
  };
  return {
    add: async (item: Label | LabelFault): Promise<void> => {
      if ('id' in item) {
        labels.push(item);
        chars += item.id.length + String(item.value).length;
        if (labels.length >= SEGMENT_LABELS || chars >= SEGMENT_CHARS) await flush();
        return;
      }
      addCounts(reasons, { [item.name]: 1 });
      if (faults.length < MAX_FAULTS) faults.push(item);
    },
    flush,
    /** @param error if set, no line of the file counts */
    result: (error: LabelFileReport['error']): Omit<LabelFileReport, 'bucket' | 'key' | 'etag' | 'readAt'> => {
      const none = { counts: labelCounts(), reasons: {}, faults: [], replacedLabels: [], parts: [] };
      if (error !== undefined) return { ...none, error };
      const counts = labelCounts(segments, sum(Object.values(reasons)));
      return { ...none, counts, reasons, faults, parts: segments };
    },
  };
}
