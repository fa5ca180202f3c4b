/**
 * What the functions have to be allowed: which calls each of them makes, and on what. The ARNs are written out as AWS names the
 * resources, and not taken from the policies.
 */
import { accepts, actionOf, type Reference } from './iam-reference.ts';
import type { Bundle } from './sdk-calls.ts';
import { ACCOUNT, REGION } from './synth.ts';

/** An action on a resource (a pattern if any part of it will do), with the values of condition keys of such a request. */
export interface Need {
  action: string;
  arn: string;
  context: Record<string, string>;
  /** The call, the state or the resource that needs it. */
  by: string;
}

/** Something that functions call: its ARNs with these settings, of which each call concerns those of its resource types. */
interface Target {
  arns: string[];
  context?: Record<string, string>;
  /** Actions that IAM checks besides a call's own, by that action. */
  also?: Record<string, Need[]>;
  /** The person's key that encrypts it. */
  key?: string | undefined;
}

export const at = (service: string, resource: string): string => `arn:aws:${service}:${REGION}:${ACCOUNT}:${resource}`;
export const WORK = 'arn:aws:s3:::workbucket';
export const MACHINE = 'sagemaker-data-capture-monitoring-test';
export const TRUTH_MACHINE = 'sagemaker-ground-truth-test';

/** What the use of a key needs, by the call to the service that uses it. A call without an entry does not use the key. */
const KEY_NEEDS: Record<string, string[]> = {
  's3:GetObject': ['Decrypt'],
  's3:PutObject': ['GenerateDataKey'],
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html
  's3:CreateMultipartUpload': ['GenerateDataKey'],
  's3:UploadPart': ['GenerateDataKey', 'Decrypt'],
  's3:CompleteMultipartUpload': ['Decrypt'],
  'secretsmanager:GetSecretValue': ['Decrypt'],
  // https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
  'sns:Publish': ['GenerateDataKey', 'Decrypt'],
  // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
  'sqs:SendMessage': ['GenerateDataKey', 'Decrypt'],
  'sqs:ReceiveMessage': ['Decrypt'],
  // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
  'dynamodb:GetItem': ['Decrypt', 'DescribeKey'],
  'dynamodb:BatchGetItem': ['Decrypt', 'DescribeKey'],
  'dynamodb:BatchWriteItem': ['Decrypt', 'DescribeKey', 'Encrypt', 'GenerateDataKey', 'ReEncryptFrom', 'ReEncryptTo'],
  'dynamodb:UpdateItem': ['Decrypt', 'DescribeKey', 'Encrypt', 'GenerateDataKey', 'ReEncryptFrom', 'ReEncryptTo'],
};

/** The needs of a call to a service that encrypts with a key of the person. */
export const needsOfKey = (call: string, arn: string | undefined): Need[] =>
  (arn === undefined ? [] : (KEY_NEEDS[call] ?? [])).map((name) => ({
    action: `kms:${name}`,
    arn: arn ?? '',
    context: { 'kms:ViaService': `${call.split(':')[0]}.${REGION}.amazonaws.com` },
    by: call,
  }));

