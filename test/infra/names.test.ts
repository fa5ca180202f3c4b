/** The names of deployed resources. Stacks with different prefixes do not collide. */
import { resourceNames } from '../../src/core/contract/names.ts';
import { flattened, resourcesOf, resourcesOfType, templateOf, testApp, testStack } from '../helpers/synth.ts';

const LONGEST = 'a'.repeat(30);

/** The property with the name of a resource type, and AWS's limit of characters. */
const NAMED: Record<string, [property: string, limit: number]> = {
  'AWS::IAM::Role': ['RoleName', 64],
  'AWS::Lambda::Function': ['FunctionName', 64],
  'AWS::StepFunctions::StateMachine': ['StateMachineName', 80],
  'AWS::Events::Rule': ['Name', 64],
  'AWS::Logs::LogGroup': ['LogGroupName', 512],
  'AWS::CloudWatch::Alarm': ['AlarmName', 255],
  'AWS::CloudWatch::Dashboard': ['DashboardName', 255],
  'AWS::S3::Bucket': ['BucketName', 63],
  'AWS::SQS::Queue': ['QueueName', 80],
  'AWS::SNS::Topic': ['TopicName', 256],
  'AWS::DynamoDB::GlobalTable': ['TableName', 255],
  'AWS::Athena::WorkGroup': ['Name', 128],
};

function namesOf(settings: Record<string, string>): { type: string; name: string; limit: number }[] {
  return Object.values(resourcesOf(templateOf(settings))).flatMap(({ Type, Properties }) => {
    const [property = '', limit = 0] = NAMED[Type] ?? [];
    const name = Properties?.[property];
    return typeof name === 'string' ? [{ type: Type, name, limit }] : [];
  });
}

it('gives functions, log groups and the dashboard their documented names', () => {
  const names = namesOf({ STACK_PREFIX: 'prod' }).map(({ name }) => name);
  const documented = ['sagemaker-data-capture-processor-prod', 'sagemaker-data-capture-evaluator-prod'];
  const others = ['/aws/vendedlogs/states/sagemaker-monitoring-prod', 'SageMakerMonitoring-prod'];
  expect(names).toEqual(expect.arrayContaining([...documented, ...others]));
});

it('stays within all limits with the longest prefix', () => {
  const names = namesOf({ STACK_PREFIX: LONGEST });
  expect(names.length).toBeGreaterThan(20);
  for (const { name, limit } of names) {
    expect(name).toContain(LONGEST);
    expect(`${name}: ${name.length <= limit}`).toBe(`${name}: true`);
  }
  expect(resourceNames(LONGEST).stack.length).toBeLessThanOrEqual(128);
});

it('shares no name and no export between two prefixes', () => {
  const [one, two] = ['one', 'two'].map((prefix) => {
    const exports = Object.values(
      templateOf({ STACK_PREFIX: prefix }).toJSON().Outputs as Record<string, { Export: { Name: string } }>,
    ).map(({ Export }) => Export.Name);
    return [...namesOf({ STACK_PREFIX: prefix }).map(({ name }) => name), ...exports];
  });
  expect(one?.filter((name) => two?.includes(name))).toEqual([]);
  expect(one?.length).toBe(two?.length);
});

it('allows two stacks in one app', () => {
  const app = testApp();
  for (const STACK_PREFIX of ['one', 'two']) testStack({ STACK_PREFIX }, app);
  expect(app.synth().stacks.map(({ stackName }) => stackName)).toEqual([
    'SageMakerInferenceMonitoringStack-one',
    'SageMakerInferenceMonitoringStack-two',
  ]);
});

it('writes its outputs as parameters below the prefix, one after the other', () => {
  const parameters = Object.values(resourcesOfType(templateOf(), 'AWS::SSM::Parameter'));
  const values = parameters.map(({ Properties }) => [Properties.Name, flattened(Properties.Value)]);
  const path = '/sagemaker-inference-monitor/test';
  expect(Object.fromEntries(values)).toEqual({
    [`${path}/state-machine-arn`]: '<MonitoringStateMachine>',
    [`${path}/replay-state-machine-arn`]: '<ReplayMachineStateMachine>',
    [`${path}/ground-truth-state-machine-arn`]: '<GroundTruthMachineStateMachine>',
    [`${path}/processor-arn`]: '<LogTracesFunction.Arn>',
    [`${path}/capture-bucket`]: 'captures',
    [`${path}/capture-prefix`]: 'my-endpoint/',
    [`${path}/work-bucket`]: '<WorkBucket>',
    [`${path}/endpoint`]: 'my-endpoint',
    [`${path}/mlflow-uri`]: 'http://mlflow.internal:5000',
    [`${path}/experiment`]: 'my-endpoint',
    [`${path}/alarm-topic-arn`]: '<AlarmsTopic>',
    [`${path}/sql-database`]: '<SqlDatabase>',
    [`${path}/sql-work-group`]: '<SqlWorkGroup>',
  });
  expect(parameters.filter(({ DependsOn = [] }) => DependsOn.length === 1)).toHaveLength(values.length - 1);
});

it('exports the outputs with the prefix', () => {
  const outputs = templateOf().toJSON().Outputs as Record<string, { Value: unknown; Export: { Name: string } }>;
  const flat = Object.entries(outputs).map(([name, { Value, Export }]) => [name, [flattened(Value), Export.Name]]);
  expect(Object.fromEntries(flat)).toEqual({
    ProcessorLambdaArn: ['<LogTracesFunction.Arn>', 'ProcessorLambdaArn-test'],
    StateMachineArn: ['<MonitoringStateMachine>', 'StateMachineArn-test'],
    ReplayStateMachineArn: ['<ReplayMachineStateMachine>', 'ReplayStateMachineArn-test'],
    GroundTruthStateMachineArn: ['<GroundTruthMachineStateMachine>', 'GroundTruthStateMachineArn-test'],
    DataCaptureBucketName: ['captures', 'DataCaptureBucketName-test'],
    WorkBucketName: ['<WorkBucket>', 'WorkBucketName-test'],
  });
});
