/**
 * The permissions of each role, the state machines, and what delivers, keeps and watches, as they are recorded in JSON files here,
 * so that a change is seen in a review. Whether permissions are right say calls.test.ts and nag.test.ts. To record a change, run
 * `UPDATE_TEMPLATE=1 npx jest test/infra/recorded --selectProjects infra && npm run format`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Template } from 'aws-cdk-lib/assertions';
import {
  ARTHUR,
  definitionOf,
  denialsOf,
  flattened,
  GROUND_TRUTH,
  type Line,
  MONITORING,
  policiesOf,
  REGION,
  REPLAY,
  resourcesOf,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

const base = templateOf();

/** Holds a value against its file, or records it. */
function expectRecorded(file: string, value: unknown): void {
  const path = `${__dirname}/${file}.json`;
  if (process.env.UPDATE_TEMPLATE) writeFileSync(path, JSON.stringify(value, null, 2));
  expect(value).toEqual(JSON.parse(readFileSync(path, 'utf8')));
}

const AT = 'arn:aws:bedrock:eu-west-1:123456789012';
const OTHER = 'arn:aws:bedrock:us-west-2:210987654321';
const SECRET = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:judge-AbCdEf';
const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/1234abcd';
/** Every kind of judge. */
const JUDGES = [
  'bedrock:/anthropic.claude-haiku-4-5-20251001-v1:0',
  // A dot in its version does not make it a profile.
  'zai.glm-4.7-flash',
  'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
  'us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0',
  // Its model also has an ARN without a region.
  'global.anthropic.claude-sonnet-5-5',
  `${OTHER}:inference-profile/us.amazon.nova-lite-v1:0`,
  // It reveals neither its model nor the profile behind it.
  `${OTHER}:application-inference-profile/a1b2c3d4e5f6`,
  `${AT}:application-inference-profile/a1b2c3d4e5f6`,
  'arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0',
  `${AT}:provisioned-model/abc123`,
  `${AT}:imported-model/abc123`,
  // IAM spells endpoints in lower case, and components in both.
  'sagemaker:/My-Judge',
  'sagemaker:/My-Judge/Llama-8b',
];

const variants: Record<string, Record<string, string>> = {
  ...Object.fromEntries(JUDGES.map((id) => [id, { BEDROCK_MODEL_ID: id, EVALUATION_BUDGET_USD: '0' }])),
  'a guardrail': { MLFLOW_EVALUATION_MODEL_PARAM: '{"guardrail":"gr1234:1"}' },
  'a judge behind a URL without a key': {
    BEDROCK_MODEL_ID: 'openai:/m',
    JUDGE_BASE_URL: 'http://v/v1',
    EVALUATION_BUDGET_USD: '0',
  },
  'a judge with a key': { BEDROCK_MODEL_ID: 'openai:/m', JUDGE_SECRET_ARN: SECRET, EVALUATION_BUDGET_USD: '0' },
  'a cascade': { BEDROCK_MODEL_ID: 'amazon.nova-pro-v1:0', JUDGE_CASCADE: 'bedrock:/amazon.nova-lite-v1:0' },
  'MLflow’s secret, artifacts of another account': {
    MLFLOW_SECRET_ARN: SECRET,
    MLFLOW_ARTIFACT_BUCKET: '210987654321@artifacts/team*',
  },
  'functions of scorers, of a version and of an alias': {
    SCORER_FUNCTIONS: JSON.stringify({
      fixed: { arn: 'arn:aws:lambda:eu-west-1:123456789012:function:scores:7', values: 'number' },
      moved: { arn: 'arn:aws:lambda:eu-west-1:210987654321:function:others:live', values: 'boolean' },
    }),
  },
  'an MLflow without a secret': { MLFLOW_TRACKING_URI: 'https://mlflow.example.com' },
  // In IAM, ${*}, ${?} and ${$} are the characters themselves.
  'a prefix with special characters, and a key': {
    DATA_CAPTURE_KMS_KEY_ARN: KEY,
    DATA_CAPTURE_S3_PREFIX: `odd*name?/${'$'}{aws:userid}`,
    ...{ ...ARTHUR, ARTHUR_SECRET_ARN: SECRET },
    ARTHUR_S3_PREFIX: 'for/arthur*',
  },
  'a receiver of OpenTelemetry': { OTLP_ENDPOINT: 'https://otel.example.com', OTLP_SECRET_ARN: SECRET },
  'label files': { GROUND_TRUTH_S3_PREFIX: 's3://labels/churn*/true' },
  'endpoints to replay to': { REPLAY_ENDPOINT_NAMES: 'my-endpoint-v2, Small-One' },
};

const textOf = ([actions, resources, condition]: Line): string =>
  `${actions.join(', ')} on ${resources.join(', ')}${condition === undefined ? '' : ` if ${JSON.stringify(condition)}`}`;

/** Every permission as a text, with its role. */
const permissionsOf = (template: Template): string[] =>
  Object.entries(policiesOf(template)).flatMap(([role, lines]) => lines.map((line) => `${role}: ${textOf(line)}`));

