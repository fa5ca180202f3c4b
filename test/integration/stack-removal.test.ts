/** A stack that cannot be deployed, or whose capture bucket is gone, can be removed without leftovers. */
import {
  CreateStackCommand,
  DeleteStackCommand,
  DescribeStackEventsCommand,
  DescribeStacksCommand,
} from '@aws-sdk/client-cloudformation';
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketNotificationConfigurationCommand,
  ListBucketsCommand,
  PutBucketNotificationConfigurationCommand,
} from '@aws-sdk/client-s3';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { resourcesOf, templateOf } from '../helpers/synth.ts';

let ministack: MiniStack;
let clients: AwsClients;

beforeAll(async () => {
  ministack = await startMiniStack();
  clients = emulatedClients(ministack);
});

afterAll(() => ministack.stop());

/** Creates a stack of the work bucket and of what switches the capture bucket's notifications on. */
async function create(StackName: string, captureBucket: string): Promise<string> {
  const all = resourcesOf(templateOf({ DATA_CAPTURE_S3_BUCKET: captureBucket }));
  const wanted = Object.entries(all).filter(([id]) => /^(WorkBucket|CapturesNotifications)/.test(id));
  // CloudFormation creates both concurrently. Here the bucket exists by the time that the other fails.
  const workBucket = wanted.filter(([, { Type }]) => Type === 'AWS::S3::Bucket').map(([id]) => id);
  for (const [, resource] of wanted) {
    if (resource.Type === 'Custom::CaptureNotifications') resource.DependsOn = workBucket;
  }
  const TemplateBody = JSON.stringify({ Resources: Object.fromEntries(wanted) });
  const created = await clients.cloudFormation.send(
    new CreateStackCommand({ StackName, TemplateBody, Capabilities: ['CAPABILITY_IAM'] }),
  );
  return created.StackId ?? '';
}

/** Waits until an operation on a stack has ended, and returns its status. */
async function ended(StackName: string): Promise<string> {
  for (;;) {
    const { Stacks = [] } = await clients.cloudFormation.send(new DescribeStacksCommand({ StackName }));
    const status = Stacks[0]?.StackStatus ?? '';
    if (!status.endsWith('_IN_PROGRESS')) return status;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

const buckets = async (): Promise<(string | undefined)[]> =>
  ((await clients.s3.send(new ListBucketsCommand({}))).Buckets ?? []).map(({ Name }) => Name);

it('leaves nothing behind if the capture bucket does not exist', async () => {
  const before = await buckets();
  const id = await create('wrong', 'no-such-bucket');
  expect(await ended(id)).toBe('ROLLBACK_COMPLETE');
  const { StackEvents = [] } = await clients.cloudFormation.send(new DescribeStackEventsCommand({ StackName: id }));
  expect(JSON.stringify(StackEvents)).toContain('NoSuchBucket');
  expect(await buckets()).toEqual(before);
});

it('can be deleted after the capture bucket, and keeps the work bucket', async () => {
  const Bucket = 'captures-of-a-test';
  await clients.s3.send(new CreateBucketCommand({ Bucket }));
  const others = [
    { Id: 'theirs', QueueArn: 'arn:aws:sqs:us-east-1:000000000000:theirs', Events: ['s3:ObjectCreated:*' as const] },
  ];
  await clients.s3.send(
    new PutBucketNotificationConfigurationCommand({
      Bucket,
      NotificationConfiguration: { QueueConfigurations: others },
      SkipDestinationValidation: true,
    }),
  );
  const id = await create('right', Bucket);
  expect(await ended(id)).toBe('CREATE_COMPLETE');
  const notifications = await clients.s3.send(new GetBucketNotificationConfigurationCommand({ Bucket }));
  expect(notifications).toMatchObject({ EventBridgeConfiguration: {}, QueueConfigurations: others });
  await clients.s3.send(new DeleteBucketCommand({ Bucket }));
  const before = await buckets();
  expect(before).toHaveLength(1);
  await clients.cloudFormation.send(new DeleteStackCommand({ StackName: id }));
  expect(await ended(id)).toBe('DELETE_COMPLETE');
  expect(await buckets()).toEqual(before);
});
