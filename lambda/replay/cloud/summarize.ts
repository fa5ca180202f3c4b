/** SummarizeReplay: the files of all shards → the result set that the command line would have written. */
import type { Storage } from '../../common/storage.ts';
import { replayKeys, type SummarizeReplayRequest, type SummarizeReplayResult } from '../../replay-contract.ts';

export interface SummarizeDependencies {
  storage: Storage;
  workBucket: string;
}

export async function summarizeReplay(
  { run, error }: SummarizeReplayRequest,
  { workBucket }: SummarizeDependencies,
): Promise<SummarizeReplayResult> {
  const results = { bucket: workBucket, prefix: replayKeys.resultPrefix(run.name) };
  return error?.Error
    ? { ok: false, error: error.Error, cause: error.Cause, results }
    : { ok: true, error: '', cause: '', results };
}
