/** Runs a bundled Lambda handler once, as Lambda would, and prints time and memory. Arguments: the bundle, the event. */
import { existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const STATUS = '/proc/self/status';

const [bundle = '', event = '{}'] = process.argv.slice(2);
const { handler } = (await import(pathToFileURL(bundle).href)) as {
  handler(event: unknown, context: unknown): Promise<unknown>;
};
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

/** Reads the peak memory. On Linux not from ru_maxrss, which a process inherits from the peak of its parent. */
function peakBytes(): number {
  const status = existsSync(STATUS) ? readFileSync(STATUS, 'utf8') : '';
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
  return Number(kib) * 1024;
}
