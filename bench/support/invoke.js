/**
 * Runs a bundled Lambda handler once, as Lambda would, and prints time and memory. Arguments: the bundle, the event. In plain JavaScript:
 * Lambda does not load Node's TypeScript compiler, which takes 18 MB.
 */
import { pathToFileURL } from 'node:url';
import { peakBytes } from './peak-memory.js';

const [bundle = '', event = '{}'] = process.argv.slice(2);
const { handler } = await import(pathToFileURL(bundle).href);
// Counted from process start, as for the peer's imports.
const importSeconds = performance.now() / 1000;
const startedAt = performance.now();
const context = {
  awsRequestId: `bench-${process.pid}-${Date.now()}`,
  functionName: 'bench',
  functionVersion: '1',
  memoryLimitInMB: '1024',
  invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:bench',
  getRemainingTimeInMillis: () => 900_000,
};
const result = await handler(JSON.parse(event), context);
const seconds = (performance.now() - startedAt) / 1000;
const maxRssMb = peakBytes() / 1e6;
const { user, system } = process.cpuUsage();
const cpuSeconds = (user + system) / 1e6;
console.log(JSON.stringify({ importSeconds, seconds, maxRssMb, cpuSeconds, result }));
process.exit(0);
