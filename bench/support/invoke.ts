/** Runs a bundled Lambda handler once, as Lambda would, and prints what it took. Arguments: the bundle, the event. */
import { pathToFileURL } from 'node:url';

const [bundle = '', event = '{}'] = process.argv.slice(2);
const { handler } = (await import(pathToFileURL(bundle).href)) as {
  handler(event: unknown, context: unknown): Promise<unknown>;
};
// Since the process began, as the peer counts its imports.
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
// ru_maxrss is in KiB on Linux.
const maxRssMb = (process.resourceUsage().maxRSS * 1024) / 1e6;
console.log(JSON.stringify({ importSeconds, seconds, maxRssMb, result }));
process.exit(0);
