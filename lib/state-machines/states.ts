/** The kinds of states that both state machines use. */
import { Duration } from 'aws-cdk-lib';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import * as sfn from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke, type LambdaInvokeProps } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import type { Construct } from 'constructs';
import type { PipelineFunction } from '../pipeline-function.ts';
import { NOT_READY_RETRY } from './retries.ts';

export interface Invocation extends Omit<LambdaInvokeProps, 'lambdaFunction'> {
  lambda: PipelineFunction;
  retries: readonly sfn.RetryProps[];
}

/** Invokes a function. The state's result is the function's; the errors to retry are listed by name, for all: NOT_READY_RETRY. */
export function invoke(scope: Construct, id: string, { lambda, retries, ...props }: Invocation): LambdaInvoke {
  const task = new LambdaInvoke(scope, id, {
    lambdaFunction: lambda.function,
    payloadResponseOnly: true,
    retryOnServiceExceptions: false,
    // Longer than the function's own timeout, so that the function's is reported.
    taskTimeout: sfn.Timeout.duration(lambda.timeout.plus(Duration.minutes(1))),
    ...props,
  });
  for (const retry of [NOT_READY_RETRY, ...retries]) task.addRetry(retry);
  return task;
}

/** Ends an execution: it succeeds or fails by the result of its summary. */
export function endBySummary(choice: sfn.Choice, kind: 'Run' | 'Replay'): sfn.Choice {
  const scope = choice.node.scope as Construct;
  const failed = { errorPath: '$.result.error', causePath: '$.result.cause' };
  return choice
    .when(
      sfn.Condition.booleanEquals('$.result.ok', true),
      new sfn.Succeed(scope, `${kind}Succeeded`, { outputPath: '$.result' }),
    )
    .otherwise(new sfn.Fail(scope, `${kind}Failed`, failed));
}

/** The Maps of the state machines, by the names of their states. */
export const MAPS = {
  monitoring: ['ForEachChunk', 'ForEachChunkOfPart', 'ForEachAnsweredChunk'],
  replay: ['ForEachShard'],
} as const;
type MapName = (typeof MAPS)[keyof typeof MAPS][number];

/**
 * Runs a child execution for each line of a manifest. A child that fails does not stop the others. It does not go unnoticed
 * either: the summary finds that its records are missing in the work bucket.
 *
 * @param results prefix of the children's results, with `{}` in place of the execution's name
 */
export const overManifest = (
  scope: Construct,
  id: MapName,
  {
    workBucket,
    manifestKey,
    results,
    ...props
  }: sfn.DistributedMapProps & { workBucket: IBucket; manifestKey: string; results: string },
): sfn.DistributedMap =>
  new sfn.DistributedMap(scope, id, {
    mapExecutionType: sfn.StateMachineType.STANDARD,
    // Replaces a generated id for each run, which would give the children of each run a new set of metrics.
    label: id,
    toleratedFailurePercentage: 100,
    itemReader: new sfn.S3JsonLItemReader({ bucket: workBucket, key: sfn.JsonPath.stringAt(manifestKey) }),
    resultWriterV2: new sfn.ResultWriterV2({
      bucket: workBucket,
      prefix: sfn.JsonPath.format(results, sfn.JsonPath.stringAt('$$.Execution.Name')),
    }),
    resultPath: sfn.JsonPath.DISCARD,
    ...props,
  });
