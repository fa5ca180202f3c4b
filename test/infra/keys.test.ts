/** A key of the person: everything that the stack stores is encrypted with it, and the documented key policy suffices. */
import { readFileSync } from 'node:fs';
import { KEY_USE } from '../../lib/access/allow.ts';
import { ACCOUNT, flattened, policiesOf, REGION, type Resource, resourcesOf, templateOf } from '../helpers/synth.ts';

const KEY = `arn:aws:kms:${REGION}:${ACCOUNT}:key/work`;
const template = templateOf({ STACK_PREFIX: 'prod', WORK_KMS_KEY_ARN: KEY });
const resources = Object.entries(resourcesOf(template));
const ofType = (type: string): [string, Resource][] => resources.filter(([, { Type }]) => Type === type);

/** Types that store data, with the property that names the key. */
const ENCRYPTED: Record<string, (properties: Record<string, unknown>) => unknown> = {
  'AWS::S3::Bucket': ({ BucketEncryption }) => BucketEncryption,
  'AWS::DynamoDB::GlobalTable': ({ Replicas, SSESpecification }) => ({ Replicas, SSESpecification }),
  'AWS::SQS::Queue': ({ KmsMasterKeyId }) => KmsMasterKeyId,
  'AWS::SNS::Topic': ({ KmsMasterKeyId }) => KmsMasterKeyId,
  'AWS::Logs::LogGroup': ({ KmsKeyId }) => KmsKeyId,
};

it('encrypts everything that the stack stores', () => {
  const keys = Object.entries(ENCRYPTED).flatMap(([type, keyOf]) =>
    ofType(type).map(([id, { Properties }]) => [type, id, keyOf(Properties)] as const),
  );
  const bucket = {
    ServerSideEncryptionConfiguration: [
      { BucketKeyEnabled: true, ServerSideEncryptionByDefault: { KMSMasterKeyID: KEY, SSEAlgorithm: 'aws:kms' } },
    ],
  };
  const table = {
    Replicas: [{ Region: REGION, SSESpecification: { KMSMasterKeyId: KEY } }],
    SSESpecification: { SSEEnabled: true, SSEType: 'KMS' },
  };
  for (const [type, id, key] of keys) {
    const expected = type === 'AWS::S3::Bucket' ? bucket : type === 'AWS::DynamoDB::GlobalTable' ? table : KEY;
    expect({ id, key }).toEqual({ id, key: expected });
  }
  // A bucket, two tables, three queues, a topic, and the logs of ten functions, three state machines and the custom resource.
  expect(keys).toHaveLength(21);
});

it('allows the use of the key only through the services that store the data', () => {
  const uses = Object.values(policiesOf(template))
    .flat()
    .filter(([actions]) => actions.some((action) => action.startsWith('kms:')));
  const via = (service: string) => ({ StringEquals: { 'kms:ViaService': `${service}.${REGION}.amazonaws.com` } });
  const allowed = [
    ...[KEY_USE.read, KEY_USE.write, KEY_USE.both].map((actions) => [actions, [KEY], via('s3')]),
    [KEY_USE.table, [KEY], via('dynamodb')],
    [KEY_USE.both, [KEY], via('sqs')],
    [KEY_USE.read, [KEY], via('sqs')],
  ];
  for (const use of uses) expect(allowed).toContainEqual(use);
  // Ten functions of which five use the table and two a queue, two state machines with Maps, the batch jobs.
  expect(uses).toHaveLength(20);
});

interface Statement {
  Effect: string;
  Principal: { Service: string };
  Action: string | string[];
  Condition?: { ArnLike?: Record<string, string | string[]>; StringEquals?: object };
}

describe('the documented key policy', () => {
  const [, json = '[]'] =
    /## Keys of your own[\s\S]*?```json\n([\s\S]*?)```/.exec(readFileSync('docs/network-and-keys.md', 'utf8')) ?? [];
  const documented = JSON.parse(json) as Statement[];
  const byService = Object.fromEntries(documented.map((statement) => [statement.Principal.Service, statement]));

  it('names exactly the services that use the key for themselves', () => {
    // Those that policies of encrypted queues and topics let write to them, and the logs.
    const writers = ['AWS::SQS::QueuePolicy', 'AWS::SNS::TopicPolicy'].flatMap((type) =>
      ofType(type).flatMap(([, { Properties }]) =>
        (flattened(Properties.PolicyDocument) as { Statement: Statement[] }).Statement.filter(
          ({ Effect }) => Effect === 'Allow',
        ).map(({ Principal }) => Principal.Service),
      ),
    );
    expect(Object.keys(byService).toSorted()).toEqual(
      [...new Set([`logs.${REGION}.amazonaws.com`, ...writers])].toSorted(),
    );
    for (const { Action } of documented) {
      expect([Action].flat().some((each) => /^kms:GenerateDataKey\*?$/.test(each))).toBe(true);
      expect([Action].flat().some((each) => /^kms:Decrypt\*?$/.test(each))).toBe(true);
    }
  });

  it('covers every log group', () => {
    const patterns = [byService[`logs.${REGION}.amazonaws.com`]?.Condition?.ArnLike ?? {}]
      .flatMap((test) => test['kms:EncryptionContext:aws:logs:arn'] ?? [])
      .map((pattern) => new RegExp(`^${pattern.replaceAll('*', '.*')}$`));
    const names = ofType('AWS::Logs::LogGroup').map(([, { Properties }]) => Properties.LogGroupName);
    const arns = names.map((name) => `arn:aws:logs:${REGION}:${ACCOUNT}:log-group:${name}`);
    expect(arns.filter((arn) => !patterns.some((pattern) => pattern.test(arn)))).toEqual([]);
    expect(patterns.filter((pattern) => !arns.some((arn) => pattern.test(arn)))).toEqual([]);
  });

  it('confines alarms as the topic does, and EventBridge by no condition, since it tells KMS no source', () => {
    const [[, topic] = []] = ofType('AWS::SNS::TopicPolicy');
    const { Statement } = flattened(topic?.Properties.PolicyDocument) as { Statement: Statement[] };
    const alarms = Statement.find(({ Principal }) => Principal.Service === 'cloudwatch.amazonaws.com');
    expect(byService['cloudwatch.amazonaws.com']?.Condition).toEqual(alarms?.Condition);
    expect(byService['events.amazonaws.com']).not.toHaveProperty('Condition');
  });
});
