/** The states of batch inference: start the jobs of the whole run, wait for them, apply their answers chunk by chunk. */
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import type { MonitoringFunctions } from '../monitoring-functions.ts';
import { RUN } from './pipeline.ts';
import { BATCH_RETRIES } from './retries.ts';
import { invoke } from './states.ts';

/**
 * @param answered the Map over all chunks after the jobs have ended
 * @param summarize the next state
 */
export function batchStates(
  scope: Construct,
  { batcher }: Pick<MonitoringFunctions, 'batcher'>,
  answered: sfn.DistributedMap,
  summarize: sfn.TaskStateBase,
): sfn.TaskStateBase {
  const check = invoke(scope, 'CheckBatch', {
    lambda: batcher,
    comment: 'Starts the jobs that have a place now, and checks whether all have ended',
    payload: sfn.TaskInput.fromObject({ run: RUN }),
    resultPath: '$.batch',
    retries: BATCH_RETRIES,
  });
  const wait = new sfn.Wait(scope, 'WaitForBatch', { time: sfn.WaitTime.secondsPath('$.batch.pollSeconds') });
  answered.addCatch(summarize, { resultPath: '$.error' }).next(summarize);
  const key = sfn.JsonPath.format(workKeys.batchManifest('{}'), sfn.JsonPath.stringAt('$$.Execution.Name'));
  const unknown = new sfn.Pass(scope, 'JobsUnknown', {
    comment: 'The captures are traced even if the state of the jobs is unknown',
    parameters: { manifest: { key } },
    resultPath: '$.batch',
  });
  check.addCatch(unknown, { resultPath: '$.error' });
  const ended = new sfn.Choice(scope, 'BatchEnded')
    .when(sfn.Condition.stringEquals('$.batch.outcome', 'ready'), answered)
    .when(sfn.Condition.stringEquals('$.batch.outcome', 'waiting'), wait.next(check))
    .otherwise(summarize);
  check.next(ended);
  unknown.next(answered);
  return check;
}
