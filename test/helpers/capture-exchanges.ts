/** Exchanges of every vendor form, made by an application that captures them, with the lines that SageMaker would write of them. */

import { isObject, parseJson } from '../../src/captures/json.ts';
import { payloadBytes } from '../../src/captures/payload/captured-data.ts';
import { CapturingEndpoint, type GivenReply } from '../doubles/capturing-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { type AppCall, type Language, runApp } from './capture-apps.ts';
import { corpusFiles, linesOf } from './corpus.ts';

export interface Exchange {
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
export async function captureCorpus(language: Language): Promise<{ sent: number; exchanges: Exchange[] }> {
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
