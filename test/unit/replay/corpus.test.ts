/** The pipeline, a replay's captured side and a replay's live side read every line of the corpus in the same way. */
import { decodeLine } from '../../../src/captures/decode.ts';
import { payloadBytes } from '../../../src/captures/payload/captured-data.ts';
import type { Capture, ChatMessage, RawLine } from '../../../src/captures/types.ts';
import { runClock } from '../../../src/replay/clock.ts';
import { compareReplies } from '../../../src/replay/compare/compare-replies.ts';
import { capturedReplyOf, replayedReply } from '../../../src/replay/compare/reply.ts';
import { Exchange } from '../../../src/replay/http/exchange.ts';
import { type Measured, measure, openReader } from '../../../src/replay/measure/measure.ts';
import { exchangeOf } from '../../../src/replay/publish/exchanges.ts';
import type { ReplyContent } from '../../../src/replay/reply/content.ts';
import { type LiteralRequest, literalRequest } from '../../../src/replay/request/literal.ts';
import { capturedReply, type PreparedRequest } from '../../../src/replay/request/preparer.ts';
import { corpusFiles, expectationsOf, linesOf } from '../../helpers/corpus.ts';

/** The facts that all readers have to agree on. */
interface Said {
  text: string | undefined;
  toolCalls: unknown;
  finishReason: string | undefined;
  error: unknown;
  input: number | undefined;
  output: number | undefined;
}

const textOf = (message: ChatMessage | undefined): string | undefined => {
  const { content } = message ?? {};
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part) => (part as { text?: string }).text ?? '').join('');
};

function saidByPipeline({ conversation, error, usage, response }: Capture): Said {
  const first = error === undefined ? conversation?.replies[0] : undefined;
  const isPlain = error === undefined && conversation?.replies[0] === undefined && response?.kind === 'text';
  return {
    text: isPlain ? (response.value as string) : textOf(first),
    toolCalls: first?.tool_calls,
    finishReason: error === undefined ? conversation?.finishReasons[0] : undefined,
    error: error && { code: error.statusCode, type: error.type, message: error.message },
    input: usage?.inputTokens,
    output: usage?.outputTokens,
  };
}

const saidByReplay = ({ text, toolCalls, finishReasons, error, usage }: ReplyContent): Said => ({
  text,
  toolCalls,
  finishReason: finishReasons?.[0],
  error,
  input: usage?.inputTokens,
  output: usage?.outputTokens,
});

/** Measures a reply that arrives over the wire in pieces of `step` bytes. */
function live(
  { body: wire, contentType: type }: LiteralRequest,
  captured: ReplyContent,
  bytes: Buffer,
  contentType: string | undefined,
  step: number,
): Measured {
  const request = { wire, bodyAt: 0, contentType: type, captured } as unknown as PreparedRequest;
  const headers = new Map(contentType === undefined ? [] : [['content-type', contentType]]);
  const exchange = new Exchange(
    request.wire,
    () => {},
    // A reply in one piece answers a request that did not ask for a stream.
    (status, given) => openReader(status, given, step < bytes.length),
  );
  exchange.onHead(200, headers, 'OK');
  exchange.startedAt = 0;
  for (let at = 0; at < bytes.length; at += step) {
    exchange.lastByteAt = at + 1;
    exchange.onBody(bytes, at, Math.min(bytes.length, at + step));
  }
  exchange.onEnd();
  return measure({ request, exchange, scheduledAt: 0, roomAt: 0 }, new Map());
}

/** Reads a measured reply as its trace does. */
function replayedCapture(measured: Measured): Capture {
  const line = exchangeOf(measured, runClock(), { run: 'run', target: 'target' });
  const decoded = decodeLine({ bytes: Buffer.from(line), place: PLACE }, { areExchanges: true });
  if (decoded.kind !== 'capture') throw new Error(decoded.reason.message);
  return decoded.capture;
}
const PLACE = { bucket: 'b', key: 'k', etag: 'e', line: 1, start: 0, end: 0, objectTimeMs: 0 };

const titles = corpusFiles().flatMap((file) => expectationsOf(file).map(({ title }, i) => [file, i, title] as const));

test.each(titles)('%s, line %i: %s', async (file, i) => {
  const raw = (await linesOf(file))[i] as RawLine;
  const decoded = decodeLine(raw);
  if (decoded.kind !== 'capture') return;
  const { capture } = decoded;
  const literal = literalRequest(raw.bytes);
  if (literal.kind === 'skipped') {
    // There is nothing to send, so the record is not replayed.
    expect(literal.reason).toMatch(/^(NoRequest|UndecodableRequest)$/);
    return;
  }
  const said = saidByPipeline(capture);
  const captured = capturedReply(literal.request);
  expect(captured === undefined).toBe(capture.response === undefined);
  if (captured === undefined) return;
  expect(saidByReplay(captured)).toEqual(said);
  const { capturedReply: side } = literal.request;
  const bytes = payloadBytes(side);
  if (typeof bytes === 'string') return;
  const { observedContentType: observed } = side as { observedContentType?: unknown };
  const type = typeof observed === 'string' ? observed : undefined;
  for (const step of [1, bytes.length + 1]) {
    const measured = live(literal.request, captured, bytes, type, step);
    const { content, error, metrics } = measured;
    expect(saidByReplay(content)).toEqual(said);
    const before = capturedReplyOf(captured, content);
    expect(compareReplies(before, replayedReply(measured))).toMatchObject({ same: true });
    if (!error) expect(saidByPipeline(replayedCapture(measured))).toEqual(said);
    // The record of the request has an error when the trace of the capture has one, and the times of a stream.
    expect(error?.message).toEqual(
      capture.error?.message ?? (before.error && expect.stringContaining(before.error.message)),
    );
    const isStream = capture.streamed === true && /^(data|event|id|:)/.test(bytes.toString());
    if (isStream && step === 1 && !error) expect(metrics.time_to_first_token).toBeGreaterThan(0);
  }
});
