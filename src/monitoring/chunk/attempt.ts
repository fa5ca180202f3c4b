/** What an attempt at a chunk follows, and what is wrong with a chunk that has other lines than planned. */
import type { CaptureRange, ChunkRequest } from '../../core/contract/payloads.ts';
import { PermanentError } from '../../core/errors/errors.ts';

/** Whether an earlier attempt may have processed the chunk or some of it. */
export const isRepeated = ({ attempt, progress }: Pick<ChunkRequest, 'attempt' | 'progress'>): boolean =>
  attempt > 0 || (progress?.kills ?? 0) > 0 || (progress?.waitSeconds ?? 0) > 0;

export const lineCountMismatch = (range: CaptureRange, lines: number): PermanentError =>
  new PermanentError('LineCountMismatch', 'The number of lines in the capture file differs from the plan', {
    got: `${lines} lines`,
    expected: `${range.lines} lines`,
    where: `s3://${range.bucket}/${range.key}, bytes ${range.start}-${range.end}`,
  });
