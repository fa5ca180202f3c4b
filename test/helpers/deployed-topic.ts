/** What the topic of a deployed stack delivers, in a queue that subscribes to it. */
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import type { DeployedPipeline } from './deployed-pipeline.ts';
import { fetchOnNewConnection } from './new-connection.ts';

export interface Delivered {
  Subject: string;
  Message: string;
  Timestamp: string;
}

/** Subscribes a queue. @returns a function that takes the messages that came since its last call */
export async function subscribeQueue({ environment, prefix }: DeployedPipeline): Promise<() => Promise<Delivered[]>> {
  const { lambda } = environment.clients;
  const FunctionName = resourceNames(prefix).summarizer;
  const { Environment } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  const { QueueUrl } = await callAws<{ QueueUrl: string }>(lambda, 'sqs', 'CreateQueue', {
    QueueName: `messages-${prefix}`,
  });
  const { Attributes } = await callAws<{ Attributes: Record<string, string> }>(lambda, 'sqs', 'GetQueueAttributes', {
    QueueUrl,
    AttributeNames: ['QueueArn'],
  });
  const form = new URLSearchParams({
    Action: 'Subscribe',
    Version: '2010-03-31',
    TopicArn: Environment?.Variables?.ALARM_TOPIC_ARN ?? '',
    Protocol: 'sqs',
    Endpoint: Attributes.QueueArn ?? '',
  });
  const reply = await fetchOnNewConnection(environment.ministack.url, {
    method: 'POST',
    headers: {
      authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sns/aws4_request',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: form.toString(),
  });
  if (!reply.ok) throw new Error(`Subscribe: HTTP ${reply.status} ${await reply.text()}`);
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
