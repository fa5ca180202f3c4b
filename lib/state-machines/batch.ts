/**
 * The states of batch inference: start the jobs of the whole run, wait for them, apply their answers chunk by chunk. In a
 * cascade, requests to the judge itself are made from the first answers and go the same way, before all is applied.
 */
import {
  Choice,
  Condition,
  type DistributedMap,
  type IChainable,
  TaskInput,
  type TaskStateBase,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { BatchPhase, JudgeBatchRequest } from '../../src/contract/payloads.ts';
import type { MonitoringFunctions } from '../monitoring-functions.ts';
import { RUN } from './pipeline.ts';
import { JUDGE_RETRIES, STORE_RETRIES } from './retries.ts';
import { invoke } from './states.ts';

const PREPARE = 'prepare' satisfies BatchPhase;

/** The state that batch inference begins with. */
export const BATCH_BEGINS = { round: 0 };

/**
 * @param planner gathers the chunks of all parts of the plan if the batcher cannot
 * @param answered the Map over all chunks after the jobs of a round have ended, which does `$.batch.phase`
 * @param summarize what follows
 */
export function batchStates(
  scope: Construct,
  { batcher, planner }: Pick<MonitoringFunctions, 'batcher' | 'planner'>,
  answered: DistributedMap,
  summarize: TaskStateBase,
): IChainable {
  const ask = (id: string, action: JudgeBatchRequest['action'], comment: string): TaskStateBase =>
    invoke(scope, id, {
      lambda: batcher,
      comment,
      payload: TaskInput.fromObject({ action, run: RUN, 'round.$': '$.batch.round' }),
      resultPath: '$.batch',
      retries: JUDGE_RETRIES,
    });
  const start = ask('StartBatch', 'start', 'Packs the requests of all chunks into jobs, and starts the first of them');
  const check = ask(
    'CheckBatch',
    'check',
    'Checks whether the jobs have ended, and starts those that waited for a place',
  );
  const wait = new Wait(scope, 'WaitForBatch', { time: WaitTime.secondsPath('$.batch.pollSeconds') });
  const applied = new Choice(scope, 'RoundEnded', { comment: 'The requests of the next round have jobs of their own' })
    .when(Condition.stringEquals('$.batch.phase', PREPARE), start)
    .otherwise(summarize);
  answered.addCatch(applied, { resultPath: '$.error' }).next(applied);
  // Jobs may have been started. If not, the check goes on to the captures, which are traced without verdicts.
  start.addCatch(check, { resultPath: '$.error' });
  const unknown = invoke(scope, 'JobsUnknown', {
    lambda: planner,
    comment: 'Gathers all chunks: the captures are traced even if nobody knows what became of the jobs',
    payload: TaskInput.fromObject({ gather: true, run: RUN, 'round.$': '$.batch.round' }),
    resultPath: '$.batch',
    retries: STORE_RETRIES,
  });
  unknown.addCatch(summarize, { resultPath: '$.error' });
  check.addCatch(unknown, { resultPath: '$.error' });
  const ended = new Choice(scope, 'BatchEnded')
    .when(Condition.stringEquals('$.batch.outcome', 'ready'), answered)
    .when(Condition.stringEquals('$.batch.outcome', 'waiting'), wait.next(check))
    .when(Condition.stringEquals('$.batch.outcome', 'more'), start)
    .otherwise(summarize);
  check.next(ended);
  unknown.next(ended);
  start.next(ended);
  return start;
}
