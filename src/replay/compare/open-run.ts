/** Opens the results of a run: in a directory, or in S3 where a cloud replay writes them. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { PermanentError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { FILES } from '../results/result-set.ts';
import { parseS3Location } from '../source/open-source.ts';
import { REPLIES_FILE } from './replies-file.ts';

/** The files that a comparison reads. Only the first must exist. */
const NEEDED = [FILES.records, FILES.replay, FILES.summaryJson, REPLIES_FILE];
/** The folder with the results under an execution's prefix. */
const RESULTS = 'results/';

export interface OpenedRun {
  directory: string;
  /** Deletes the copy. */
  dispose(): Promise<void>;
}

/**
 * Copies results in S3 to a temporary directory.
 *
 * @param location a directory, or `s3://bucket/replays/<execution>`, with or without `/results/`
 * @throws PermanentError `NotAReplay`, and errors of the storage
 */
export async function openRun(location: string, openStorage: () => Promise<Storage>): Promise<OpenedRun> {
  const s3 = parseS3Location(location);
  if (!s3) return { directory: location, dispose: async () => {} };
  const storage = await openStorage();
  const own = s3.key === '' || s3.key.endsWith('/') ? s3.key : `${s3.key}/`;
  const prefix = (await storage.head(s3.bucket, `${own}${FILES.records}`)) ? own : `${own}${RESULTS}`;
  const directory = await mkdtemp(join(tmpdir(), 'replay-run-'));
  const dispose = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    for (const name of NEEDED) {
      const object = await storage.head(s3.bucket, `${prefix}${name}`);
      if (object) await pipeline(await storage.read(object), createWriteStream(join(directory, name)));
      else if (name === FILES.records) {
        throw new PermanentError('NotAReplay', 'The location has no results of a replay', {
          got: location,
          expected: `s3://bucket/prefix with ${FILES.records}, as a cloud replay writes it to replays/<execution>/results/`,
        });
      }
    }
  } catch (error) {
    await dispose();
    throw error;
  }
  return { directory, dispose };
}
