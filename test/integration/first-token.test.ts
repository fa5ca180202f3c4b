/** The time to the first token of streams whose first bytes are none: as captured, and as a replay of the captures measures it. */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { InvokeEndpointWithResponseStreamCommand, SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import { payloadPart, StandInEndpoint } from '../../local/stand-in-endpoint/server.ts';
import { captureInvocations } from '../../src/capture-client/capture-invocations.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { runHere } from '../helpers/command-here.ts';
import { ReplayFolder } from '../helpers/replay.ts';

const ROLE = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] })}\n\n`;
const FIRST_MS = 400;
const STREAMS = 100;

/** Sends a comment and the role at once, and all words later. */
class LateEndpoint extends StandInEndpoint {
  #streams = 0;

  protected override async stream(
    events: readonly string[],
    response: ServerResponse,
    sageMaker: boolean,
    end: () => void,
  ): Promise<void> {
    const write = (event: string) => response.write(sageMaker ? payloadPart(Buffer.from(event)) : event);
    response.writeHead(200, {
      'content-type': sageMaker ? 'application/vnd.amazon.eventstream' : 'text/event-stream',
      'x-amzn-sagemaker-content-type': 'text/event-stream',
    });
    write(': keep-alive\n\n');
    write(ROLE);
    await wait(FIRST_MS + 10 * (this.#streams++ % 10));
    for (const event of events) write(event);
    end();
  }
}

test('the medians of 100 streams agree', async () => {
  const endpoint = new LateEndpoint({ latencyMs: 0 });
  await endpoint.listen();
  const s3 = await S3Wire.start();
  const folder = new ReplayFolder();
  try {
    const place = { region: 'eu-west-1', credentials: { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' } };
    const client = new SageMakerRuntimeClient({ ...place, endpoint: endpoint.url });
    const wire = { ...place, endpoint: s3.url, forcePathStyle: true };
    const captures = captureInvocations(client, { bucket: 'captures', batchMs: 60_000, s3: wire });
    const Body = JSON.stringify({ messages: [{ role: 'user', content: 'Do ferns flower?' }], stream: true });
    const ask = async () => {
      const input = { EndpointName: 'e', Body, ContentType: 'application/json' };
      const reply = await client.send(new InvokeEndpointWithResponseStreamCommand(input));
      for await (const _ of reply.Body ?? []);
    };
    // Few at once: on a busy machine, the SDK's own time would be measured.
    for (let n = 0; n < STREAMS; n += 4) await Promise.all(Array.from({ length: 4 }, ask));
    await captures.flush();
    const lines = s3.keys('captures').flatMap((key) => s3.lines('captures', key).map((line) => JSON.stringify(line)));
    expect(lines).toHaveLength(STREAMS);
    const out = join(folder.path, 'out');
    const file = folder.write('captures.jsonl', lines);
    const replayed = await runHere(['replay', file, '--url', endpoint.url, '--quiet', '--no-report', '-o', out]);
    expect(replayed).toMatchObject({ code: 0 });
    const {
      captured_time_to_first_token: { p50: captured },
      time_to_first_token: { p50: measured },
    } = JSON.parse(readFileSync(join(out, 'profile_export_aiperf.json'), 'utf8'));
    expect(captured).toBeGreaterThanOrEqual(FIRST_MS);
    expect(Math.abs(captured / measured - 1)).toBeLessThanOrEqual(0.05);
  } finally {
    await endpoint.close();
    await s3.stop();
    folder.delete();
  }
});
