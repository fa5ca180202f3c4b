/** Describes the captures in the endpoint's newest files, read with the stack's own reader. */

import { backfillObjects, type CaptureScope } from '../../src/captures/files/capture-objects.ts';
import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import { readLines } from '../../src/captures/lines/read-lines.ts';
import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { type ObjectFacts, Storage } from '../../src/core/aws/storage.ts';
import { captureScope } from '../../src/judge/capture-scope.ts';
import { LineDecoder } from '../../src/monitoring/chunk/decode-lines.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { shapeTally } from '../offline/shape.ts';
import { type CheckContext, type Found, ok, warning } from './finding.ts';

/** Days to search for files, increased until there are enough captures. */
const DAYS = [1, 7, 90];

/** @param count captures to read */
export const checkShape =
  (count: number) =>
  async ({ s3, settings: own, capturePrefix: DATA_CAPTURE_S3_PREFIX }: CheckContext): Promise<Found> => {
    const settings = { ...own, DATA_CAPTURE_S3_PREFIX, redaction: redactionOf(own) } as CommandSettings;
    const shape = shapeTally(settings);
    const storage = new Storage(s3);
    const decoder = new LineDecoder(settings, { experimentId: '' }, {});
    let left = count;
    const scope = captureScope(settings as Parameters<typeof captureScope>[0]);
    files: for (const file of await newestFiles(storage, scope, count)) {
      const source = { ...file, start: 0, firstLine: 1, objectTimeMs: file.lastModifiedMs };
      const lines = readLines(await storage.read(file), source, { maxLineBytes: settings.MAX_LINE_BYTES });
      for await (const line of lines) {
        const read = await decoder.decode(line);
        const decoded = read.kind === 'heavy' ? await read.read() : read;
        if (decoded.kind !== 'capture' || decoded.duplicate) continue;
        shape.add(decoded.capture);
        left -= 1;
        if (left === 0) break files;
      }
    }
    const { facts } = shape.report();
    if (facts.length === 0) return warning(`There are no captures of the last ${DAYS.at(-1)} days to look at.`);
    return facts.map(({ says, setting }) => (setting === undefined ? ok(says) : warning(says, `set ${setting}`)));
  };

/** @param enough number of files that makes a search for older files unnecessary */
async function newestFiles(storage: Storage, scope: CaptureScope, enough: number): Promise<ObjectFacts[]> {
  let files: ObjectFacts[] = [];
  for (const days of DAYS) {
    const window = { fromMs: Date.now() - days * DAY_MS };
    if (files.length < enough) files = await Array.fromAsync(backfillObjects(storage, scope, scope, window));
  }
  return files.toSorted((a, b) => b.lastModifiedMs - a.lastModifiedMs);
}
