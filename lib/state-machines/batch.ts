/**
 * The states of batch inference: start the jobs of the whole run, wait for them, apply their answers chunk by chunk. In a
 * cascade, requests to the judge itself are made from the first answers and go the same way, before all is applied.
 */
import {
  Choice,
  Condition,
  type DistributedMap,
  type IChainable,
  JsonPath,
  Pass,
  Result,
  TaskInput,
  type TaskStateBase,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { BatchPhase, JudgeBatchRequest } from '../../src/contract/payloads.ts';
import { workKeys } from '../../src/contract/work-keys.ts';
import type { PipelineFunction } from '../pipeline-function.ts';
import { RUN } from './pipeline.ts';
import { JUDGE_RETRIES } from './retries.ts';
import { invoke } from './states.ts';

const APPLY = 'apply' satisfies BatchPhase;
const PREPARE = 'prepare' satisfies BatchPhase;

/**
 * The state that batch inference begins with, and ends with if the batcher cannot do anything. Then it is about the first part of the
 * plan, which is the only one of nearly all runs.
 */
export const BATCH_BEGINS = {
  round: 0,
  phase: APPLY,
  manifest: { key: JsonPath.format(workKeys.manifest('{}', 0), JsonPath.executionName) },
};

/**
 * @param answered the Map over all chunks after the jobs of a round have ended, which does `$.batch.phase`
 * @param summarize what follows
 */
export function batchStates(
  scope: Construct,
  batcher: PipelineFunction,
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
  // The captures are traced even if nobody knows what became of the jobs.
  const unknown = new Pass(scope, 'JobsUnknown', { result: Result.fromString(APPLY), resultPath: '$.batch.phase' });
  check.addCatch(unknown.next(answered), { resultPath: '$.error' });
  const ended = new Choice(scope, 'BatchEnded')
    .when(Condition.stringEquals('$.batch.outcome', 'ready'), answered)
    .when(Condition.stringEquals('$.batch.outcome', 'waiting'), wait.next(check))
    .when(Condition.stringEquals('$.batch.outcome', 'more'), start)
    .otherwise(summarize);
  check.next(ended);
  start.next(ended);
  return start;
}
