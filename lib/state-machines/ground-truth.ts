/**
 * The state machine of labels: one function, which is invoked until it has done all steps.
 *
 * An execution may have 25,000 events. Each invocation takes seven, and an invocation does what its time allows: 3,500 of 15
 * minutes are five weeks, or at the shortest timeout two days. That is 4 million labels at the speed of a managed MLflow.
 */
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  Choice,
  Condition,
  Pass,
  Result,
  type StateMachine,
  Succeed,
  TaskInput,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { TRUTH_BEGINS } from '../../src/core/contract/ground-truth.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { labelScorers } from '../../src/judge/scorers/label-scorers.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { PipelineFunction } from '../pipeline-function.ts';
import { pipelineStateMachine, RUN } from './pipeline.ts';
import { STORE_RETRIES } from './retries.ts';
import { invoke } from './states.ts';

export function groundTruthStateMachine(
  scope: Construct,
  joiner: PipelineFunction,
  workBucket: IBucket,
  settings: Settings,
): StateMachine {
  const join = invoke(scope, 'JoinLabels', {
    lambda: joiner,
    comment: 'Reads label files, joins them to predictions, measures quality and writes the labels to MLflow',
    payload: TaskInput.fromObject({
      contract: CONTRACT,
      'input.$': '$$.Execution.Input',
      run: RUN,
      // From here, so that the function does not contain the judge.
      scorers: labelScorers(scorersFor({ guidelines: settings.JUDGE_GUIDELINES })),
      'state.$': '$.state',
    }),
    retries: STORE_RETRIES,
  });
  const wait = new Wait(scope, 'WaitForCaptures', { time: WaitTime.secondsPath('$.waitSeconds') });
  const next = new Choice(scope, 'MoreToDo')
    .when(Condition.numberGreaterThan('$.waitSeconds', 0), wait.next(join))
    .when(Condition.booleanEquals('$.more', true), join)
    .otherwise(new Succeed(scope, 'LabelsJoined'));
  const start = new Pass(scope, 'Start', {
    comment: 'JoinLabels reads the input from the execution itself',
    result: Result.fromObject({ state: TRUTH_BEGINS }),
  });
  return pipelineStateMachine(scope, {
    settings,
    name: 'truthStateMachine',
    comment: 'Joins true answers to predictions',
    workBucket,
    functions: [joiner],
    manifests: [],
    mapResults: [],
    definition: start.next(join.next(next)),
  });
}
