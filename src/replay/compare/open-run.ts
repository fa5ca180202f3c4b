/** Opens the results of a run: in a directory, or in S3 where a cloud replay writes them. */
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { FILES } from '../results/result-set.ts';
import { type Disposable, inCopies, parseS3Location } from '../source/open-source.ts';
import { REPLIES_FILE } from './replies-file.ts';
import { COMPARE_FILE } from './with-captured.ts';

/** The files that a comparison reads. Only the first must exist. */
const NEEDED = [FILES.records, FILES.replay, FILES.summaryJson, REPLIES_FILE, COMPARE_FILE];
/** The folder with the results under an execution's prefix. */
const RESULTS = 'results/';

export type OpenedRun = Disposable & { directory: string };

/** Finds the files of a run in S3 that a comparison reads, by name. */
async function findResults(location: string, storage: Storage): Promise<Map<string, ObjectFacts>> {
  const { bucket, key } = parseS3Location(location) ?? { bucket: '', key: '' };
  const own = key === '' || key.endsWith('/') ? key : `${key}/`;
  const prefix = (await storage.head(bucket, `${own}${FILES.records}`)) ? own : `${own}${RESULTS}`;
  const found = new Map<string, ObjectFacts>();
  for (const name of NEEDED) {
    const object = await storage.head(bucket, `${prefix}${name}`);
    if (object) found.set(name, object);
  }
  if (found.has(FILES.records)) return found;
  throw new PermanentError('NotAReplay', 'The location has no results of a replay', {
    got: location,
    expected: `s3://bucket/prefix with ${FILES.records}, as a cloud replay writes it to replays/<execution>/results/`,
  });
}

/**
 * Opens the results of a run. Those in S3 are copied to a temporary directory.
 *
 * @param location a directory, or `s3://bucket/replays/<execution>`, with or without `/results/`
 * @throws PermanentError `NotAReplay`, and errors of the storage
 */
export async function openRun(location: string, openStorage: () => Promise<Storage>): Promise<OpenedRun> {
  if (!parseS3Location(location)) return { directory: location, dispose: async () => {} };
  const storage = await openStorage();
  const files = await findResults(location, storage);
  return inCopies(async (directory) => {
    for (const [name, object] of files) {
      await pipeline(await storage.read(object), createWriteStream(join(directory, name)));
    }
    return { directory };
  });
}
