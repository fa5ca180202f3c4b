/** Opens the results of a run: in a directory, or in S3 where a cloud replay writes them. */
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { ObjectFacts, Storage } from '../../core/aws/storage.ts';
import { FILES } from '../results/result-set.ts';
import { type Disposable, inCopies, parseS3Location } from '../source/open-source.ts';
import { REPLIES_FILE } from './replies-file.ts';
import { COMPARE_FILE } from './with-captured.ts';

/** The files of a run that a comparison reads. */
const FIGURES = [FILES.replay, COMPARE_FILE];
/** The files of its requests, which are in parts. */
const REQUESTS = [FILES.records, REPLIES_FILE];
/** The folders with the results and with the parts under an execution's prefix. */
const RESULTS = 'results/';
const PARTS = 'shards/';

export type OpenedRun = Disposable & { directory: string };

/** Finds the files of a run in S3 that a comparison reads: by name, the object or its parts. */
async function findResults(location: string, storage: Storage): Promise<Map<string, ObjectFacts[]>> {
  const { bucket, key } = parseS3Location(location) ?? { bucket: '', key: '' };
  const root = key.replace(/\/?$/, '/').replace(/(^|\/)results\/$/, '$1');
  const found = new Map<string, ObjectFacts[]>();
  const replay = await storage.getJson<{ parts?: string[] }>(bucket, `${root}${RESULTS}${FILES.replay}`);
  if (!replay?.parts) return found;
  const wanted = new Map([
    ...FIGURES.map((name) => [`${root}${RESULTS}${name}`, name] as const),
    ...replay.parts.flatMap((part) => REQUESTS.map((name) => [`${root}${part}${name}`, name] as const)),
  ]);
  for (const folder of [RESULTS, PARTS]) {
    for await (const object of storage.list(bucket, `${root}${folder}`)) {
      const name = wanted.get(object.key);
      if (name !== undefined) found.set(name, [...(found.get(name) ?? []), object]);
    }
  }
  return found;
}

/**
 * Opens the results of a run. Results in S3 are copied to a temporary directory.
 *
 * @param location a directory, or `s3://bucket/replays/<execution>`, with or without `/results/`
 * @throws errors of the storage
 *
 * @example
 *     const run = await openRun('s3://work/replays/nightly', openStorage);
 *     const data = await readRun(run.directory, 's3://work/replays/nightly');
 *     await run.dispose();
 */
export async function openRun(location: string, openStorage: () => Promise<Storage>): Promise<OpenedRun> {
  if (!parseS3Location(location)) return { directory: location, dispose: async () => {} };
  const storage = await openStorage();
  const files = await findResults(location, storage);
  return inCopies(async (directory) => {
    for (const [name, objects] of files) {
      for (const object of objects)
        await pipeline(await storage.read(object), createWriteStream(join(directory, name), { flags: 'a' }));
    }
    return { directory };
  });
}
