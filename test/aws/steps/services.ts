/** Writes that race: the product relies on S3 and DynamoDB to accept exactly one. */
import { ConditionalCheckFailedException, DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { budgetTable } from '../../../src/core/contract/names.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import type { Canary } from '../canary.ts';
import { deployedEnvironment } from '../smoke-steps.ts';

const RACERS = 10;
const LOSERS = new Set([409, 412]);

const race = <T>(run: (racer: number) => Promise<T>) =>
  Promise.allSettled(Array.from({ length: RACERS }, (_, racer) => run(racer)));

const statusOf = (reason: { $metadata?: { httpStatusCode?: number } }): number => reason.$metadata?.httpStatusCode ?? 0;

export async function servicesStep(canary: Canary): Promise<void> {
  const { workBucket: Bucket } = await canary.outputs();
  const Key = workKeys.claim('canary');
  const put = (condition: { IfNoneMatch?: string; IfMatch?: string | undefined }) =>
    race((racer) => canary.clients.s3.send(new PutObjectCommand({ Bucket, Key, Body: String(racer), ...condition })));
  noteRace(canary, 'created-once', await put({ IfNoneMatch: '*' }));
  const { ETag } = await canary.clients.s3.send(new PutObjectCommand({ Bucket, Key, Body: 'before' }));
  noteRace(canary, 'replaced-once', await put({ IfMatch: ETag }));
  await raceForItem(canary);
}

function noteRace(
  canary: Canary,
  id: 'created-once' | 'replaced-once',
  results: PromiseSettledResult<unknown>[],
): void {
  const lost = results.flatMap((each) => (each.status === 'rejected' ? statusOf(each.reason) : []));
  const isOne = lost.length === RACERS - 1 && lost.every((status) => LOSERS.has(status));
  canary.note(id, isOne, `${RACERS - lost.length} accepted, others ${[...new Set(lost)].join(' and ')}`);
}

async function raceForItem(canary: Canary): Promise<void> {
  const environment = await deployedEnvironment(canary.clients, await canary.outputs());
  const client = new DynamoDBClient({});
  const results = await race((racer) =>
    client.send(
      new UpdateItemCommand({
        TableName: environment.BUDGET_TABLE,
        Key: { [budgetTable.partitionKey]: { S: 'canary' } },
        UpdateExpression: 'SET racer = :racer',
        ConditionExpression: 'attribute_not_exists(racer)',
        ExpressionAttributeValues: { ':racer': { N: String(racer) } },
      }),
    ),
  );
  client.destroy();
  const lost = results.filter(
    (each) => each.status === 'rejected' && each.reason instanceof ConditionalCheckFailedException,
  );
  const accepted = results.filter(({ status }) => status === 'fulfilled').length;
  canary.note(
    'item-once',
    accepted === 1 && lost.length === RACERS - 1,
    `${accepted} accepted, ${lost.length} failed their condition`,
  );
}
