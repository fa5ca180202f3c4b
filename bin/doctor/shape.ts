/** Says what the newest captures of the endpoint are like. It reads them with the stack's own reader. */

import { backfillObjects, type CaptureScope } from '../../src/captures/files/capture-objects.ts';
import { readLines } from '../../src/captures/lines/read-lines.ts';
import type { Capture } from '../../src/captures/types.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { captureScope } from '../../src/judge/capture-scope.ts';
import { LineDecoder, type ReadSettings } from '../../src/monitoring/chunk/decode-lines.ts';
import { redactionOf } from '../../src/redact/redaction.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { shapeTally } from '../offline/shape.ts';
import { type CheckContext, type Found, ok, warning } from './finding.ts';

const DAY_MS = 24 * 3_600_000;
/** How far back files are looked for, until there are as many as captures are asked for. */
const DAYS = [1, 7, 90];
/** The end of a file that is read. */
const TAIL_BYTES = 8 * 1024 * 1024;

/** @param count captures to read */
export const checkShape =
  (count: number) =>
  async ({ s3, settings: own, capturePrefix: DATA_CAPTURE_S3_PREFIX }: CheckContext): Promise<Found> => {
    const settings = { ...own, DATA_CAPTURE_S3_PREFIX, redaction: redactionOf(own) } as CommandSettings;
    const shape = shapeTally(settings);
    const scope = captureScope(settings as Parameters<typeof captureScope>[0]);
    for await (const capture of newestCaptures(new Storage(s3), scope, settings, count)) shape.add(capture);
    const { facts } = shape.report();
    if (facts.length === 0) return warning(`There are no captures of the last ${DAYS.at(-1)} days to look at.`);
    return facts.map(({ says, setting }) => (setting === undefined ? ok(says) : warning(says, `set ${setting}`)));
  };

/** Yields the last captures of the newest files. */
async function* newestCaptures(
  storage: Storage,
  scope: CaptureScope,
  settings: ReadSettings,
  count: number,
): AsyncGenerator<Capture> {
  const filesOf = (days: number) =>
    Array.fromAsync(backfillObjects(storage, scope, scope, { fromMs: Date.now() - days * DAY_MS }));
  let files = await filesOf(DAYS[0] ?? 1);
  for (const days of DAYS.slice(1)) if (files.length < count) files = await filesOf(days);
  const decoder = new LineDecoder(settings, { experimentId: '' }, {});
  let left = count;
  for (const file of files.toSorted((a, b) => b.lastModifiedMs - a.lastModifiedMs)) {
    const start = Math.max(0, file.size - TAIL_BYTES);
    const source = { ...file, start, firstLine: 1, objectTimeMs: file.lastModifiedMs };
    const bytes = await storage.read(file, start > 0 ? { start } : undefined);
    const lines = await Array.fromAsync(readLines(bytes, source, { maxLineBytes: settings.MAX_LINE_BYTES }));
    // The first one may be the end of a line.
    for (const line of lines.slice(start > 0 ? 1 : 0).slice(-left)) {
      const read = await decoder.decode(line);
      const decoded = read.kind === 'heavy' ? await read.read() : read;
      if (decoded.kind !== 'capture' || decoded.duplicate) continue;
      yield decoded.capture;
      left -= 1;
    }
    if (left === 0) return;
  }
}