it('has the recorded permissions with the required settings', () => {
  const roles = resourcesOfType(base, 'AWS::IAM::Role');
  const ofRole = ({ AssumeRolePolicyDocument, RoleName, ManagedPolicyArns, Policies }: Record<string, unknown>) => {
    const trust = flattened((AssumeRolePolicyDocument as { Statement: unknown }).Statement);
    return { RoleName, ManagedPolicyArns, Policies, trust };
  };
  const ofResources = Object.entries(resourcesOf(base)).flatMap(([, { Type, Properties }]) => {
    const document = Properties?.PolicyDocument as { Statement: { Effect: string }[] } | undefined;
    if (document === undefined || Type === 'AWS::IAM::Policy') return [];
    return document.Statement.filter(({ Effect }) => Effect === 'Allow').map(flattened);
  });
  const recorded = {
    roles: Object.fromEntries(Object.entries(roles).map(([id, { Properties }]) => [id, ofRole(Properties)])),
    permissions: permissionsOf(base),
    ofResources: ofResources.map((statement) => ({ ...(statement as object), Sid: undefined })),
    denials: denialsOf(base),
  };
  expectRecorded('permissions', JSON.parse(JSON.stringify(recorded)));
});

it('has the recorded permissions with other settings', () => {
  const usual = permissionsOf(base);
  const differences = Object.entries(variants).map(([name, settings]) => {
    const all = permissionsOf(templateOf(settings, REGION));
    const added = all.filter((line) => !usual.includes(line)).map((line) => `+ ${line}`);
    return [name, [...usual.filter((line) => !all.includes(line)).map((line) => `- ${line}`), ...added]];
  });
  expectRecorded('permissions-by-settings', Object.fromEntries(differences));
});

it.each([MONITORING, REPLAY, GROUND_TRUTH])('has the recorded state machine %s', (id) => {
  // Comments are for people and may change.
  const text = JSON.stringify(definitionOf(templateOf({ MAX_FUNCTIONS: '7' }), id));
  expectRecorded(
    id,
    JSON.parse(text, (key, part) => (key === 'Comment' ? undefined : part)),
  );
});

/** Resources without code and permissions: what they say is all that they do. */
const RECORDED =
  /^AWS::(?:Athena::|CloudWatch::Alarm|DynamoDB::|Events::|Lambda::(?:Event|Permission)|S3::|SNS::|SQS::|StepFunctions::)|^Custom::/;
/** What has tests of its own: texts for people, lifetimes, definitions. */
const ELSEWHERE = ['AlarmDescription', 'LifecycleConfiguration', 'DefinitionString'];

function recordedResources(template: Template): Record<string, object> {
  const own = Object.values(resourcesOf(template)).filter(({ Type }) => RECORDED.test(Type));
  const types = [...new Set(own.map(({ Type }) => Type))];
  const all = types.flatMap((type) => Object.entries(resourcesOfType(template, type)));
  const facts = all.map(([id, { Type, Properties, DeletionPolicy }]) => {
    const known = Object.entries(Properties).filter(([name]) => !ELSEWHERE.includes(name));
    return [id, { Type, DeletionPolicy, ...(flattened(Object.fromEntries(known)) as object) }] as const;
  });
  return JSON.parse(JSON.stringify(Object.fromEntries(facts))) as Record<string, object>;
}

it('has the recorded resources, and those that optional settings add or change', () => {
  const usual = recordedResources(base);
  const optional = {
    'files for Arthur': {
      ...ARTHUR,
      // Special characters of a pattern.
      ARTHUR_S3_PREFIX: 'a*b',
      ARTHUR_S3_SUFFIX: '-x.jsonl',
    },
    'a receiver of OpenTelemetry': { OTLP_ENDPOINT: 'https://otel.example.com', OTLP_SECRET_ARN: SECRET },
    'label files': { GROUND_TRUTH_S3_PREFIX: 's3://labels/churn*/true', MISSING_LABELS_HOURS: '36' },
    'an alarm by email, and objectives': {
      ALARM_EMAIL: 'on-call@example.com',
      QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95},{"errorReplies":{"atMost":0.02}}]',
    },
    'no window for events': { BATCH_WINDOW_SECONDS: '0' },
  };
  const others = Object.entries(optional).map(([name, settings]) => {
    const all = Object.entries(recordedResources(templateOf(settings)));
    const changed = all.filter(([id, facts]) => JSON.stringify(facts) !== JSON.stringify(usual[id]));
    return [name, Object.fromEntries(changed)];
  });
  expectRecorded('resources', { 'the required settings': usual, ...Object.fromEntries(others) });
});

it('uses * as the resource only for actions without an ARN', () => {
  const everywhere = Object.values(policiesOf(base)).flatMap((lines) => lines.filter(([, on]) => on.includes('*')));
  const unbounded =
    /^logs:(\w+LogDelivery|ListLogDeliveries|PutResourcePolicy|Describe(ResourcePolicies|LogGroups))$|^cloudwatch:(?:GetMetricData|ListMetrics)$/;
  for (const action of everywhere.flatMap(([actions]) => actions)) expect(action).toMatch(unbounded);
});
