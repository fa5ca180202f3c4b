/** Checks times against MLflow's range. One trace outside of it would make MLflow refuse the whole batch. */
import type { TraceRecord } from '../captures/trace/types.ts';
import type { WriteTracesResult } from './types.ts';

/** MLflow stores signed 64-bit nanoseconds, which end on 2262-04-11. */
const LAST_TIME_MS = Number(2n ** 63n / 1_000_000n) - 1;

export const hasStorableTime = (trace: TraceRecord): boolean =>
  [trace, ...trace.spans].every(({ startTimeMs, endTimeMs }) => startTimeMs >= 0 && endTimeMs <= LAST_TIME_MS);

export const timeRefusal = (trace: TraceRecord): WriteTracesResult['refused'][number] => ({
  traceId: trace.traceId,
  reason: {
    name: 'MlflowTimeOutOfRange',
    message: `The time is outside MLflow’s range; got: ${trace.startTimeMs} to ${trace.endTimeMs} ms; expected: between 1970 and 2262`,
  },
});
