import { callAws } from '../../src/core/aws/aws-json.ts';
import { queryAws } from '../../src/core/aws/aws-query.ts';
import type { DeployedPipeline } from './deployed-pipeline.ts';

export interface Delivered {
  Subject: string;
  Message: string;
  Timestamp: string;
}

/** Subscribes a queue. @returns a function that takes the messages that came since its last call */
export async function subscribeQueue(pipeline: DeployedPipeline): Promise<() => Promise<Delivered[]>> {
  const { lambda } = pipeline.environment.clients;
  const { QueueUrl } = await callAws<{ QueueUrl: string }>(lambda, 'sqs', 'CreateQueue', {
    QueueName: `messages-${pipeline.prefix}`,
  });
  const { Attributes } = await callAws<{ Attributes: Record<string, string> }>(lambda, 'sqs', 'GetQueueAttributes', {
    QueueUrl,
    AttributeNames: ['QueueArn'],
  });
  await queryAws(lambda, 'sns', 'Subscribe', {
    TopicArn: pipeline.outputs.alarmTopicArn,
    Protocol: 'sqs',
    Endpoint: Attributes.QueueArn ?? '',
  });
  return async () => {
    const found: Delivered[] = [];
    for (;;) {
      const { Messages = [] } = await callAws<{ Messages?: { Body: string; ReceiptHandle: string }[] }>(
        lambda,
        'sqs',
        'ReceiveMessage',
        { QueueUrl, MaxNumberOfMessages: 10 },
      );
      if (Messages.length === 0) return found;
      for (const { Body, ReceiptHandle } of Messages) {
        found.push(JSON.parse(Body) as Delivered);
        await callAws(lambda, 'sqs', 'DeleteMessage', { QueueUrl, ReceiptHandle });
      }
    }
  };
}
