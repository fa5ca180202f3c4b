/** Names for what DynamoDB answers: what may pass by itself is retryable. */
import { DynamoDBServiceException } from '@aws-sdk/client-dynamodb';
import { PermanentError, RetryableError, saidBy } from '../../shared/errors.ts';

const EXPIRED = new Set(['ExpiredTokenException', 'ExpiredToken', 'UnrecognizedClientException']);
const PASSING = new Set([
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'TransactionInProgressException',
  'TransactionConflictException',
  'TransactionCanceledException',
  'InternalServerError',
  'ServiceUnavailable',
  'LimitExceededException',
]);

export function namedTableError(error: unknown, table: string, scope: string): Error {
  const name = error instanceof Error ? error.name : 'Unknown';
  const status = error instanceof DynamoDBServiceException ? error.$metadata.httpStatusCode : undefined;
  const facts = { got: saidBy(error), where: `table ${table}, item ${scope}` };
  if (EXPIRED.has(name)) {
    return new RetryableError('CredentialsExpired', 'The credentials for DynamoDB have expired', facts, error);
  }
  if (status !== undefined && status >= 400 && status < 500 && !PASSING.has(name)) {
    return name === 'AccessDeniedException'
      ? new PermanentError('BudgetAccessDenied', 'DynamoDB denied access to the budget', facts, error)
      : new PermanentError('BudgetRefused', 'DynamoDB refused to keep the budget', facts, error);
  }
  return new RetryableError('BudgetTableUnavailable', 'DynamoDB did not answer', facts, error);
}
