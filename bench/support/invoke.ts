/** Runs a bundled Lambda handler once, as Lambda would, and prints what it took. Arguments: the bundle, the event. */
import { existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const STATUS = '/proc/self/status';

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
const maxRssMb = peakBytes() / 1e6;
const { user, system } = process.cpuUsage();
const cpuSeconds = (user + system) / 1e6;
console.log(JSON.stringify({ importSeconds, seconds, maxRssMb, cpuSeconds, result }));
process.exit(0);

/** Not ru_maxrss where there is better: Linux hands on to a process what the one that started it had at its peak. */
function peakBytes(): number {
  const status = existsSync(STATUS) ? readFileSync(STATUS, 'utf8') : '';
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
  return Number(kib) * 1024;
}
