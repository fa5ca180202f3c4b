/**
 * Formats a replayed exchange as a capture line, so that the decoder and the trace builder treat it like a captured one.
 * Facts that captures do not contain are in `replay`.
 */
import type { RunClock } from '../clock.ts';
import { type Measured, repliedBody, sentBody } from '../measure/measure.ts';
import { Body } from '../reply/content.ts';

export interface ReplayFacts {
  run: string;
  target: string;
  requestId: string;
  startMs: number;
  endMs: number;
  scheduledMs: number;
  status: number;
  error?: { code?: number; type: string; message: string };
  capturedTraceId?: string;
  file: string;
  bucket?: string;
  line: number;
  conversationId: string;
  turnIndex: number;
}

export interface ReplayedLine {
  captureData: Record<string, unknown>;
  eventMetadata: Record<string, unknown>;
  eventVersion: string;
  replay: ReplayFacts;
}

const side = (mode: 'INPUT' | 'OUTPUT', { contentType, bytes }: Body) => ({
  observedContentType: contentType,
  mode,
  data: bytes.toString('base64'),
  encoding: 'BASE64',
});

function outputSide(measured: Measured): Record<string, unknown> | undefined {
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

export function replayedLine(measured: Measured, clock: RunClock, run: string, target: string): ReplayedLine {
  const { request, exchange, error, scheduledAt } = measured;
  const startMs = Math.round(clock.epochMs(exchange.startedAt));
  return {
    captureData: {
      endpointInput: side('INPUT', sentBody(request)),
      endpointOutput: outputSide(measured),
    },
    eventMetadata: {
      eventId: request.eventId,
      inferenceId: request.inferenceId,
      inferenceTime: new Date(startMs).toISOString(),
      customAttributes: [`replay_run=${run}`],
    },
    eventVersion: '0',
    replay: {
      run,
      target,
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
      conversationId: request.turn.conversationId,
      turnIndex: request.turn.turnIndex,
    },
  };
}
