/** Permission to call the judge, for every kind of judge. Only the two evaluators and batch jobs have it. */
import { type Line, policiesOf, templateOf } from '../helpers/synth.ts';

const AT = 'arn:aws:bedrock:eu-west-1:123456789012';
const OTHER = 'arn:aws:bedrock:us-west-2:210987654321';
const SECRET = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:judge-AbCdEf';

const STARTING = 'bedrock:CreateModelInvocationJob';
/** The actions that judges need, without those of batch jobs. */
const JUDGE_ACTION = /^(bedrock:(InvokeModel|ApplyGuardrail)|sagemaker:|secretsmanager:)/;

/** The roles that may call the judge: the evaluators of runs and of replays, and Bedrock's role for batch jobs. */
const ASKING = ['EvaluateTracesRole', 'ReplayEvaluationRole', 'BatchServiceRole'];

function judgeLines(settings: Record<string, string>): Line[] {
  const policies = policiesOf(templateOf({ EVALUATION_BUDGET_USD: '0', ...settings }));
  const ofJudge = (role: string): Line[] =>
    (policies[role] ?? []).filter(([[action]]) => JUDGE_ACTION.test(action ?? ''));
  const others = Object.keys(policies).filter((role) => !ASKING.includes(role));
  expect(others.flatMap(ofJudge)).toEqual([]);
  const lines = ofJudge('EvaluateTracesRole');
  expect(ofJudge('ReplayEvaluationRole')).toEqual(lines);
  // A job may use the model and the guardrail, but no key and no judge outside Bedrock. Its calls have no profile condition.
  const ofBedrock = lines.filter(([[action]]) => action?.startsWith('bedrock:'));
  expect(policies.BatchServiceRole !== undefined).toBe(ofBedrock.length > 0);
  expect(ofJudge('BatchServiceRole')).toEqual(ofBedrock.map(([actions, resources]) => [actions, resources]));
  // When a job is started, IAM checks each of them and the job.
  const models = ofBedrock.filter(([[action]]) => action === 'bedrock:InvokeModel');
  expect((policies.JudgeBatchRole ?? []).filter(([[action]]) => action === STARTING)).toEqual([
    ...(ofBedrock.length > 0 ? [[[STARTING, 'bedrock:GetModelInvocationJob'], [`${AT}:model-invocation-job/*`]]] : []),
    ...models.map(([, resources]) => [[STARTING], resources]),
  ]);
  return lines;
}

const invoke = (resource: string): Line => [['bedrock:InvokeModel'], [resource]];
const through = (profile: string, resource: string): Line => [
  ['bedrock:InvokeModel'],
  [resource],
  { StringEquals: { 'bedrock:InferenceProfileArn': profile } },
];

it.each<[string, string, Line[]]>([
  [
    'a model in the region of the stack',
    'bedrock:/anthropic.claude-haiku-4-5-20251001-v1:0',
    [invoke('arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0')],
  ],
  [
    'a model with a dot in its version, which is not a profile',
    'zai.glm-4.7-flash',
    [invoke('arn:aws:bedrock:eu-west-1::foundation-model/zai.glm-4.7-flash')],
  ],
  [
    'a profile of a geography',
    'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
    [
      invoke(`${AT}:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0`),
      through(
        `${AT}:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0`,
        'arn:aws:bedrock:*::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0',
      ),
    ],
  ],
  [
    'a profile of a government geography',
    'us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0',
    [
      invoke(`${AT}:inference-profile/us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0`),
      through(
        `${AT}:inference-profile/us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0`,
        'arn:aws:bedrock:*::foundation-model/anthropic.claude-3-5-sonnet-20240620-v1:0',
      ),
    ],
  ],
  [
    'a global profile, whose model also has an ARN without a region',
    'global.anthropic.claude-sonnet-4-6',
    [
      invoke(`${AT}:inference-profile/global.anthropic.claude-sonnet-4-6`),
      through(
        `${AT}:inference-profile/global.anthropic.claude-sonnet-4-6`,
        'arn:aws:bedrock:*::foundation-model/anthropic.claude-sonnet-4-6',
      ),
      through(
        `${AT}:inference-profile/global.anthropic.claude-sonnet-4-6`,
        'arn:aws:bedrock:::foundation-model/anthropic.claude-sonnet-4-6',
      ),
    ],
  ],
  [
    'a profile by its ARN',
    `${OTHER}:inference-profile/us.amazon.nova-lite-v1:0`,
    [
      invoke(`${OTHER}:inference-profile/us.amazon.nova-lite-v1:0`),
      through(
        `${OTHER}:inference-profile/us.amazon.nova-lite-v1:0`,
        'arn:aws:bedrock:*::foundation-model/amazon.nova-lite-v1:0',
      ),
    ],
  ],
  [
    'an application profile, which reveals neither its model nor the profile behind it',
    `${OTHER}:application-inference-profile/a1b2c3d4e5f6`,
    [
      invoke(`${OTHER}:application-inference-profile/a1b2c3d4e5f6`),
      through(`${OTHER}:application-inference-profile/a1b2c3d4e5f6`, 'arn:aws:bedrock:*::foundation-model/*'),
      through(`${OTHER}:application-inference-profile/a1b2c3d4e5f6`, 'arn:aws:bedrock:::foundation-model/*'),
      through(
        `${OTHER}:application-inference-profile/a1b2c3d4e5f6`,
        'arn:aws:bedrock:us-west-2:210987654321:inference-profile/*',
      ),
    ],
  ],
  [
    'a foundation model by its ARN',
    'arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0',
    [invoke('arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0')],
  ],
  ['a provisioned model', `${AT}:provisioned-model/abc123`, [invoke(`${AT}:provisioned-model/abc123`)]],
  ['an imported model', `${AT}:imported-model/abc123`, [invoke(`${AT}:imported-model/abc123`)]],
  [
    'an endpoint, in lower case as IAM spells it',
    'sagemaker:/My-Judge',
    [[['sagemaker:InvokeEndpoint'], ['arn:aws:sagemaker:eu-west-1:123456789012:endpoint/my-judge']]],
  ],
  [
    'an inference component of an endpoint, in both spellings',
    'sagemaker:/My-Judge/Llama-8b',
    [
      [
        ['sagemaker:InvokeEndpoint'],
        ['endpoint/my-judge', 'inference-component/Llama-8b', 'inference-component/llama-8b'].map(
          (name) => `arn:aws:sagemaker:eu-west-1:123456789012:${name}`,
        ),
      ],
    ],
  ],
])('covers %s', (_, model, lines) => {
  expect(judgeLines({ BEDROCK_MODEL_ID: model })).toEqual(lines);
});

