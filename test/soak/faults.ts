/** The faults of the soak, all at the same time, drawn at random with a fixed seed. */

import { type FaultRule, firstFault, mixOf } from '../doubles/fault-proxy.ts';
import { inBucket, isTraceWrite, slowDown } from '../doubles/fault-rules.ts';
import { pseudoRandom } from '../doubles/faulty-judge/behavior.ts';
import type { Behavior } from '../doubles/misbehaving-server.ts';
import type { FaultyEnvironment } from '../helpers/faulty-environment.ts';
import { FAULTY_MARK } from './records.ts';

/** Together 7% of the requests to MLflow. A stalled reply costs a minute, so there are few. */
const MLFLOW_FAULTS = mixOf([
  [0.02, { kind: 'reply', status: 429, headers: { 'retry-after': '0' } }],
  [0.01, { kind: 'reply', status: 500, body: '{}' }],
  [0.01, { kind: 'passThenReply', status: 500, body: '{}' }],
  [0.01, { kind: 'reply', status: 502 }],
  [0.01, { kind: 'cut' }],
  [0.01, { kind: 'passThenCut' }],
  [0.0001, { kind: 'stall' }],
]);

const faultyTrace: FaultRule = (request) =>
  isTraceWrite(request) && request.body.includes(FAULTY_MARK)
    ? { kind: 'reply', status: 400, body: '{"error_code":"INVALID_PARAMETER_VALUE"}' }
    : undefined;

/** A fault that is not retried: it fails the run. */
const DENIED: Behavior = { kind: 'reply', status: 403, body: '{"error_code":"PERMISSION_DENIED"}' };

/** Together 3% of the functions’ requests to S3, and 2% of their writes. */
const S3_FAULTS = mixOf(
  [
    [0.02, slowDown],
    [0.01, { kind: 'cut' }],
  ],
  2,
);

const JUDGE_FAULTS = { throttleShare: 0.3, fault: 'cut', faultShare: 0.05 } as const;

/** The interval of kills. A function is killed each time. */
const KILL_EVERY_MS = 20_000;

export type SoakFaults = ReturnType<typeof startFaults>;

/** Starts all faults. */
export function startFaults(faulty: FaultyEnvironment) {
  let denials = 0;
  // Chunks must fail, not planning: failed planning cannot be retried, only started again.
  const denied: FaultRule = ({ path }) => {
    if (denials === 0 || !path.includes('/traces')) return undefined;
    denials -= 1;
    return DENIED;
  };
  const writesCut = mixOf([[0.02, { kind: 'passThenCut' }]], 3);
  const isWorkPut = inBucket(faulty.pipeline.outputs.workBucket, 'PUT');
  faulty.mlflowProxy.inject(firstFault(denied, faultyTrace, MLFLOW_FAULTS));
  faulty.s3Proxy.inject(firstFault((request) => (isWorkPut(request) ? writesCut(request) : undefined), S3_FAULTS));
  faulty.environment.judge.behave(JUDGE_FAULTS);
  const draw = pseudoRandom(4);
  let kills = 0;
  const timer = setInterval(() => {
    kills += faulty.kill(draw() < 0.7 ? 'processor' : 'evaluator', (pids) => {
      const pid = pids[Math.floor(draw() * pids.length)];
      return pid === undefined ? [] : [pid];
    });
  }, KILL_EVERY_MS);
  return {
    /** Makes MLflow deny the next requests for traces. */
    denyNext: (requests: number) => {
      denials = requests;
    },
    /** Ends all faults. @returns the number of injected faults */
    stop: () => {
      clearInterval(timer);
      const injected = { mlflow: faulty.mlflowProxy.injected(), s3: faulty.s3Proxy.injected(), kills };
      faulty.heal();
      return injected;
    },
  };
}
