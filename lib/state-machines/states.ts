/** The kinds of states that both state machines use. */
import { Token } from 'aws-cdk-lib';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  CustomState,
  DistributedMap,
  type DistributedMapProps,
  JsonPath,
  ResultWriterV2,
  type RetryProps,
  S3JsonLItemReader,
  type State,
  StateMachineType,
} from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke, type LambdaInvokeProps } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import type { Construct } from 'constructs';
import type { PipelineFunction } from '../pipeline-function.ts';
import { NOT_READY_RETRY } from './retries.ts';

/** Invokes a function. The state's result is the function's; the errors to retry are listed by name, for all: NOT_READY_RETRY. */
export function invoke(
  scope: Construct,
  id: string,
  {
    lambda,
    retries,
    ...props
  }: Omit<LambdaInvokeProps, 'lambdaFunction'> & { lambda: PipelineFunction; retries: readonly RetryProps[] },
): LambdaInvoke {
  const lambdaFunction = lambda.function;
  const task = new LambdaInvoke(scope, id, {
    lambdaFunction,
    payloadResponseOnly: true,
    retryOnServiceExceptions: false,
    ...props,
  });
  for (const retry of [NOT_READY_RETRY, ...retries]) task.addRetry(retry);
  return task;
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
 * @param props.results prefix of the children's results, with `{}` in place of the execution's name
 */
export const overManifest = (
  scope: Construct,
  id: MapName,
  {
    workBucket,
    manifestKey,
    results,
    ...props
  }: DistributedMapProps & { workBucket: IBucket; manifestKey: string; results: string },
): DistributedMap =>
  new DistributedMap(scope, id, {
    mapExecutionType: StateMachineType.STANDARD,
    // In place of a generated id for each run, which would give the children of each run a new set of metrics.
    label: id,
    toleratedFailurePercentage: 100,
    itemReader: new S3JsonLItemReader({ bucket: workBucket, key: JsonPath.stringAt(manifestKey) }),
    resultWriterV2: new ResultWriterV2({
      bucket: workBucket,
      prefix: JsonPath.format(results, JsonPath.stringAt('$$.Execution.Name')),
    }),
    resultPath: JsonPath.DISCARD,
    ...props,
  });

/** The fields in which a state names another. */
const REFERENCES = new Set(['StartAt', 'Next', 'Default']);

/** Returns states with another ending of all their names, since a name is used once in a state machine. */
function renamed(value: unknown, ending: string, key = ''): unknown {
  if (typeof value === 'string') return REFERENCES.has(key) ? `${value}${ending}` : value;
  if (Array.isArray(value)) return value.map((each) => renamed(each, ending));
  if (typeof value !== 'object' || value === null || Token.isUnresolved(value)) return value;
  const entries = Object.entries(value).map(([name, each]) => [
    key === 'States' ? `${name}${ending}` : name,
    renamed(each, ending, name),
  ]);
  return Object.fromEntries(entries);
}

/**
 * Runs the Map of a part and, at the same time, the task that plans the next part. Continues with the result of the task when both
 * have ended. If the Map fails, so does this state. If the task fails, the Map continues, and `$.error` of the output is the failure.
 */
export function meanwhile(scope: Construct, id: string, map: DistributedMap, task: LambdaInvoke): CustomState {
  const ending = 'OfPart';
  const failed = `${task.id}Failed`;
  const branch = (state: State, own: object, others: object = {}): unknown => {
    const { Next: _next, Catch: _catch, ...json } = state.toStateJson() as Record<string, unknown>;
    return renamed({ StartAt: state.id, States: { [state.id]: { ...json, ...own }, ...others } }, ending);
  };
  const caught = { Catch: [{ ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: failed }], End: true };
  return new CustomState(scope, id, {
    stateJson: {
      Type: 'Parallel',
      Comment: 'Runs the chunks of a part while the next part is planned',
      Branches: [
        branch(map, { Label: `${map.id}${ending}`, End: true }),
        branch(task, caught, { [failed]: { Type: 'Pass', End: true } }),
      ],
      OutputPath: '$[1]',
    },
  });
}
