/**
 * The baseline of this machine and its server: a few lines of Node that send each request with a timer through `node:http`
 * and record only the latency.
 *
 *     node bench/replay-support/bare-sender.ts CAPTURES_FILE URL RESULT_FILE
 */
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';

interface Captured {
  captureData: { endpointInput: { data: string } };
  eventMetadata: { inferenceTime: string };
}

const [file = '', url = '', resultFile = ''] = process.argv.slice(2);
const records = readFileSync(file, 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line) as Captured)
  .map(({ captureData, eventMetadata }) => ({
    body: captureData.endpointInput.data,
    at: Date.parse(eventMetadata.inferenceTime),
  }));
const firstAt = records[0]?.at ?? 0;
const agent = new http.Agent({ keepAlive: true });
const latencies: number[] = [];
let left = records.length;

function send(body: string): void {
  const sentAt = performance.now();
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const sent = http.request(`${url}/v1/chat/completions`, { agent, method: 'POST', headers }, (reply) => {
    reply.resume();
    reply.on('end', () => {
      latencies.push(performance.now() - sentAt);
      if (--left === 0) finish();
    });
  });
  sent.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  sent.end(body);
}

function finish(): void {
  latencies.sort((a, b) => a - b);
  writeFileSync(resultFile, JSON.stringify({ latencyP50: latencies[Math.ceil(latencies.length / 2) - 1] }));
  agent.destroy();
}

for (const { body, at } of records) setTimeout(() => send(body), at - firstAt);
