/**
 * Logs one chunk of capture lines as traces, together or line by line. A line that is not a capture record goes to
 * quarantine with the reason.
 */
import type { LinePlace } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LogReceipt } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { PredictionIndex } from '../../ground-truth/index/prediction-index.ts';
import { observerOf } from '../../quality/observations.ts';
import { type CaptureFacts, captureFacts, exchangeDigest, QualityTally } from '../../quality/tally.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { type HeavyCaptures, heavyCapturesOf } from '../chunk/heavy-captures.ts';
import { KILLED, LineAtWork } from '../chunk/line-at-work.ts';
import { withReceipt } from '../receipts.ts';
import { ChunkWriter, type WriteDependencies, type WriteItem } from '../write/chunk-writer.ts';
import { LineLog } from '../write/line-log.ts';
import { WriteBatch } from '../write/write-batch.ts';

interface LogDependencies extends WriteDependencies {
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
  const log = new LineLog(request, deps);
  const attempt = {
    run: () => logLines(request, deps, log, quality),
    receipt: (failure: unknown) => ({
      ...log.receipt(failure),
      ...(request.options.replay ? {} : quality.counts(log.quarantinedFirst)),
    }),
  };
  return withReceipt(storage, environment.WORK_BUCKET, attempt);
}

async function logLines(
  request: ChunkRequest,
  deps: LogDependencies,
  log: LineLog,
  quality: QualityTally,
): Promise<void> {
  const atWork = await LineAtWork.open(request, deps);
  const heavy = heavyCapturesOf(request, deps, []);
  const work = async (): Promise<void> => {
    if (atWork.isTracing) await traceEach(request, deps, { atWork, heavy }, true);
    await logTogether(request, deps, { log, quality, atWork, heavy });
  };
  await atWork.during(work).finally(() => heavy.close());
}

async function logTogether(
  request: ChunkRequest,
  deps: LogDependencies,
  { log, quality, atWork, heavy }: { log: LineLog; quality: QualityTally; atWork: LineAtWork; heavy: HeavyCaptures },
): Promise<void> {
  const { storage, store, environment } = deps;
  const { chunk, options } = request;
  const count = (traceId: string, facts: CaptureFacts, isWritten: boolean, built?: WriteItem['trace']): void => {
    const unjudged = { verdicts: [], replaced: [], judgeable: [], notJudged: {} };
    if (isWritten) quality.add({ traceId, facts, exchange: built && exchangeDigest(built), isWritten, ...unjudged });
  };
  const writer = new ChunkWriter(request, deps, log);
  const batch = new WriteBatch<WriteItem & { facts: CaptureFacts }>(writer, ({ traceId, facts, trace }, written) =>
    count(traceId, facts, written.trace === 'written', trace),
  );
  const index = new PredictionIndex(environment);
  const leaveOut = async (place: LinePlace) => {
    const reason = atWork.reasonOf(place);
    if (reason === undefined && atWork.isEach) await batch.flush().then(() => atWork.begin(place));
    return reason;
  };
  for await (const read of readChunk(storage, chunk, environment, options, { leaveOut, heavy })) {
    atWork.checkTime();
    const { range } = read;
    if (read.kind === 'heavy') await batch.flush();
    const line = read.kind === 'heavy' ? await read.read() : read;
    if (line.kind === 'unread') {
      log.unread({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'outsideWindow') {
      log.outsideWindow(range);
    } else if (line.kind === 'quarantine') {
      const { reason, place, bytes, traceId = '' } = line;
      // A line that killed the function is traced if its trace was written before the kill.
      const stored =
        reason === KILLED ? (await store.getTraces(chunk.experimentId, [traceId])).get(traceId) : undefined;
      const isOwn = stored?.info?.run === request.run;
      count(traceId, captureFacts(undefined, place), isOwn);
      if (stored !== undefined) log.traced(range, isOwn ? 'written' : 'alreadyThere');
      else log.quarantine({ range, place, bytes }, reason);
    } else if (line.duplicate) {
      log.duplicate(line.traceId, { ...line, range });
    } else {
      const { capture, traceId, raw, replay, weight } = line;
      const isIndexed = replay === undefined && options.replay === undefined;
      const predictions = isIndexed ? index.add(capture, traceId, raw.place) : undefined;
      const trace = log.trace({ ...line, range });
      const isRetried = chunk.ranges[range]?.keptIn !== undefined;
      const facts = captureFacts(capture, raw.place, { replay, predictions, isRetried });
      if (trace !== undefined) await batch.add({ traceId, range, raw, trace, assessments: [], facts }, weight);
      if (read.kind === 'heavy') await batch.flush();
    }
  }
  await batch.flush();
  await log.close();
  await index.write(storage, environment.WORK_BUCKET, log.refused);
}

/**
 * Traces the lines of a chunk one after the other, to find a line that kills the function: notes each line, decodes it
 * and writes its trace before the next one is noted. Counts nothing: the whole chunk is processed as usual afterwards,
 * and finds the traces.
 *
 * @param mayCreate whether absent traces are to be written; else the lines are only decoded
 * @throws RetryableError `ChunkOutOfTime`: the next attempt continues with the same line
 */
export async function traceEach(
  request: ChunkRequest,
  deps: WriteDependencies & { storage: Storage; environment: LambdaEnvironment },
  { atWork, heavy }: { atWork: LineAtWork; heavy: HeavyCaptures },
  mayCreate: boolean,
): Promise<void> {
  const { storage, environment } = deps;
  const log = new LineLog(request, deps);
  const writer = new ChunkWriter(request, deps, log);
  const leaveOut = (place: LinePlace) => atWork.pass(place);
  const { chunk, options } = request;
  for await (const read of readChunk(storage, chunk, environment, options, { leaveOut, heavy })) {
    const line = read.kind === 'heavy' ? await read.read() : read;
    if (line.kind !== 'capture' || line.duplicate || !mayCreate) continue;
    const { range } = read;
    const { traceId, raw } = line;
    const trace = log.trace({ ...line, range });
    if (trace !== undefined) await writer.write([{ traceId, range, raw, trace, assessments: [] }]);
  }
  await atWork.traced();
}
