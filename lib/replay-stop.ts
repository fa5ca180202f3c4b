/**
 * What ends a replay in order whose execution was stopped: Step Functions ends none of the Lambdas that send, and nothing
 * more of the execution runs. EventBridge tells of it, and a state machine of its own writes the order to stop, waits for
 * the shards that have begun, and summarises. It is also told of an order that somebody else has put, and stops the execution,
 * whose children may wait for hours; EventBridge tells of that in its turn.
 */
import { Duration } from 'aws-cdk-lib';
import { Match, Rule } from 'aws-cdk-lib/aws-events';
import { SfnStateMachine } from 'aws-cdk-lib/aws-events-targets';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import {
  Choice,
  Condition,
  Fail,
  type IChainable,
  type IStateMachine,
  JsonPath,
  type StateMachine,
  Succeed,
  TaskInput,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import { Construct } from 'constructs';
import { resourceNames } from '../lambda/contract.ts';
import { replayKeys } from '../lambda/replay-contract.ts';
import { DELIVERY, deadLetterQueue } from './event-delivery.ts';
import { pipelineStateMachine } from './pipeline-state-machine.ts';
import { STORE_RETRIES, withRetries } from './retries.ts';
import type { Settings } from './settings.ts';

/**
 * Between two questions whether all shards have ended. They see the order within 3 s, and write their files within 75:
 * a shard that died is waited for until its function's 15 minutes are over, which are 190 questions and 1,500 events of an
 * execution's 25,000.
 */
const ASK_AGAIN = Duration.seconds(5);

export interface ReplayStopProps {
  settings: Settings;
  workBucket: IBucket;
  /** That of the replays. */
  replay: IStateMachine;
  stopper: IFunction;
  summarizer: IFunction;
  publisher: IFunction;
}

export class ReplayStop extends Construct {
  readonly stateMachine: StateMachine;
  readonly rule: Rule;
  readonly orderRule: Rule;
  readonly deadLetters: Queue;

  constructor(scope: Construct, id: string, props: ReplayStopProps) {
    super(scope, id);
    const names = resourceNames(props.settings.STACK_PREFIX);
    this.stateMachine = pipelineStateMachine(this, {
      settings: props.settings,
      stateMachineName: names.replayStopStateMachine,
      logGroupName: names.replayStopStateMachineLogGroup,
      comment: 'Ends a replay in order whose execution was stopped',
      workBucket: props.workBucket,
      functions: [props.stopper, props.summarizer, props.publisher],
      definition: this.#definition(props),
    });
    this.deadLetters = deadLetterQueue(this);
    const target = new SfnStateMachine(this.stateMachine, { ...DELIVERY, deadLetterQueue: this.deadLetters });
    this.rule = new Rule(this, 'Rule', {
      ruleName: names.replayStopRule,
      description: 'The execution of a replay has been stopped, or has failed',
      eventPattern: {
        source: ['aws.states'],
        detailType: ['Step Functions Execution Status Change'],
        detail: {
          // Whole: children of its Map belong to a state machine whose ARN begins with it.
          stateMachineArn: [props.replay.stateMachineArn],
          status: ['ABORTED', 'TIMED_OUT', 'FAILED'],
        },
      },
      targets: [target],
    });
    this.orderRule = new Rule(this, 'OrderRule', {
      ruleName: names.replayOrderRule,
      description: 'The order to stop a replay has been put into the work bucket',
      eventPattern: {
        source: ['aws.s3'],
        detailType: ['Object Created'],
        detail: {
          bucket: { name: [props.workBucket.bucketName] },
          object: { key: Match.wildcard(replayKeys.stop('*')) },
        },
      },
      targets: [target],
    });
  }

  #definition({ stopper, summarizer, publisher }: ReplayStopProps): IChainable {
    const stop = withRetries(
      new LambdaInvoke(this, 'StopReplay', {
        lambdaFunction: stopper,
        comment: 'The order to stop, which the shards look for; and how many of them have not ended yet',
        payload: TaskInput.fromObject({ 'detail.$': '$.detail' }),
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: '$.stop',
      }),
      STORE_RETRIES,
    );
    const wait = new Wait(this, 'UntilShardsEnd', { time: WaitTime.duration(ASK_AGAIN) });
    const summarize = withRetries(
      new LambdaInvoke(this, 'SummarizeStopped', {
        lambdaFunction: summarizer,
        comment: 'What the shards measured until then to one result set, marked as cancelled',
        inputPath: '$.stop.summarize',
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: '$.result',
      }),
      STORE_RETRIES,
    );
    const publish = withRetries(
      new LambdaInvoke(this, 'PublishStopped', {
        lambdaFunction: publisher,
        comment: 'Figures and files to the run in MLflow, and its end',
        payload: TaskInput.fromObject({ 'run.$': '$.stop.summarize.run' }),
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: '$.result.mlflow',
      }),
      STORE_RETRIES,
    );
    const stopped = new Succeed(this, 'Stopped', { outputPath: '$.result' });
    const unfinished = new Fail(this, 'NotEnded', { errorPath: '$.unfinished.Error', causePath: '$.unfinished.Cause' });
    const end = withRetries(
      new LambdaInvoke(this, 'EndStoppedRun', {
        lambdaFunction: publisher,
        comment: 'The run in MLflow ends without its figures, and says why',
        payload: TaskInput.fromObject({ 'detail.$': '$.detail', 'unfinished.$': '$.unfinished' }),
        payloadResponseOnly: true,
        retryOnServiceExceptions: false,
        resultPath: JsonPath.DISCARD,
      }),
      STORE_RETRIES,
    );
    end.addCatch(unfinished, { resultPath: '$.unended' }).next(unfinished);
    for (const state of [stop, summarize, publish]) state.addCatch(end, { resultPath: '$.unfinished' });
    summarize.next(
      new Choice(this, 'PublicationWanted')
        .when(Condition.booleanEquals('$.result.publish', true), publish.next(stopped))
        .otherwise(stopped),
    );
    const next = new Choice(this, 'AllEnded', {
      comment: 'A replay without a plan, or with its results, has nothing to end',
    })
      .when(Condition.stringEquals('$.stop.next', 'wait'), wait.next(stop))
      .when(Condition.stringEquals('$.stop.next', 'summarize'), summarize)
      .otherwise(new Succeed(this, 'NothingToEnd'));
    return stop.next(next);
  }
}