/** Everything that the functions call, by the names in `USES`. @param step the construct of the function */
function targetsOf(settings: Record<string, string>, step = ''): Record<string, Target> {
  const { MLFLOW_SECRET_ARN: secret, DATA_CAPTURE_KMS_KEY_ARN: captureKey, BEDROCK_GUARDRAIL_ID: guardrail } = settings;
  const { WORK_KMS_KEY_ARN: workKey, SECRETS_KMS_KEY_ARN: secretKey } = settings;
  const { MLFLOW_TRACKING_URI: mlflow = '', MLFLOW_ARTIFACT_BUCKET: artifacts } = settings;
  const model = modelOf(settings.BEDROCK_MODEL_ID ?? 'eu.anthropic.claude-sonnet-4-6');
  const [judge, component] = /^sagemaker:\/(.*)/.exec(settings.BEDROCK_MODEL_ID ?? '')?.[1]?.split('/') ?? [];
  const inAccount = { 'aws:ResourceAccount': ACCOUNT };
  const capture = 'arn:aws:s3:::captures/my-endpoint/AllTraffic/2026/11/20/10/a.jsonl';
  const labels = settings.GROUND_TRUTH_S3_PREFIX?.replace(/^s3:\/\/([^/]+)$/, '$1/').replace('s3://', '');
  const names = (setting: string): string[] => settings[setting]?.split(',') ?? [];
  const need = (action: string, arn: string, context = {}): Need => ({
    action,
    arn,
    context,
    by: 'the call’s own action',
  });
  return {
    captures: {
      arns: ['arn:aws:s3:::captures', capture],
      context: { 's3:prefix': 'my-endpoint/AllTraffic/2026/11/20/10/a.jsonl', ...inAccount },
      also: {
        // An object is read in the version that planning saw.
        's3:GetObject': [need('s3:GetObjectVersion', capture, inAccount)],
      },
      key: captureKey,
    },
    labels: {
      arns: labels ? [labels.split('/')[0] ?? '', `${labels}a.csv`].map((each) => `arn:aws:s3:::${each}`) : [],
      context: { 's3:prefix': `${labels?.replace(/^.*?\//, '')}a.csv` },
      also: { 's3:GetObject': [need('s3:GetObjectVersion', `arn:aws:s3:::${labels}a.csv`)] },
      key: settings.GROUND_TRUTH_KMS_KEY_ARN,
    },
    work: { arns: [WORK, `${WORK}/*`], key: workKey },
    artifacts: {
      context: { 'aws:ResourceAccount': settings.MLFLOW_ARTIFACT_ACCOUNT_ID ?? ACCOUNT },
      key: settings.MLFLOW_ARTIFACT_KMS_KEY_ARN,
      arns: artifacts ? [`arn:aws:s3:::${artifacts.replace('s3://', '')}/1/traces/tr-1/artifacts/traces.json`] : [],
    },
    budget: { arns: [at('dynamodb', 'table/LimitsTable')], key: workKey },
    answers: { arns: [at('dynamodb', 'table/AnswersTable')], key: workKey },
    topic: { arns: settings.QUALITY_OBJECTIVES ? [at('sns', 'AlarmsTopic')] : [], key: workKey },
    machine: { arns: [at('states', `stateMachine:${step.startsWith('GroundTruth') ? TRUTH_MACHINE : MACHINE}`)] },
    truthMachine: { arns: [at('states', `stateMachine:${TRUTH_MACHINE}`)] },
    executions: { arns: [at('states', `execution:${MACHINE}:some-run`)] },
    mlflow: { arns: mlflow.startsWith('arn:') ? [mlflow] : [] },
    mlflowSecret: { arns: secret ? [secret] : [], key: secretKey },
    judgeSecret: { arns: settings.JUDGE_SECRET_ARN ? [settings.JUDGE_SECRET_ARN] : [], key: secretKey },
    replaySecret: {
      arns: settings.REPLAY_HEADERS_SECRET_ARN ? [settings.REPLAY_HEADERS_SECRET_ARN] : [],
      key: secretKey,
    },
    arthurSecret: { arns: settings.ARTHUR_SECRET_ARN ? [settings.ARTHUR_SECRET_ARN] : [], key: secretKey },
    forwardEvents: { arns: [at('sqs', 'ForwardEvents')] },
    forwardDeadLetters: { arns: [at('sqs', 'ForwardDeadLetters')], key: workKey },
    model: {
      arns: model.behind,
      context: { 'bedrock:InferenceProfileArn': model.profile ?? '' },
      also: {
        'bedrock:InvokeModel': guardrail
          ? [need('bedrock:ApplyGuardrail', at('bedrock', `guardrail/${guardrail}`))]
          : [],
      },
    },
    modelFacts: { arns: model.facts },
    jobs: {
      arns: model.behind.length > 0 ? [at('bedrock', 'model-invocation-job/abc123'), ...model.behind] : [],
      also: {
        'bedrock:CreateModelInvocationJob': [
          need('iam:PassRole', `arn:aws:iam::${ACCOUNT}:role/BatchServiceRole`, {
            'iam:PassedToService': 'bedrock.amazonaws.com',
          }),
        ],
      },
    },
    // IAM spells endpoints in lower case.
    judgeEndpoint: {
      arns: [
        ...(judge ? [at('sagemaker', `endpoint/${judge.toLowerCase()}`)] : []),
        ...(component ? [component, component.toLowerCase()] : []).map((name) =>
          at('sagemaker', `inference-component/${name}`),
        ),
      ],
    },
    replayTargets: {
      arns: [
        ...names('REPLAY_ENDPOINT_NAMES').map((name) => at('sagemaker', `endpoint/${name.toLowerCase()}`)),
        // IAM's spelling of components is not documented.
        ...names('REPLAY_INFERENCE_COMPONENT_NAMES')
          .flatMap((name) => [name, name.toLowerCase()])
          .map((name) => at('sagemaker', `inference-component/${name}`)),
      ],
    },
    endOfReplay: {
      arns: ['ReplaySummaryFunction', 'ReplayPublicationFunction'].map((name) => at('lambda', `function:${name}`)),
    },
  };
}

