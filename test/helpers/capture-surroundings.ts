/** What the tests of faults of the capture clients share: an endpoint, S3 and a folder, which last for a test. */
import { existsSync, readdirSync } from 'node:fs';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** Returns an object that has them while a test runs. */
export function captureSurroundings() {
  const here = {} as { endpoint: StandInEndpoint; s3: S3Wire; folder: string };
  beforeEach(async () => {
    here.folder = temporaryFolder('capture-client-');
    here.endpoint = await startStandInEndpoint({ latencyMs: 1, words: 4, interTokenMs: 5 });
    here.s3 = await S3Wire.start();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await here.endpoint.close();
    await here.s3.stop();
  });
  return here;
}

/** The objects `client` of the lines in S3. */
export const clientsIn = (s3: S3Wire) =>
  s3
    .keys('captures')
    .flatMap((key) => s3.lines<{ client: Record<string, unknown> }>('captures', key).map((l) => l.client));

/** The batches in a spool folder. */
export const spooledIn = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.jsonl'))
    : [];

export const REFUSED = { kind: 'error', status: 403, code: 'AccessDenied' } as const;
