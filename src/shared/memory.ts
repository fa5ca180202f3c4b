/** How much memory this function has for captures. */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const MIB = 1024 * 1024;

/** Lambda's runtime beside the process, and what no reckoning is exact about. */
const MARGIN_MB = 60;
/** Node, the SDK and the function's own code; measured 80 to 100. */
const IDLE_MB = 110;
/** Of what is left: for the capture in hand, for those that wait, for the requests under way, and for garbage. */
const SHARES = 4;
/** Enough for any ordinary capture, however much memory there is. */
const MOST_AT_ONCE_MB = 200;

/** As it was deployed; elsewhere as much as the heap may become. */
export const functionMb = (): number =>
  Number(process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE) || Math.floor(getHeapStatistics().heap_size_limit / MIB);

/** What a capture may become here without being tried out first, and captures that are held together. In bytes. */
export const weightAtOnce = (): number =>
  Math.min(MOST_AT_ONCE_MB, Math.max(0, functionMb() - MARGIN_MB - IDLE_MB) / SHARES) * MIB;

/** Megabytes that a process beside this one may take now. */
export const roomMb = (): number => functionMb() - MARGIN_MB - process.memoryUsage.rss() / MIB;

let collect: (() => void) | undefined;

/** Gives back what is no longer held: V8 by itself waits for its heap's limit, and buffers are beside the heap. */
export function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  collect();
}