/** The ARNs that IAM checks when a Bedrock model is used and when its facts are read; none for a judge outside Bedrock. */
function modelOf(id: string): { behind: string[]; facts: string[]; profile?: string } {
  if (/^(openai|sagemaker):/.test(id)) return { behind: [], facts: [] };
  const foundation = (region: string, model: string): string => `arn:aws:bedrock:${region}::foundation-model/${model}`;
  if (id.includes(':application-inference-profile/')) {
    const some = 'anthropic.claude-sonnet-4-6';
    const geographic = at('bedrock', `inference-profile/eu.${some}`);
    return {
      behind: [id, geographic, foundation('eu-north-1', some), foundation('', some)],
      facts: [id, foundation(REGION, some)],
      profile: id,
    };
  }
  const [, geography, model] = /^(global|eu)\.(.*)/.exec(id) ?? [];
  if (model === undefined) return { behind: [foundation(REGION, id)], facts: [foundation(REGION, id)] };
  const profile = at('bedrock', `inference-profile/${id}`);
  return {
    behind: [profile, foundation('eu-north-1', model), ...(geography === 'global' ? [foundation('', model)] : [])],
    facts: [profile, foundation(REGION, model)],
    profile,
  };
}

const READ = ['s3:GetObject', 's3:HeadObject', 's3:ListObjectsV2'];
const WRITE = ['s3:PutObject'];
const UPLOAD = ['s3:CreateMultipartUpload', 's3:UploadPart', 's3:CompleteMultipartUpload', 's3:AbortMultipartUpload'];
const SECRET = ['secretsmanager:GetSecretValue'];
const FACTS = ['bedrock:GetFoundationModel', 'bedrock:GetInferenceProfile'];
const JUDGE = { model: ['bedrock:Converse'], judgeEndpoint: ['sagemaker:InvokeEndpoint'], judgeSecret: SECRET };
const BUDGET = ['dynamodb:GetItem', 'dynamodb:UpdateItem'];
const SENT = ['dynamodb:BatchGetItem', 'dynamodb:BatchWriteItem'];

