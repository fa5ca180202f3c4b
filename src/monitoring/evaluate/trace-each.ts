/** The search for a line that kills the function. */
import type { LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { ChunkDependencies } from '../chunk/attempt.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import type { HeavyCaptures } from '../chunk/heavy-captures.ts';
import type { LineAtWork } from '../chunk/line-at-work.ts';
import { ChunkWriter } from '../write/chunk-writer.ts';
import { traceLine } from '../write/trace-line.ts';

/**
 * Traces the lines of a chunk one after the other, to find a line that kills the function: notes each line, decodes it
 * and writes its trace before the next line is noted. Counts nothing: the whole chunk is processed as usual afterwards,
 * and finds the traces.
 *
 * @param mayCreate whether absent traces are written; otherwise the lines are only decoded
 * @throws RetryableError `ChunkOutOfTime`: the next attempt continues with the same line
 */
export async function traceEach(
  request: ChunkRequest,
  deps: ChunkDependencies,
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
  mayCreate: boolean,
): Promise<void> {
  const { storage, environment } = deps;
  const writer = new ChunkWriter(request, deps);
  const leaveOut = (place: LinePlace) => atWork.pass(place);
  const { chunk, options } = request;
  for await (const read of readChunk(storage, chunk, environment, options, { leaveOut, heavy })) {
    const line = read.kind === 'heavy' ? await read.read() : read;
    if (line.kind !== 'capture' || line.duplicate || !mayCreate) continue;
    const { traceId } = line;
    const { trace } = traceLine(line, request, environment);
    if (trace !== undefined) await writer.write([{ traceId, trace, assessments: [] }]);
  }
  await atWork.traced();
}
