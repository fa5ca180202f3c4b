/**
 * The exchanges of a replay as capture lines. They are decoded and traced like captured lines, with additional data
 * that captures lack.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { exchangeLine } from '../../captures/trace/exchange.ts';
import type { ExchangeFacts } from '../../captures/types.ts';
import type { RunClock } from '../clock.ts';
import { type Measured, repliedBody, sentBody } from '../measure/measure.ts';
import { Body } from '../reply/content.ts';
import { LineWriter } from '../results/line-writer.ts';

/** The facts that all exchanges of a replay have in common. */
type SenderFacts = Pick<ExchangeFacts, 'run' | 'target' | 'mlflowRun'>;

/** Returns the name of a replay's traces: the endpoint, or the URL. */
export const traceNameOf = (target: Record<string, string>, run: string): string =>
  target.endpoint ?? target.url ?? run;

const side = (mode: 'INPUT' | 'OUTPUT', { contentType, bytes }: Body) => ({
  observedContentType: contentType,
  mode,
  data: bytes.toString('base64'),
  encoding: 'BASE64',
});

function outputSide(measured: Measured): Record<string, unknown> {
  const { error, exchange } = measured;
  if (error) {
    const message = { code: error.code, message: error.message };
    // Captures of failed calls have no content type.
    return side('OUTPUT', new Body(Buffer.from(JSON.stringify(message)), null));
  }
  if (!exchange.tooLarge) return side('OUTPUT', repliedBody(exchange));
  const why = 'It is larger than the limit for replies; it was measured';
  const replacement = JSON.stringify({ reply_not_kept: { bytes: exchange.bodyBytes, why } });
  return side('OUTPUT', new Body(Buffer.from(replacement), 'application/json'));
}

/** @param captured the captured line, if a judge is to compare its reply */
export function exchangeOf(
  measured: Measured,
  clock: RunClock,
  sender: SenderFacts,
  captured?: ExchangeFacts['captured'],
): string {
  const { request, exchange, error, scheduledAt } = measured;
  const startMs = Math.round(clock.epochMs(exchange.startedAt));
  const facts: ExchangeFacts = {
    ...sender,
    requestId: request.requestId,
    startMs,
    endMs: Math.round(clock.epochMs(exchange.endAt)),
    scheduledMs: Math.round(clock.epochMs(scheduledAt)),
    status: exchange.status,
    ...(error ? { error } : {}),
    ...(request.capturedTraceId ? { capturedTraceId: request.capturedTraceId } : {}),
    file: request.file,
    ...(request.bucket ? { bucket: request.bucket } : {}),
    line: request.line,
    ...(captured ? { captured } : {}),
  };
  const output = { endpointOutput: outputSide(measured) };
  // The ids in this object are already masked.
  const eventMetadata = {
    eventId: request.eventId,
    inferenceId: request.inferenceId,
    inferenceTime: new Date(startMs).toISOString(),
    customAttributes: [`replay_run=${sender.run}`],
  };
  const captureData = { endpointInput: side('INPUT', sentBody(request)), ...output };
  const record = { captureData, eventMetadata, eventVersion: '0' };
  if (request.keep === undefined) return exchangeLine(facts, record);
  const masked = request.keep.record({ captureData });
  // The message of an error is masked already.
  const kept = { ...masked.captureData, ...(error && output) };
  return exchangeLine({ ...facts, masked: request.keep.content }, { ...record, captureData: kept });
}

/** Keeps the exchanges on disk until the replay ends: writing traces meanwhile would slow it down. */
export const EXCHANGES_FILE = 'exchanges.spool.jsonl';

export function exchangeFile(directory: string, sender: SenderFacts, onError?: (error: Error) => void) {
  const writer = new LineWriter(join(directory, EXCHANGES_FILE), onError);
  return {
    /** @returns writes the line */
    read: (measured: Measured, clock: RunClock, captured?: ExchangeFacts['captured']) => {
      const line = exchangeOf(measured, clock, sender, captured);
      return () => writer.write(line);
    },
    close: () => writer.close(),
    /** Deletes the file, which is not needed any more. */
    discard: async (): Promise<void> => {
      await writer.close().catch(() => {});
      await rm(writer.path, { force: true });
    },
  };
}
