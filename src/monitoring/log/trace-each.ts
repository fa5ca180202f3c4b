/** Traces the lines of a chunk one after the other, to find a line that kills the function. */
import type { LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import type { HeavyCaptures } from '../chunk/heavy-captures.ts';
import type { LineAtWork } from '../chunk/line-at-work.ts';
import { LineBook, type LogDependencies } from './line-book.ts';
import { TraceBatch } from './trace-batch.ts';

/**
 * Notes each line, decodes it and writes its trace before the next one is noted. Counts nothing: the whole chunk is processed as
 * usual afterwards, and finds the traces.
 *
 * @param mayCreate whether a trace is to be written if it is absent; a line of another one is only decoded
 * @throws RetryableError `ChunkOutOfTime`: the next attempt continues with the same line
 */
export async function traceEach(
  request: ChunkRequest,
  deps: LogDependencies,
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
  mayCreate: (traceId: string) => boolean = () => true,
): Promise<void> {
  const { storage, environment } = deps;
  const batch = new TraceBatch(new LineBook(request, deps));
  const leaveOut = (place: LinePlace) => atWork.pass(place);
  const { chunk, options } = request;
  for await (const read of readChunk(storage, chunk, environment, options.window, { leaveOut, heavy })) {
    const line = read.kind === 'heavy' ? await read.read() : read;
    if (line.kind !== 'capture' || !mayCreate(line.traceId)) continue;
    await batch.add({ ...line, range: read.range });
    await batch.flush();
  }
  await atWork.traced();
}