/** The calls of each function (its folder) by what they concern, without those of `OWN_CALLS`. Together they are the bundle's. */
export const USES: Record<string, Record<string, string[]>> = {
  'start-runs': { work: [...READ, ...WRITE], machine: ['states:StartExecution'] },
  'plan-captures': {
    captures: READ,
    work: [...READ, ...WRITE],
    executions: ['states:DescribeExecution'],
    modelFacts: FACTS,
    mlflowSecret: SECRET,
  },
  'log-traces': {
    captures: READ,
    work: [...READ, ...WRITE],
    artifacts: WRITE,
    budget: [...BUDGET, ...SENT],
    mlflowSecret: SECRET,
  },
  'evaluate-traces': {
    captures: READ,
    work: [...READ, ...WRITE, 's3:DeleteObject'],
    artifacts: WRITE,
    ...JUDGE,
    budget: [...BUDGET, ...SENT],
    answers: ['dynamodb:GetItem', 'dynamodb:UpdateItem'],
    mlflowSecret: SECRET,
  },
  'judge-batch': {
    work: [...READ, ...WRITE, ...UPLOAD],
    jobs: ['bedrock:CreateModelInvocationJob', 'bedrock:GetModelInvocationJob'],
  },
  'summarize-run': { work: [...READ, ...WRITE, 's3:DeleteObject'], truthMachine: ['states:StartExecution'] },
  'ground-truth': {
    labels: READ,
    work: [...READ, ...WRITE, 's3:DeleteObject'],
    budget: BUDGET,
    mlflowSecret: SECRET,
  },
  'plan-replay': {
    captures: READ,
    work: [...READ, ...WRITE, ...UPLOAD],
    modelFacts: FACTS,
    mlflowSecret: SECRET,
  },
  'replay-shard': { captures: READ, work: [...READ, ...WRITE, ...UPLOAD], replaySecret: SECRET },
  'evaluate-replay': { work: [...READ, ...WRITE], artifacts: WRITE, ...JUDGE, budget: BUDGET, mlflowSecret: SECRET },
  'summarize-replay': { work: [...READ, ...WRITE, ...UPLOAD] },
  'publish-replay': { work: READ, artifacts: WRITE, mlflowSecret: SECRET },
  'forward-captures': { captures: READ, work: [...READ, ...WRITE], arthurSecret: SECRET },
  'stop-replay': { work: [...READ, ...WRITE], endOfReplay: ['lambda:Invoke'] },
};

/** Calls by the project's own HTTP clients: what they concern, and a text that a bundle with such a client contains. */
const OWN_CALLS: { folders: string[]; target: string; mark: string; actions(arn: string): string[] }[] = [
  {
    folders: [
      ...['plan-captures', 'log-traces', 'evaluate-traces', 'ground-truth'],
      ...['plan-replay', 'evaluate-replay', 'publish-replay'],
    ],
    target: 'mlflow',
    mark: 'x-sm-mlflow-app-arn',
    actions: (arn) => [arn.includes(':mlflow-app/') ? 'sagemaker:CallMlflowAppApi' : 'sagemaker-mlflow:*'],
  },
  {
    folders: ['replay-shard'],
    target: 'replayTargets',
    mark: '/invocations',
    actions: () => ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'],
  },
  { folders: ['summarize-run'], target: 'topic', mark: 'MessageStructure', actions: () => ['sns:Publish'] },
  ...[
    { target: 'forwardEvents', name: 'ChangeMessageVisibility' },
    { target: 'forwardDeadLetters', name: 'SendMessage' },
  ].map(({ target, name }) => ({
    folders: ['forward-captures'],
    target,
    mark: `"${name}"`,
    actions: () => [`sqs:${name}`],
  })),
];

/** Operations of the SDK's helper for uploads that the product does not reach: it neither tags objects nor creates buckets. */
export const UNREACHED = ['s3:HeadBucket', 's3:PutObjectTagging'];

/** Differences between `USES` and the bundles. */
export function faultsOfCalls(bundles: Record<string, Bundle>): string[] {
  const own = OWN_CALLS.flatMap(({ folders, mark }) =>
    folders
      .filter((folder) => !bundles[folder]?.text.includes(mark))
      .map((folder) => `${folder}: its bundle has no ${mark}`),
  );
  const sdk = Object.entries(bundles).flatMap(([folder, { calls }]) => {
    const listed = Object.values(USES[folder] ?? {}).flat();
    return [
      ...calls
        .filter((call) => !listed.includes(call) && !UNREACHED.includes(call))
        .map((call) => `${folder}: nothing says what ${call} concerns`),
      ...[...new Set(listed)]
        .filter((call) => !calls.includes(call))
        .map((call) => `${folder}: its bundle does not call ${call}`),
    ];
  });
  return [...own, ...sdk];
}

