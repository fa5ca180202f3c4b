/** Calculates how much memory this function has for captures. */
import { readFileSync } from 'node:fs';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const MIB = 1024 * 1024;

/** Memory for Lambda's runtime outside the process, and for errors of these estimates. */
const MARGIN_MB = 60;
/** Memory for Node, the SDK and the function's code; measured at 80 to 100. */
const IDLE_MB = 110;
/** The rest is shared by the current capture, waiting captures, the requests in flight, and garbage. */
const SHARES = 4;
/** Enough for any ordinary capture, even if there is more memory. */
const MOST_AT_ONCE_MB = 200;

/** The memory size of the function; outside Lambda, the limit of the heap. */
export const functionMb = (): number =>
  Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE) || Math.floor(getHeapStatistics().heap_size_limit / MIB);

/** Returns the maximum bytes that one capture, or all captures in memory together, may need in this process. */
export const weightAtOnce = (): number =>
  Math.min(MOST_AT_ONCE_MB, Math.max(0, functionMb() - MARGIN_MB - IDLE_MB) / SHARES) * MIB;

const PAGE_MB = 4096 / MIB;

/** Returns the resident memory of a process in megabytes; 0 if the system does not report it. */
export function residentMb(pid: number | undefined): number {
  try {
    const [, pages] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ');
    return Number(pages) * PAGE_MB;
  } catch {
    return 0;
  }
}

/** The megabytes that a child process may use now. */
export const roomMb = (): number => functionMb() - MARGIN_MB - process.memoryUsage.rss() / MIB;

let collect: (() => void) | undefined;

/** Collects garbage now. V8 alone waits until its heap is nearly full, and buffers are outside the heap. */
export function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  collect();
}