describe('checking a model', () => {
  /** The permissions of the planners of runs and of replays, which must be equal. */
  const lookUp = (model: string): Line[] => {
    const policies = policiesOf(
      templateOf({
        EVALUATION_BUDGET_USD: '0',
        BEDROCK_MODEL_ID: model,
        ...(model.startsWith('openai:') ? { JUDGE_SECRET_ARN: SECRET } : {}),
      }),
    );
    const [ofRuns = [], ofReplays] = ['PlanCapturesRole', 'ReplayPlanRole'].map((role) =>
      (policies[role] ?? []).filter(([[action]]) => action?.startsWith('bedrock:')),
    );
    expect(ofReplays).toEqual(ofRuns);
    return ofRuns;
  };
  const model = (resource: string): Line => [['bedrock:GetFoundationModel'], [resource]];
  const profile = (resource: string): Line => [['bedrock:GetInferenceProfile'], [resource]];

  it.each<[string, Line[]]>([
    ['amazon.nova-lite-v1:0', [model('arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0')]],
    [
      'eu.amazon.nova-lite-v1:0',
      [
        profile(`${AT}:inference-profile/eu.amazon.nova-lite-v1:0`),
        model('arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0'),
      ],
    ],
    [
      `${AT}:application-inference-profile/a1b2c3d4e5f6`,
      [
        profile(`${AT}:application-inference-profile/a1b2c3d4e5f6`),
        model('arn:aws:bedrock:eu-west-1::foundation-model/*'),
      ],
    ],
    [
      'arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0',
      [model('arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0')],
    ],
    [`${AT}:provisioned-model/abc123`, []],
    ['sagemaker:/my-judge', []],
    ['openai:/gpt-5-mini', []],
  ])('covers %s', (id, lines) => {
    expect(lookUp(id)).toEqual(lines);
  });
});

it('grants both models of a cascade to the evaluator of runs, and the first to batch jobs', () => {
  const first = 'arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0';
  const main = 'arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-pro-v1:0';
  const policies = policiesOf(
    templateOf({ BEDROCK_MODEL_ID: 'amazon.nova-pro-v1:0', JUDGE_CASCADE: 'bedrock:/amazon.nova-lite-v1:0' }),
  );
  const allowed = (role: string, name: string): string[] =>
    (policies[role] ?? []).filter(([[action]]) => action === name).flatMap(([, resources]) => resources as string[]);
  expect(allowed('EvaluateTracesRole', 'bedrock:InvokeModel')).toEqual([main, first]);
  expect(allowed('BatchServiceRole', 'bedrock:InvokeModel')).toEqual([first]);
  expect(allowed('JudgeBatchRole', STARTING)).toContain(first);
  expect(allowed('JudgeBatchRole', STARTING)).not.toContain(main);
  expect(allowed('PlanCapturesRole', 'bedrock:GetFoundationModel')).toEqual([main, first]);
  // The judge of replays compares two replies: nothing passes or fails.
  expect(allowed('ReplayEvaluationRole', 'bedrock:InvokeModel')).toEqual([main]);
});

it('grants the key of a judge outside AWS, and nothing on Bedrock', () => {
  expect(judgeLines({ BEDROCK_MODEL_ID: 'openai:/gpt-5-mini', JUDGE_SECRET_ARN: SECRET })).toEqual([
    [['secretsmanager:GetSecretValue'], [SECRET]],
  ]);
  expect(judgeLines({ BEDROCK_MODEL_ID: 'openai:/gpt-5-mini', JUDGE_BASE_URL: 'http://vllm:8000/v1' })).toEqual([]);
});

it('grants a guardrail of this account', () => {
  const lines = judgeLines({
    BEDROCK_MODEL_ID: 'amazon.nova-lite-v1:0',
    BEDROCK_GUARDRAIL_ID: 'gr1234',
    BEDROCK_GUARDRAIL_VERSION: '2',
  });
  expect(lines).toEqual([
    invoke('arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0'),
    [['bedrock:ApplyGuardrail'], [`${AT}:guardrail/gr1234`]],
  ]);
});
