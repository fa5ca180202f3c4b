/** Reads capture files on the local disk, plain or gzip, with the scanner and the decoder of the pipeline. */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { readLines } from '../../src/captures/lines/read-lines.ts';
import { buildTrace, traceNotBuilt } from '../../src/captures/trace/build.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { functionMb } from '../../src/core/process/memory.ts';
import { type LightLine, LineDecoder, type ReadSettings } from '../../src/monitoring/chunk/decode-lines.ts';
import { localFiles, openCapture, openSource } from '../../src/replay/source/open-source.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';

export interface Place {
  file: string;
  /** Physical line number, from 1. */
  line: number;
}

export const placeText = ({ file, line }: Place): string => `${file}:${line}`;

/** Reads `path` or `path:line`. A path that exists is used unchanged. */
export function parseLocation(text: string): { path: string; line?: number } {
  const [, path, line] = /^(.+):([1-9]\d{0,8})$/s.exec(text) ?? [];
  return path === undefined || existsSync(text) ? { path: text } : { path, line: Number(line) };
}

/** Opens the capture files at a path for several passes: a pipe is copied. @throws the errors of `localFiles` */
export async function openCaptures(path: string): Promise<{ files: SourceFile[]; dispose(): Promise<void> }> {
  const facts = await stat(path).catch(() => undefined);
  const isPipe = facts !== undefined && !facts.isFile() && !facts.isDirectory();
  if (isPipe) return openSource(path, { storage: () => Promise.reject(new Error('A pipe is not in S3')) });
  return { files: await localFiles(path), dispose: async () => {} };
}

/** Counts names beyond the limit of a report. */
export const OTHERS = '(others)';

/** A line as the pipeline would take it. */
export type OfflineLine = Exclude<LightLine, { kind: 'outsideWindow' }>;

/** Half of the heap: the estimates of the weight are for the worst case. */
const maxWeight = (): number => (functionMb() * 1024 * 1024) / 2;

/** Number of the latest lines among which duplicates are detected. */
const REMEMBERED_LINES = 100_000;

/** The latest trace ids, in bounded memory. */
class LatestIds extends Set<string> {
  override add(id: string): this {
    super.add(id);
    const [oldest] = this.size > REMEMBERED_LINES ? this : [];
    if (oldest !== undefined) this.delete(oldest);
    return this;
  }
}

/** The stack quarantines a line whose trace cannot be built, so build the trace here too. */
function traceable(line: OfflineLine): OfflineLine {
  if (line.kind !== 'capture') return line;
  const { raw, capture, traceId } = line;
  try {
    buildTrace(capture, raw, { experimentId: '', endpointName: '' });
    return line;
  } catch (error) {
    return { kind: 'quarantine', place: raw.place, bytes: raw.bytes, traceId, reason: traceNotBuilt(error) };
  }
}

/** Receivers of news about files. */
interface FilesTold {
  addFile?(file: SourceFile, isGzip: boolean): void;
  addUnreadable?(file: string, message: string): void;
}

/**
 * Yields the non-blank lines of files, decoded. Lines identical to a recent line are marked as duplicates. If there are
 * several files, reports files that cannot be read completely. Memory is bounded by one line.
 *
 * @param only the number of the only line to decode
 * @throws PermanentError `CaptureUnreadable` for a single file
 */
export async function* offlineLines(
  files: readonly SourceFile[],
  settings: ReadSettings,
  told: FilesTold,
  only?: number,
): AsyncGenerator<OfflineLine> {
  // The id of the experiment is unknown here: the ids only serve to detect identical lines.
  const decoder = new LineDecoder(settings, { experimentId: '', seen: new LatestIds() }, { maxWeight: maxWeight() });
  for (const file of files) {
    try {
      const { isGzip, stream } = await openCapture(file);
      told.addFile?.(file, isGzip);
      const key = file.name.split(sep).join('/');
      const objectTimeMs = (await stat(file.path)).mtimeMs;
      const source = { bucket: '', key, etag: '', start: 0, firstLine: 1, objectTimeMs };
      for await (const line of readLines(stream, source, { maxLineBytes: settings.MAX_LINE_BYTES })) {
        const { line: number } = line.kind === 'line' ? line.raw.place : line.place;
        if (only !== undefined && number !== only) continue;
        const read = await decoder.decode(line);
        const decoded = read.kind === 'heavy' ? await read.read() : read;
        if (decoded.kind !== 'outsideWindow') yield traceable(decoded);
        if (only !== undefined) return;
      }
    } catch (error) {
      if (!(error instanceof PermanentError) || files.length === 1) throw error;
      told.addUnreadable?.(file.name, error.message);
    }
  }
}
