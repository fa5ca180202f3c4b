/** Times that MLflow can store; a trace with another one would make it refuse a whole batch. */
import type { TraceRecord } from '../trace/types.ts';
import type { WriteTracesResult } from './types.ts';

/** Times are stored as nanoseconds in 64 bits with a sign: until 2262-04-11. */
const LAST_TIME_MS = Number(2n ** 63n / 1_000_000n) - 1;

export const hasStorableTime = (trace: TraceRecord): boolean =>
  [trace, ...trace.spans].every(({ startTimeMs, endTimeMs }) => startTimeMs >= 0 && endTimeMs <= LAST_TIME_MS);

export const timeRefusal = (trace: TraceRecord): WriteTracesResult['refused'][number] => ({
  traceId: trace.traceId,
  reason: {
    name: 'MlflowTimeOutOfRange',
    message: `MLflow cannot store the time; got: ${trace.startTimeMs} to ${trace.endTimeMs} ms; expected: between 1970 and 2262`,
  },
});
