/**
 * List prices of AWS in us-east-1, in US dollars, first tier, without free tiers. Read in November 2026 from the pricing page
 * of each service, of which the URL is named; EventBridge's price of S3 events is the one that README states.
 */
export const PRICES_OF = '2026-11';

export const LIST_PRICES = {
  /** Standard workflows; a retry is a transition too. aws.amazon.com/step-functions/pricing */
  stateTransition: 25 / 1e6,
  /** arm64. aws.amazon.com/lambda/pricing */
  lambdaGbSecond: 0.0000133334,
  lambdaRequest: 0.2 / 1e6,
  /** PUT, COPY, POST, LIST. aws.amazon.com/s3/pricing */
  s3Write: 5 / 1e6,
  s3Read: 0.4 / 1e6,
  /** On demand. aws.amazon.com/dynamodb/pricing/on-demand */
  dynamodbWriteUnit: 0.625 / 1e6,
  dynamodbReadUnit: 0.125 / 1e6,
  /** Opt-in events of AWS services, such as S3's. aws.amazon.com/eventbridge/pricing */
  eventBridgeEvent: 1 / 1e6,
  /** Standard queues; a request has up to 64 KB. aws.amazon.com/sqs/pricing */
  sqsRequest: 0.4 / 1e6,
  /** Ingestion of functions' own logs and of vended logs, first tier. aws.amazon.com/cloudwatch/pricing */
  logsGb: 0.5,
} as const;

export type Priced = keyof typeof LIST_PRICES;
