/** Whether V8's heap is as large as the stack asks for. */
import { getHeapStatistics } from 'node:v8';

const MIB = 1024 * 1024;

/** V8 counts its young generation in the limit of the heap, as three semi-spaces (measured with Node 24). */
const SEMI_SPACES = 3;

/** V8 rounds to its pages. Any default of V8 or Lambda differs by tens of MB. */
const TOLERANCE_MB = 8;

interface HeapFigures {
  /** V8's limit of this process. */
  heapLimitMb: number;
  /** What NODE_OPTIONS asks for; `undefined` if it does not set both sizes. */
  heapAskedMb: number | undefined;
  /** Node's own command line. Its flags win over those of NODE_OPTIONS, and Lambda's older runtimes pass some. */
  commandLine: readonly string[];
  /** Whether V8's limit differs from what was asked. */
  ignored: boolean;
}

/** Compares the limit of V8's heap with the sizes in NODE_OPTIONS. */
export function heapFigures(
  nodeOptions = process.env.NODE_OPTIONS ?? '',
  limitBytes = getHeapStatistics().heap_size_limit,
): HeapFigures {
  const flags = Object.fromEntries(nodeOptions.split(' ').map((flag) => flag.split('=')));
  const asked = Number(flags['--max-old-space-size']) + SEMI_SPACES * Number(flags['--max-semi-space-size']);
  const heapLimitMb = Math.round(limitBytes / MIB);
  return {
    heapLimitMb,
    heapAskedMb: Number.isNaN(asked) ? undefined : asked,
    commandLine: process.execArgv,
    ignored: Math.abs(heapLimitMb - asked) > TOLERANCE_MB,
  };
}
