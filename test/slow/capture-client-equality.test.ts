/** What the capture clients write is read as what SageMaker itself captures: the same trace, and the same question to the judge. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  StandInEndpoint as PlainEndpoint,
  payloadPart,
  SAGEMAKER_ROUTE,
  send,
} from '../../local/stand-in-endpoint/server.ts';
import { decodeLine } from '../../src/captures/decode.ts';
import { isObject, parseJson } from '../../src/captures/json.ts';
import { payloadBytes } from '../../src/captures/payload/captured-data.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import type { RawLine } from '../../src/captures/types.ts';
import { questionOf } from '../../src/judge/question.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { type AppCall, LANGUAGES, type Language, runApp } from '../helpers/capture-apps.ts';
import { corpusFiles, linesOf } from '../helpers/corpus.ts';

interface GivenReply {
  bytes: Buffer;
  contentType: string;
}

/** Bytes of a piece of a streamed reply. A piece ends within characters. */
const PIECE = 61;

class CapturingEndpoint extends PlainEndpoint {
  /** By the request's inference id. */
  readonly replies = new Map<string, GivenReply>();
  /** The lines that SageMaker would write, also of streamed replies, by the request's inference id. */
  readonly captured = new Map<string, string>();

  protected override route(url: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const id = String(message.headers['x-amzn-sagemaker-inference-id']);
    const reply = this.replies.get(id);
    const [, , streamed] = SAGEMAKER_ROUTE.exec(url) ?? [];
    if (reply === undefined) {
      send(response, 400, 'application/json', '{"message":"no such reply"}');
      return;
    }
    this.captured.set(
      id,
      captureLineOf(id, { bytes: body, contentType: String(message.headers['content-type']) }, reply),
    );
    response.setHeader('x-amzn-invoked-production-variant', 'blue');
    if (streamed === undefined) {
      response
        .writeHead(200, { 'content-type': reply.contentType, 'content-length': reply.bytes.length })
        .end(reply.bytes);
      return;
    }
    response.writeHead(200, {
      'content-type': 'application/vnd.amazon.eventstream',
      'x-amzn-sagemaker-content-type': reply.contentType,
    });
    for (let at = 0; at < reply.bytes.length; at += PIECE)
      response.write(payloadPart(reply.bytes.subarray(at, at + PIECE)));
    response.end();
  }
}

function captureLineOf(inferenceId: string, request: GivenReply, reply: GivenReply): string {
  const side = ({ bytes, contentType }: GivenReply, mode: string): object => {
    const encoding = /json/.test(contentType) ? 'JSON' : /csv/.test(contentType) ? 'CSV' : 'BASE64';
    const isText = Buffer.from(bytes.toString()).equals(bytes) && encoding !== 'BASE64';
    const data = bytes.toString(isText ? 'utf8' : 'base64');
    return { observedContentType: contentType, mode, data, encoding: isText ? encoding : 'BASE64' };
  };
  const captureData = { endpointInput: side(request, 'INPUT'), endpointOutput: side(reply, 'OUTPUT') };
  const eventMetadata = { eventId: inferenceId, inferenceId, inferenceTime: new Date().toISOString() };
  return JSON.stringify({ captureData, eventMetadata, eventVersion: '0' });
}

interface Exchange {
  streamed: boolean;
  /** The line of the capture client, and SageMaker's. */
  ours: string;
  theirs: string;
}

/** Returns both sides of each capture of the corpus that an endpoint could have answered. */
async function corpusExchanges(): Promise<{ request: GivenReply; reply: GivenReply }[]> {
  const exchanges: { request: GivenReply; reply: GivenReply }[] = [];
  for (const file of corpusFiles()) {
    for (const { bytes } of await linesOf(file)) {
      const record = parseJson(bytes.toString());
      const data = record.ok && isObject(record.value) ? record.value.captureData : undefined;
      if (!isObject(data)) continue;
      const [request, reply] = [data.endpointInput, data.endpointOutput].map(sideOf);
      if (request !== undefined && reply !== undefined) exchanges.push({ request, reply });
    }
  }
  return exchanges;
}

