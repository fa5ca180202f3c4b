/** States that both state machines are made of. */
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  DistributedMap,
  type DistributedMapProps,
  JsonPath,
  ResultWriterV2,
  type RetryProps,
  S3JsonLItemReader,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke, type LambdaInvokeProps } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import type { Construct } from 'constructs';

/** Invokes a function: what it returns is the result, and what is tried again is said by name. */
export function invoke(
  scope: Construct,
  id: string,
  { retries, ...props }: LambdaInvokeProps & { retries: readonly RetryProps[] },
): LambdaInvoke {
  const task = new LambdaInvoke(scope, id, { payloadResponseOnly: true, retryOnServiceExceptions: false, ...props });
  for (const retry of retries) task.addRetry(retry);
  return task;
}

/**
 * A child execution for each line of a manifest. One that fails neither stops the others nor hides: the summary finds that
 * what it should have left in the work bucket is missing.
 *
 * @param props.results prefix of the children's results, with `{}` for the execution's name
 */
export const overManifest = (
  scope: Construct,
  id: string,
  {
    workBucket,
    manifestKey,
    results,
    ...props
  }: DistributedMapProps & { workBucket: IBucket; manifestKey: string; results: string },
): DistributedMap =>
  new DistributedMap(scope, id, {
    mapExecutionType: StateMachineType.STANDARD,
    toleratedFailurePercentage: 100,
    itemReader: new S3JsonLItemReader({ bucket: workBucket, key: JsonPath.stringAt(manifestKey) }),
    resultWriterV2: new ResultWriterV2({
      bucket: workBucket,
      prefix: JsonPath.format(results, JsonPath.stringAt('$$.Execution.Name')),
    }),
    resultPath: JsonPath.DISCARD,
    ...props,
  });
