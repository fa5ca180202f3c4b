/** Requests of an application in Node, bare and captured by turns: `node side.ts <JSON of SideOptions>`. Prints SideFigures. */
import { InvokeEndpointWithResponseStreamCommand, SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { captureInvocations } from '../../src/capture-client/capture-invocations.ts';
import type { SideOptions } from './sides.ts';

const { endpoint, s3, requests, workers, largeEveryMs, series } = JSON.parse(process.argv[2] ?? '') as SideOptions;
const credentials = { accessKeyId: 'a', secretAccessKey: 'b' };
const region = 'eu-west-1';
const client = () => new SageMakerRuntimeClient({ endpoint, region, credentials, maxAttempts: 1 });
const captured = client();
if (series.includes('captured')) {
  captureInvocations(captured, { bucket: 'b', s3: { endpoint: s3, forcePathStyle: true } });
}
const clients: Record<string, SageMakerRuntimeClient> = { bare: client(), again: client(), captured };
const bodyOf = (content: string) => Buffer.from(JSON.stringify({ messages: [{ role: 'user', content }] }));
const SMALL = bodyOf('hello');
const LARGE = bodyOf('ä"\n'.repeat(240_000));

async function ask(name: string, Body: Buffer): Promise<number> {
  const started = performance.now();
  const input = { EndpointName: 'e', Body, ContentType: 'application/json' };
  const { Body: stream = [] } = await (clients[name] as SageMakerRuntimeClient).send(
    new InvokeEndpointWithResponseStreamCommand(input),
  );
  let first = 0;
  for await (const _ of stream) first ||= performance.now() - started;
  return first;
}

const times: Record<string, number[]> = Object.fromEntries(series.map((name) => [name, []]));
let failed = 0;
let peak = 0;
let next = 0;
for (const name of series) for (let i = 0; i < 50; i++) await ask(name, SMALL);
const large = setInterval(() => void ask('captured', LARGE).catch(() => {}), largeEveryMs || 2 ** 30);
const memory = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage().rss);
}, 100);
async function work(): Promise<void> {
  while (next < requests) {
    const name = series[next++ % series.length] ?? '';
    try {
      times[name]?.push(await ask(name, SMALL));
    } catch {
      failed += 1;
    }
  }
}
await Promise.all(Array.from({ length: workers }, work));
clearInterval(large);
clearInterval(memory);
// A process that exits loses what its pipe has not taken.
process.stdout.write(JSON.stringify({ times, failed, peakBytes: peak }), () => process.exit());
