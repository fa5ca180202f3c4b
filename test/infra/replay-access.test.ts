/** The permissions of a replay's roles, statement by statement, in particular the endpoints that it may invoke. */
import { type Line, policiesOf, templateOf } from '../helpers/synth.ts';

const policies = policiesOf(templateOf());

const logsTo = (logGroup: string): Line => [['logs:CreateLogStream', 'logs:PutLogEvents'], [`<${logGroup}.Arn>`]];
const IN_ACCOUNT = { StringEquals: { 'aws:ResourceAccount': '123456789012' } };
const MARKS = ['<WorkBucket.Arn>/replay-marks/*', '<WorkBucket.Arn>/first-replay-mark.json'];
const captures: Line[] = [
  [['s3:GetObject', 's3:GetObjectVersion'], ['arn:aws:s3:::captures/my-endpoint/*'], IN_ACCOUNT],
  [['s3:ListBucket'], ['arn:aws:s3:::captures'], { ...IN_ACCOUNT, StringLike: { 's3:prefix': ['my-endpoint/*'] } }],
];
const work = (...keys: string[]): string[] => keys.map((key) => `<WorkBucket.Arn>/replays/*/${key}`);
const PROFILE = 'arn:aws:bedrock:eu-west-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-6';
const throughProfile = { StringEquals: { 'bedrock:InferenceProfileArn': PROFILE } };
const MODEL = 'foundation-model/anthropic.claude-sonnet-4-6';
const STATES = 'arn:aws:states:eu-west-1:123456789012';
const MACHINE = 'sagemaker-data-capture-replay-test';

