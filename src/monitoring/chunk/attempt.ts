/** What an attempt at a chunk follows. */
import type { ChunkRequest } from '../../core/contract/payloads.ts';

/** Whether an earlier attempt may have processed the chunk or some of it. */
export const isRepeated = ({ attempt, progress }: Pick<ChunkRequest, 'attempt' | 'progress'>): boolean =>
  attempt > 0 || (progress?.kills ?? 0) > 0 || (progress?.waitSeconds ?? 0) > 0;

/** Whether another run has processed lines of the chunk, and this one retries them. */
export const isRetry = ({ options }: Pick<ChunkRequest, 'options'>): boolean => options.continues !== undefined;
