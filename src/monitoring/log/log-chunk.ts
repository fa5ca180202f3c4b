/** Logs one chunk of capture lines as traces. A line that is not a capture record goes to quarantine with the reason. */
import type { LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LogReceipt } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import { PredictionIndex } from '../../ground-truth/index/prediction-index.ts';
import { observerOf } from '../../quality/observations.ts';
import { captureFacts, QualityTally } from '../../quality/tally.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { type HeavyCaptures, heavyCapturesOf } from '../chunk/heavy-captures.ts';
import { KILLED, LineAtWork } from '../chunk/line-at-work.ts';
import { withReceipt } from '../receipts.ts';
import { LineBook, type LogDependencies } from './line-book.ts';
import { TraceBatch } from './trace-batch.ts';
import { traceEach } from './trace-each.ts';

/**
 * Reads the chunk, writes the traces that are missing, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written
 */
export function logChunk(request: ChunkRequest, deps: LogDependencies): Promise<LogReceipt> {
  const { storage, environment } = deps;
  const quality = new QualityTally(observerOf(environment, request.options.sampleRate));
  const book = new LineBook(request, deps, quality);
  const attempt = { run: () => logLines(request, deps, book), receipt: (failure: unknown) => book.receipt(failure) };
  return withReceipt(storage, environment.WORK_BUCKET, attempt);
}

async function logLines(request: ChunkRequest, deps: LogDependencies, book: LineBook): Promise<void> {
  await deps.written?.open();
  const atWork = await LineAtWork.open('log', request, deps);
  const heavy = heavyCapturesOf(request, deps);
  const work = async (): Promise<void> => {
    if (atWork.isTracing) await traceEach(request, deps, { atWork, heavy });
    await logTogether(request, deps, book, { atWork, heavy });
  };
  await atWork.during(work).finally(() => heavy.close());
}

async function logTogether(
  { chunk, options }: ChunkRequest,
  deps: LogDependencies,
  book: LineBook,
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
): Promise<void> {
  const { storage, store, environment } = deps;
  const { experimentId } = chunk;
  const batch = new TraceBatch(book);
  const index = new PredictionIndex(environment);
  const leaveOut = (place: LinePlace) => atWork.reasonOf(place);
  for await (const read of readChunk(storage, chunk, environment, options.window, { leaveOut, heavy })) {
    atWork.checkTime();
    const { range } = read;
    if (read.kind === 'heavy') await batch.flush();
    const line = read.kind === 'heavy' ? await read.read() : read;
    if (line.kind === 'unread') {
      book.unread({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'outsideWindow') {
      book.outsideWindow(range);
    } else if (line.kind === 'quarantine') {
      const { reason, place, bytes, traceId = '' } = line;
      // A line that killed the function is traced if its trace was written before the kill.
      const stored = reason === KILLED ? (await store.getTraces(experimentId, [traceId])).get(traceId) : undefined;
      book.countIfOwn(traceId, captureFacts(undefined, place), stored);
      if (stored !== undefined) book.alreadyThere(range);
      else book.quarantine({ range, place, bytes }, reason);
    } else if (line.duplicate) {
      book.duplicate(line.traceId, { ...line, range });
    } else {
      if (line.replay === undefined) index.add(line.capture, line.traceId, line.raw.place);
      await batch.add({ ...line, range });
      if (read.kind === 'heavy') await batch.flush();
    }
  }
  await batch.flush();
  await book.close();
  await index.write(storage, environment.WORK_BUCKET, book.refused);
}