/** The needs of a call on a target. @throws Error if no action is known by which IAM authorizes the call */
export function needsOfCall(
  reference: Reference,
  call: string,
  { arns, context = {}, also = {}, key }: Target,
): Need[] {
  if (arns.length === 0) return [];
  const action = actionOf(reference, call);
  if (action === undefined) throw new Error(`No action is known that authorizes ${call}`);
  const own = arns.filter((arn) => accepts(reference, action, arn)).map((arn) => ({ action, arn, context, by: call }));
  return [...own, ...(also[action] ?? []).map((need) => ({ ...need, by: call })), ...needsOfKey(call, key)];
}

/** The construct of each function, and its folder under `lambda/`. */
export const FOLDERS: Record<string, string> = {
  StartRuns: 'start-runs',
  PlanCaptures: 'plan-captures',
  LogTraces: 'log-traces',
  EvaluateTraces: 'evaluate-traces',
  JudgeBatch: 'judge-batch',
  SummarizeRun: 'summarize-run',
  ReplayPlan: 'plan-replay',
  ReplayShard: 'replay-shard',
  ReplayEvaluation: 'evaluate-replay',
  ReplaySummary: 'summarize-replay',
  ReplayPublication: 'publish-replay',
  ReplayStop: 'stop-replay',
  GroundTruthJoinLabels: 'ground-truth',
};

/** Those that exist only with some settings. */
export const OPTIONAL_FOLDERS: Record<string, string> = {
  ForwardForwarder: 'forward-captures',
  GroundTruthStartRuns: 'start-runs',
};
export const ALL_FOLDERS = { ...FOLDERS, ...OPTIONAL_FOLDERS };

/** The needs of a function, by its construct. */
export function needsOfFunction(reference: Reference, step: string, settings: Record<string, string>): Need[] {
  const folder = ALL_FOLDERS[step as keyof typeof ALL_FOLDERS] ?? '';
  const targets = targetsOf(settings, step);
  const target = (name: string): Target => targets[name] as Target;
  const sdk = Object.entries(USES[folder] ?? {}).flatMap(([name, calls]) =>
    calls.flatMap((call) => needsOfCall(reference, call, target(name))),
  );
  const own = OWN_CALLS.filter(({ folders }) => folders.includes(folder)).flatMap((each) =>
    target(each.target).arns.flatMap((arn) =>
      each
        .actions(arn)
        .flatMap((action) => [
          { action, arn, context: {}, by: each.mark },
          ...needsOfKey(action, target(each.target).key),
        ]),
    ),
  );
  return [...sdk, ...own];
}

/** The needs of Bedrock's role for batch jobs: https://docs.aws.amazon.com/bedrock/latest/userguide/batch-iam-sr.html */
export function needsOfBatchJobs(reference: Reference, settings: Record<string, string>): Need[] {
  const by = 'a batch job';
  const { model } = targetsOf(settings) as { model: Target };
  // There is no role without a Bedrock model.
  if (model.arns.length === 0) return [];
  const files = (action: string, arn: string): Need => ({ action, arn, context: {}, by });
  return [
    files('s3:GetObject', `${WORK}/batch/some-run/input/1.jsonl`),
    files('s3:PutObject', `${WORK}/batch/some-run/output/1.jsonl.out`),
    files('s3:ListBucket', WORK),
    ...['s3:GetObject', 's3:UploadPart'].flatMap((call) => needsOfKey(call, settings.WORK_KMS_KEY_ARN)),
    ...needsOfCall(reference, 'bedrock:InvokeModel', model),
  ];
}
