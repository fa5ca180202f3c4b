/**
 * The limits that the quota shim imposes. Each is absent unless it is set, so that a test can impose one alone. The figures
 * of `FRESH_ACCOUNT` are those of a new AWS account, as far as AWS documents them, and of the smallest managed MLflow.
 */

/** So many a second, after a burst. */
export interface Rate {
  perSecond: number;
  /** Default: one second's worth. */
  burst?: number;
}

export interface QuotaLimits {
  /** Concurrent functions of the account; the emulator's own limit. A new account has 10. */
  lambdaConcurrency?: number;
  /** Map Runs open at the same time; others wait in `MapRunStarted`. AWS: 1,000, not adjustable. */
  openMapRuns?: number;
  /** AWS: 300 a second after 1,300 in the largest regions, 150 after 800 in the others; less in a new account. */
  startExecution?: Rate;
  /** All requests to MLflow, answered with 429 above it. */
  mlflow?: Rate;
  /** Calls of one model. */
  judgeRequestsPerMinute?: number;
  /** Tokens of one model, counted as Bedrock does: see `JudgeGate`. */
  judgeTokensPerMinute?: number;
  judgeTokensPerDay?: number;
  /** How much an output token counts against both. 5 for Claude from 3.7 on. */
  outputBurndown?: number;
  /** Batch jobs of the model that are submitted or in progress. AWS: 20. */
  batchJobs?: number;
  /** Write units a second of one partition. AWS: 1,000. */
  partitionWrites?: number;
  /** Bytes of an item. AWS: 400 KB. */
  itemBytes?: number;
  /** Requests to one bucket. AWS: 3,500 writes and 5,500 reads a second for each partition of the keys. */
  s3Writes?: Rate;
  s3Reads?: Rate;
}

export const MAX_ITEM_BYTES = 400 * 1024;

/**
 * Sources, November 2026: Lambda and Step Functions, "Quotas" in their developer guides; DynamoDB, "Service, account, and
 * table quotas" and "How to resolve throttling"; S3, "Best practices design patterns"; Bedrock, "Quotas" and "Token burndown
 * rate". Bedrock gives a new account fewer requests and tokens than the documented defaults; these are what one reported. By default,
 * a day's tokens are a minute's × 24 × 60 ("Quotas for the bedrock-runtime endpoint").
 */
export const FRESH_ACCOUNT: Required<QuotaLimits> = {
  lambdaConcurrency: 10,
  openMapRuns: 1000,
  startExecution: { perSecond: 150, burst: 800 },
  mlflow: { perSecond: 25 },
  judgeRequestsPerMinute: 200,
  judgeTokensPerMinute: 200_000,
  judgeTokensPerDay: 200_000 * 24 * 60,
  outputBurndown: 5,
  batchJobs: 20,
  partitionWrites: 1000,
  itemBytes: MAX_ITEM_BYTES,
  s3Writes: { perSecond: 3500 },
  s3Reads: { perSecond: 5500 },
};
