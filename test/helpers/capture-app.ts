/** An application in Node that calls an endpoint as a test asks, and prints what it saw: `node capture-app.ts <file with an AppSpec>`. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  InvokeEndpointCommand,
  InvokeEndpointWithResponseStreamCommand,
  SageMakerRuntimeClient,
} from '@aws-sdk/client-sagemaker-runtime';
import { captureInvocations } from '../../src/capture-client/capture-invocations.ts';
import type { AppCall, AppReply, AppSpec } from './capture-apps.ts';

const spec = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as AppSpec;
const credentials = { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' };
const client = new SageMakerRuntimeClient({
  endpoint: spec.endpoint,
  region: 'eu-west-1',
  credentials,
  maxAttempts: 2,
  requestHandler: { httpAgent: { maxSockets: 2000 } },
});
const { prefix, calls, sampling, maxBodyBytes, memoryBytes, batchBytes, spoolFolder, spoolBytes } = spec.options;
const { batchSeconds = 5 } = spec.options;
const captures = spec.bare
  ? undefined
  : captureInvocations(client, {
      ...{ bucket: 'captures', prefix, calls, sampling, maxBodyBytes, memoryBytes, spoolFolder, spoolBytes },
      batchMs: 1000 * batchSeconds,
      batchBytes,
      s3: { endpoint: spec.s3, forcePathStyle: true, credentials, region: 'eu-west-1' },
    });

async function ask(call: AppCall): Promise<AppReply> {
  const started = performance.now();
  const pieceMs: number[] = [];
  const parts: Buffer[] = [];
  const input = {
    EndpointName: call.endpointName ?? 'e',
    Body: Buffer.from(call.body, 'base64'),
    ContentType: call.contentType,
    InferenceId: call.inferenceId,
    TargetVariant: call.variant,
  };
  const end = (error?: string): AppReply => {
    const reply = Buffer.concat(parts).toString('base64');
    return { reply, error, pieceMs, endMs: performance.now() - started };
  };
  try {
    if (!call.streamed) {
      const { Body } = await client.send(new InvokeEndpointCommand(input));
      parts.push(Buffer.from(Body ?? []));
      return end();
    }
    const { Body = [] } = await client.send(new InvokeEndpointWithResponseStreamCommand(input));
    if (call.pieces === 0) return end();
    for await (const { PayloadPart } of Body) {
      pieceMs.push(performance.now() - started);
      parts.push(Buffer.from(PayloadPart?.Bytes ?? []));
      if (parts.length === call.pieces) break;
    }
    return end();
  } catch (error) {
    return end((error as Error).name);
  }
}

if (spec.clockBackAfterMs !== undefined) {
  const now = Date.now;
  setTimeout(() => {
    Date.now = () => now() - 3_600_000;
  }, spec.clockBackAfterMs);
}
const replies: AppReply[] = [];
if (spec.concurrent) replies.push(...(await Promise.all(spec.calls.map(ask))));
else for (const call of spec.calls) replies.push(await ask(call));
// Streams that were not read to the end have ended when they are collected.
if (spec.flushSeconds !== undefined) {
  globalThis.gc?.();
  await sleep(100);
}
const before = captures?.stats();
const stats = spec.flushSeconds === undefined ? before : await captures?.flush(1000 * spec.flushSeconds);
console.log(JSON.stringify({ replies, stats, rssBytes: process.memoryUsage().rss }));
client.destroy();
