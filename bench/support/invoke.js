/**
 * Runs a bundled Lambda handler as Lambda would, and reports time and memory. Arguments: the bundle, and an event. Without an event it
 * waits for events of its parent, as a function that stays warm. In plain JavaScript: Lambda does not load Node's TypeScript compiler,
 * which takes 18 MB.
 */
import { pathToFileURL } from 'node:url';
import { peakBytes } from './peak-memory.js';

const [bundle = '', only] = process.argv.slice(2);
const { handler } = await import(pathToFileURL(bundle).href);
// Counted from process start, as for the peer's imports.
const importSeconds = performance.now() / 1000;
/** The processor time up to the event before; at first, that of the imports counts too. */
let before;

async function invoke(event) {
  const startedAt = performance.now();
  const context = {
    awsRequestId: `bench-${process.pid}-${Date.now()}`,
    functionName: 'bench',
    functionVersion: '1',
    memoryLimitInMB: '1024',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:bench',
    getRemainingTimeInMillis: () => 900_000,
  };
  const result = await handler(event, context);
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(before);
  before = process.cpuUsage();
  return { importSeconds, seconds, maxRssMb: peakBytes() / 1e6, cpuSeconds: (user + system) / 1e6, result };
}

if (only === undefined) process.on('message', async (event) => process.send(await invoke(event)));
else {
  console.log(JSON.stringify(await invoke(JSON.parse(only))));
  process.exit(0);
}