it.each<[string, Line[]]>([
  [
    'ReplayPlanRole',
    [
      logsTo('ReplayPlanLogs'),
      ...captures,
      [['s3:GetObject'], [...work('stop.json'), ...MARKS]],
      [['s3:PutObject'], [...work('plan.json'), ...MARKS, ...work('manifest.jsonl', 'schedule/*')]],
      [['s3:AbortMultipartUpload'], work('manifest.jsonl', 'schedule/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['bedrock:GetInferenceProfile'], [PROFILE]],
      [['bedrock:GetFoundationModel'], [`arn:aws:bedrock:eu-west-1::${MODEL}`]],
    ],
  ],
  [
    'ReplayShardRole',
    [
      logsTo('ReplayShardLogs'),
      ...captures,
      [['s3:GetObject'], work('plan.json', 'schedule/*', 'stop.json')],
      [['s3:PutObject'], work('claims/*', 'shards/*')],
      [['s3:AbortMultipartUpload'], work('shards/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
    ],
  ],
  [
    // It reads no captures and sends nothing; it works on the files of the shards.
    'ReplayEvaluationRole',
    [
      logsTo('ReplayEvaluationLogs'),
      [['s3:GetObject'], work('plan.json', 'shards/*', 'evaluations/*', 'stop.json')],
      [['s3:PutObject'], work('evaluations/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
      [['bedrock:InvokeModel'], [PROFILE]],
      [['bedrock:InvokeModel'], [`arn:aws:bedrock:*::${MODEL}`], throughProfile],
      [['bedrock:InvokeModel'], [`arn:aws:bedrock:::${MODEL}`], throughProfile],
      [['dynamodb:GetItem', 'dynamodb:UpdateItem'], ['<BudgetTable.Arn>']],
    ],
  ],
  [
    'ReplaySummaryRole',
    [
      logsTo('ReplaySummaryLogs'),
      [['s3:GetObject'], work('plan.json', 'schedule/*', 'claims/*', 'shards/*', 'evaluations/*', 'stop.json')],
      [['s3:PutObject'], work('publication.json', 'results/*')],
      [['s3:AbortMultipartUpload'], work('results/*')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
    ],
  ],
  [
    'ReplayPublicationRole',
    [
      logsTo('ReplayPublicationLogs'),
      [['s3:GetObject'], work('plan.json', 'publication.json', 'results/*', 'stop.json')],
      [['s3:ListBucket'], ['<WorkBucket.Arn>']],
    ],
  ],
  [
    'ReplayMachineRole',
    [
      [
        ['lambda:InvokeFunction'],
        [
          '<ReplayPlanFunction.Arn>',
          '<ReplayShardFunction.Arn>',
          '<ReplayEvaluationFunction.Arn>',
          '<ReplaySummaryFunction.Arn>',
          '<ReplayPublicationFunction.Arn>',
        ],
      ],
      [['s3:GetObject'], work('manifest.jsonl')],
      [
        ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'],
        work('map/*', 'evaluation-map/*'),
      ],
      [['states:StartExecution'], [`${STATES}:stateMachine:${MACHINE}`]],
      [
        ['states:DescribeExecution', 'states:StopExecution'],
        [`${STATES}:execution:${MACHINE}:*`, `${STATES}:execution:${MACHINE}/*:*`],
      ],
      [['states:RedriveExecution'], [`${STATES}:execution:${MACHINE}/*:*`]],
      [expect.arrayContaining(['logs:CreateLogDelivery']), ['*']],
    ],
  ],
])('%s has exactly these permissions', (role, lines) => {
  expect(policies[role]).toEqual(lines);
});

/** All statements with an action that begins like this, by role. */
const linesWith = (all: Record<string, Line[]>, prefix: string): [string, Line][] =>
  Object.entries(all).flatMap(([role, lines]) =>
    lines
      .filter(([actions]) => actions.some((action) => action.startsWith(prefix)))
      .map((line): [string, Line] => [role, line]),
  );

describe('endpoints', () => {
  const INVOKE = ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'];
  const arn = (name: string) => `arn:aws:sagemaker:eu-west-1:123456789012:${name}`;

  it('cannot be invoked by any role if none is named', () => {
    expect(linesWith(policies, 'sagemaker:')).toEqual([]);
  });

  it('can be invoked, also with streaming, only by the function that sends', () => {
    const named = policiesOf(templateOf({ REPLAY_ENDPOINT_NAMES: 'my-endpoint-v2, Small-One' }));
    expect(linesWith(named, 'sagemaker:')).toEqual([
      ['ReplayShardRole', [INVOKE, [arn('endpoint/my-endpoint-v2'), arn('endpoint/small-one')]]],
    ]);
  });

  it('are separate resources from inference components', () => {
    const settings = { REPLAY_ENDPOINT_NAMES: 'multi', REPLAY_INFERENCE_COMPONENT_NAMES: 'llama,Mistral' };
    const components = ['llama', 'Mistral', 'mistral'].map((name) => arn(`inference-component/${name}`));
    expect(linesWith(policiesOf(templateOf(settings)), 'sagemaker:')).toEqual([
      ['ReplayShardRole', [INVOKE, [arn('endpoint/multi')]]],
      ['ReplayShardRole', [INVOKE, components]],
    ]);
  });
});

describe('the secret with the headers', () => {
  const secret = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:replay-AbCdEf';

  it('is readable only for the function that sends', () => {
    const named = policiesOf(templateOf({ REPLAY_HEADERS_SECRET_ARN: secret }));
    expect(linesWith(named, 'secretsmanager:')).toEqual([
      ['ReplayShardRole', [['secretsmanager:GetSecretValue'], [secret]]],
    ]);
  });

  it.each([
    ['MLflow’s', { MLFLOW_SECRET_ARN: secret }, ['ReplayPlanRole', 'ReplayEvaluationRole', 'ReplayPublicationRole']],
    ['the judge’s', { JUDGE_SECRET_ARN: secret }, ['ReplayEvaluationRole']],
  ])('of %s is not readable for the function that sends', (_, settings, readers) => {
    const others = linesWith(policiesOf(templateOf(settings)), 'secretsmanager:');
    expect(others.filter(([role]) => role.startsWith('Replay'))).toEqual(
      readers.map((role) => [role, [['secretsmanager:GetSecretValue'], [secret]]]),
    );
  });
});
