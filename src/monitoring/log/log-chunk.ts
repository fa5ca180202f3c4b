/** Logs one chunk of capture lines as traces. A line that is not a capture record goes to quarantine with the reason. */

import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LogReceipt } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { PredictionIndex } from '../../ground-truth/index/prediction-index.ts';
import { observerOf } from '../../quality/observations.ts';
import { type CaptureFacts, captureFacts, NO_VERDICTS, QualityTally } from '../../quality/tally.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../chunk/parts.ts';
import { withReceipt } from '../receipts.ts';
import { ChunkWriter, type WriteDependencies, type WriteItem } from '../write/chunk-writer.ts';
import { LineBook } from '../write/line-book.ts';
import { WriteBatch } from '../write/write-batch.ts';
import { tryToLog } from './log-trial.ts';

export interface LogDependencies extends WriteDependencies {
  storage: Storage;
  environment: LambdaEnvironment;
}

/**
 * Reads the chunk, writes the traces that are missing, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written
 */
export function logChunk(request: ChunkRequest, deps: LogDependencies): Promise<LogReceipt> {
  const { storage, environment } = deps;
  const quality = new QualityTally(observerOf(environment, request.options.sampleRate));
  const book = new LineBook(request, deps);
  const attempt = {
    run: () => logLines(request, deps, book, quality),
    receipt: (failure: unknown) => ({ ...book.receipt(failure), ...quality.counts() }),
  };
  return withReceipt(storage, environment.WORK_BUCKET, attempt);
}

async function logLines(
  request: ChunkRequest,
  deps: LogDependencies,
  book: LineBook,
  quality: QualityTally,
): Promise<void> {
  const { storage, store, environment } = deps;
  const { experimentId } = request.chunk;
  const count = (traceId: string, facts: CaptureFacts, isWritten: boolean): void => {
    if (isWritten) quality.add({ traceId, facts, isWritten, ...NO_VERDICTS });
  };
  const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, request.chunk, partOf(request));
  const writer = new ChunkWriter(request, deps, book);
  const batch = new WriteBatch<WriteItem & { facts: CaptureFacts }>(writer, ({ traceId, facts }, { trace }) =>
    count(traceId, facts, trace === 'written'),
  );
  const index = new PredictionIndex(environment);
  const how = { leaveOut: leftOut(request), tryOut: tryToLog, makeRoom: () => batch.flush() };
  for await (const line of readChunk(storage, chunk, environment, request.options.window, how)) {
    const { range } = line;
    if (line.kind === 'unread') {
      book.unread({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'outsideWindow') {
      book.outsideWindow(range);
    } else if (line.kind === 'quarantine') {
      const { reason, place, bytes, traceId = '' } = line;
      // A line that killed the function is traced if its trace was written before the kill.
      const stored = reason === KILLED ? (await store.getTraces(experimentId, [traceId])).get(traceId) : undefined;
      const isOwn = stored?.info?.run === request.run;
      count(traceId, captureFacts(undefined, place), isOwn);
      if (stored !== undefined) book.traced(range, isOwn ? 'written' : 'alreadyThere');
      else book.quarantine({ range, place, bytes }, reason);
    } else if (line.duplicate) {
      book.duplicate(line.traceId, line);
    } else {
      const { capture, traceId, raw, replay, weight } = line;
      if (replay === undefined) index.add(capture, traceId, raw.place);
      const trace = book.trace(line);
      const facts = captureFacts(capture, raw.place, replay);
      if (trace !== undefined) await batch.add({ traceId, range, raw, trace, assessments: [], facts }, weight);
    }
  }
  await batch.flush();
  await book.close(chunk);
  await index.write(storage, environment.WORK_BUCKET, book.refused);
}
