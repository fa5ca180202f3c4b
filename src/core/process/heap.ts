/** Checks whether V8's heap is as large as the stack requires. */
import { getHeapStatistics } from 'node:v8';

const MIB = 1024 * 1024;

/** V8 counts its young generation in the limit of the heap, as three semi-spaces (measured with Node 24). */
const SEMI_SPACES = 3;

/** V8 rounds to its pages. Any default of V8 or Lambda differs by tens of MB. */
const TOLERANCE_MB = 8;

/** Compares the limit of V8's heap with the sizes in NODE_OPTIONS. */
export function heapFigures() {
  const { NODE_OPTIONS = '' } = process.env;
  const flags = Object.fromEntries(NODE_OPTIONS.split(' ').map((flag) => flag.split('=')));
  const asked = Number(flags['--max-old-space-size']) + SEMI_SPACES * Number(flags['--max-semi-space-size']);
  const heapLimitMb = Math.round(getHeapStatistics().heap_size_limit / MIB);
  return {
    heapLimitMb,
    /** `undefined` if NODE_OPTIONS does not set both sizes. */
    heapAskedMb: Number.isNaN(asked) ? undefined : asked,
    /**
     * Node's own command line. Its flags override those of NODE_OPTIONS, and Lambda's older runtimes pass some flags.
     */
    commandLine: process.execArgv,
    ignored: Math.abs(heapLimitMb - asked) > TOLERANCE_MB,
  };
}
