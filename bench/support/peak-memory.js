/** The peak memory of this process. In plain JavaScript, for invoke.js. */
import { existsSync, readFileSync } from 'node:fs';

const STATUS = '/proc/self/status';

/** Reads the peak memory. On Linux not from ru_maxrss, which a process inherits from the peak of its parent. */
export function peakBytes() {
  const status = existsSync(STATUS) ? readFileSync(STATUS, 'utf8') : '';
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
  return Number(kib) * 1024;
}
