/** Traces the lines of a chunk one after the other, to find a line that kills the function. */
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import type { LineAtWork } from '../chunk/line-at-work.ts';
import { ChunkWriter, type WriteDependencies } from '../write/chunk-writer.ts';
import { LineBook } from '../write/line-book.ts';
import { tryToLog } from './log-trial.ts';

export interface LogDependencies extends WriteDependencies {
  storage: Storage;
  environment: LambdaEnvironment;
}

/**
 * Notes each line, decodes it and writes its trace before the next one is noted. Counts nothing: the whole chunk is processed as
 * usual afterwards, and finds the traces.
 *
 * @param mayCreate whether absent traces are to be written; else the lines are only decoded
 * @throws RetryableError `ChunkOutOfTime`: the next attempt continues with the same line
 */
export async function traceEach(
  request: ChunkRequest,
  deps: LogDependencies,
  atWork: LineAtWork,
  mayCreate = true,
): Promise<void> {
  const { storage, environment } = deps;
  const book = new LineBook(request, deps);
  const writer = new ChunkWriter(request, deps, book);
  const how = { leaveOut: (place: Parameters<LineAtWork['pass']>[0]) => atWork.pass(place), tryOut: tryToLog };
  for await (const line of readChunk(storage, request.chunk, environment, request.options.window, how)) {
    if (line.kind !== 'capture' || !mayCreate) continue;
    const { traceId, range, raw } = line;
    const trace = book.trace(line);
    if (trace !== undefined) await writer.write([{ traceId, range, raw, trace, assessments: [] }]);
  }
  await atWork.traced();
}