/** `undefined` for a side without a content type or content, which no good reply has on the wire. */
function sideOf(side: unknown): GivenReply | undefined {
  const bytes = payloadBytes(side);
  const contentType = isObject(side) ? side.observedContentType : undefined;
  const isHeader = typeof contentType === 'string' && /^[\x20-\x7e]+$/.test(contentType);
  return isHeader && Buffer.isBuffer(bytes) && bytes.length > 0 ? { bytes, contentType } : undefined;
}

/** Makes each exchange of the corpus streamed and unstreamed. @returns them and the number that were sent */
async function captureCorpus(language: Language): Promise<{ sent: number; exchanges: Exchange[] }> {
  const endpoint = new CapturingEndpoint({});
  await endpoint.listen();
  const s3 = await S3Wire.start();
  try {
    const calls: AppCall[] = [];
    for (const [i, { request, reply }] of (await corpusExchanges()).entries()) {
      for (const streamed of [false, true]) {
        const inferenceId = `${i}-${streamed}`;
        endpoint.replies.set(inferenceId, reply);
        const { contentType, bytes } = request;
        calls.push({ streamed, inferenceId, contentType, body: bytes.toString('base64') });
      }
    }
    const options = { calls: 'all' as const };
    const { replies } = await runApp(language, {
      ...{ endpoint: endpoint.url, s3: s3.url, options, calls, flushSeconds: 60 },
    });
    const failed = replies.find(({ error }) => error);
    if (failed) throw new Error(`a call failed: ${failed.error}`);
    const lines = s3.keys('captures').flatMap((key) => s3.text('captures', key)?.split('\n').filter(Boolean) ?? []);
    const ours = new Map(lines.map((line) => [String(JSON.parse(line).eventMetadata.inferenceId), line]));
    const exchanges = calls.flatMap(({ inferenceId = '', streamed = false }) => {
      const line = ours.get(inferenceId);
      return line === undefined ? [] : [{ streamed, ours: line, theirs: endpoint.captured.get(inferenceId) ?? '' }];
    });
    return { sent: calls.length, exchanges };
  } finally {
    await endpoint.close();
    await s3.stop();
  }
}

const LEAST = 0.99;

/** What a trace shows of a line, without times and ids. */
function readingOf(line: string): object {
  const place = { bucket: 'b', key: 'e/blue/2026/11/27/10/a.jsonl', etag: 'e', line: 1, start: 0, objectTimeMs: 0 };
  const raw = { bytes: Buffer.from(line), place } as unknown as RawLine;
  const decoded = decodeLine(raw);
  if (decoded.kind !== 'capture') throw new Error(`quarantined: ${decoded.reason.message}`);
  const { spans, state } = buildTrace(decoded.capture, raw, { experimentId: '1', endpointName: 'e' });
  const content = spans.map(({ name, spanType, inputs, outputs, status }) => ({
    name,
    spanType,
    inputs,
    outputs,
    status,
  }));
  return { state, content, question: questionOf('judge', decoded.capture) };
}

const isEqual = ({ ours, theirs }: Exchange): boolean => {
  return JSON.stringify(readingOf(ours)) === JSON.stringify(readingOf(theirs));
};

test.each(LANGUAGES)('%s: 99 of 100 exchanges of all vendor forms are equal', async (language) => {
  const { sent, exchanges } = await captureCorpus(language);
  expect(sent).toBeGreaterThan(500);
  expect(exchanges).toHaveLength(sent);
  for (const streamed of [false, true]) {
    const some = exchanges.filter((exchange) => exchange.streamed === streamed);
    const unequal = some.filter((exchange) => !isEqual(exchange));
    for (const { ours, theirs } of unequal.slice(0, 5)) console.log(ours.slice(0, 600), theirs.slice(0, 600));
    expect(1 - unequal.length / some.length).toBeGreaterThanOrEqual(LEAST);
  }
});
