/** The stack of labels: what is there always, and what the place of label files adds. */

import { readFileSync } from 'node:fs';
import { build } from 'esbuild';
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import {
  definitionOf,
  flattened,
  GROUND_TRUTH,
  policiesOf,
  resourcesOf,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

const PLACE = {
  GROUND_TRUTH_S3_PREFIX: 's3://labels/churn*/true',
  MISSING_LABELS_HOURS: '36',
  JUDGE_GUIDELINES: '{"no_legal_advice":"The reply gives no legal advice."}',
};
const template = templateOf(PLACE);
const usual = templateOf();

describe('without a place of label files', () => {
  it('there are no rule, no queue, no alarm and no starter of their own', () => {
    const added = Object.entries(resourcesOf(template)).filter(([id]) => !(id in resourcesOf(usual)));
    const types = Map.groupBy(added, ([, { Type }]) => Type);
    expect(Object.fromEntries([...types].map(([type, all]) => [type, all.length]))).toEqual({
      'AWS::CloudWatch::Alarm': 4,
      'AWS::Events::Rule': 1,
      'AWS::IAM::Policy': 1,
      'AWS::IAM::Role': 1,
      'AWS::Lambda::EventSourceMapping': 1,
      'AWS::Lambda::Function': 1,
      'AWS::Logs::LogGroup': 1,
      'AWS::SQS::Queue': 2,
      'AWS::SQS::QueuePolicy': 2,
      'Custom::CaptureNotifications': 1,
    });
  });

  it('and without days, the stack is the same', () => {
    const { Resources: none } = templateOf({ GROUND_TRUTH: '{"days":0}' }).toJSON() as { Resources: object };
    expect(Object.keys(none)).toEqual(Object.keys(resourcesOf(usual)));
  });
});

describe('the function', () => {
  it('is in the stack with its place, whether it is a bucket or a prefix', () => {
    const lines = policiesOf(templateOf({ GROUND_TRUTH_S3_PREFIX: 's3://labels' })).GroundTruthJoinLabelsRole;
    const ofAccount = { StringEquals: { 'aws:ResourceAccount': '123456789012' } };
    const at = lines?.findIndex(([actions]) => String(actions).includes('s3:GetObjectVersion')) ?? -1;
    expect(lines?.[at]).toEqual([['s3:GetObject', 's3:GetObjectVersion'], ['arn:aws:s3:::labels/*'], ofAccount]);
    expect(lines?.[at + 1]?.at(-1)).toMatchObject(ofAccount);
  });
});

test('the bundle of the function contains nothing of the judge, and none of the forms of captures', async () => {
  const { metafile } = await build({
    entryPoints: ['lambda/ground-truth/handler.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    packages: 'external',
  });
  const files = Object.keys(metafile.inputs);
  expect(files.filter((file) => /^src\/(?:judge|captures\/(?:wire|meaning|stream))\//.test(file))).toEqual([]);
});

describe('new label files', () => {
  it.each([
    ['labels', ['captures', 'labels']],
    ['captures', ['captures']],
  ])('in %s have the events of each bucket switched on once', (bucket, buckets) => {
    const of = templateOf({ GROUND_TRUTH_S3_PREFIX: `s3://${bucket}/true/` });
    const switched = Object.values(resourcesOfType(of, 'Custom::CaptureNotifications'));
    expect(switched.map(({ Properties }) => Properties.BucketName)).toEqual(buckets);
    // A later version looks at the bucket again.
    const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));
    expect(switched.map(({ Properties }) => Properties.Deployment)).toEqual(buckets.map(() => version));
    expect(policiesOf(of).CapturesNotificationsRole?.[0]?.[1]).toEqual(buckets.map((name) => `arn:aws:s3:::${name}`));
  });
});

describe('the state machine', () => {
  interface State {
    Type: string;
    Next?: string;
    Default?: string;
    SecondsPath?: string;
    Parameters?: object;
    TimeoutSeconds?: number;
    Choices?: { Variable: string; Next: string }[];
  }
  const { States } = definitionOf(template, GROUND_TRUTH) as unknown as { States: Record<string, State> };

  it('loops until done, honouring waitSeconds', () => {
    expect(States.JoinLabels).toMatchObject({
      Next: 'MoreToDo',
      Parameters: {
        'input.$': '$$.Execution.Input',
        'state.$': '$.state',
        run: { 'name.$': '$$.Execution.Name', 'startTime.$': '$$.Execution.StartTime' },
        contract: CONTRACT,
        scorers: expect.arrayContaining([
          { name: 'safety', values: { kind: 'yes-no' } },
          { name: 'no_legal_advice', values: { kind: 'yes-no' } },
          { name: 'pii_detected', values: { kind: 'boolean' } },
          { name: 'response_words' },
        ]),
      },
    });
    const next = States.MoreToDo?.Choices?.map(({ Variable, Next }) => `${Variable} ${Next}`);
    expect(next).toEqual(['$.waitSeconds WaitForCaptures', '$.more JoinLabels']);
    expect(States.MoreToDo?.Default).toBe('LabelsJoined');
    expect(States.WaitForCaptures).toMatchObject({ SecondsPath: '$.waitSeconds', Next: 'JoinLabels' });
  });

  it('has room for the notes of two days at the shortest timeout, within the 25,000 events of an execution', () => {
    // TaskStateEntered, LambdaFunctionScheduled, -Started, -Succeeded, TaskStateExited; and two of the choice.
    const EVENTS = 7;
    const loop = [States.JoinLabels?.Next, States.MoreToDo?.Choices?.[1]?.Next];
    expect(loop).toEqual(['MoreToDo', 'JoinLabels']);
    // Each invocation uses its time but for a minute: of 120 seconds, half.
    const hours = (25_000 / EVENTS) * (60 / 3600);
    expect(hours).toBeGreaterThan(48);
  });
});

describe('the alarms', () => {
  const alarms = Object.fromEntries(
    Object.values(resourcesOfType(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => [
      String(Properties.AlarmName).replace('sagemaker-monitoring-test-', ''),
      Properties,
    ]),
  );

  it('are raised when no label has come for the hours of the setting, a time that CloudWatch can look back', () => {
    expect(alarms.LabelsMissing).toMatchObject({
      MetricName: 'LabelsRead',
      Period: 3600,
      EvaluationPeriods: 36,
      Threshold: 1,
      ComparisonOperator: 'LessThanThreshold',
      TreatMissingData: 'breaching',
    });
    // The most that MISSING_LABELS_HOURS takes. CloudWatch: at most seven days.
    expect(3600 * 168).toBeLessThanOrEqual(604_800);
    const { GROUND_TRUTH_S3_PREFIX } = PLACE;
    const without = resourcesOfType(templateOf({ GROUND_TRUTH_S3_PREFIX }), 'AWS::CloudWatch::Alarm');
    expect(without).not.toHaveProperty('AlarmsLabelsMissing');
  });

  it('include the functions among those whose errors last', () => {
    const { Metrics } = flattened(alarms.FunctionErrors) as { Metrics: { MetricStat?: unknown }[] };
    expect(JSON.stringify(Metrics)).toContain('<GroundTruthJoinLabelsFunction>');
    expect(JSON.stringify(Metrics)).toContain('<GroundTruthStartRunsFunction>');
    // CloudWatch's limit, also with all that is optional.
    const { AlarmsFunctionErrors: most } = resourcesOfType(
      templateOf({
        ...PLACE,
        ARTHUR_HOST: 'https://arthur.example.com',
        ARTHUR_MODEL_ID: 'm',
        ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
      }),
      'AWS::CloudWatch::Alarm',
    );
    expect(most?.Properties.Metrics).toHaveLength(10);
  });
});
