/**
 * Reads and writes items of the stack's DynamoDB table of limits, turns failures into named errors, and contains
 * helpers for all limits.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import * as dynamodb from '@aws-sdk/client-dynamodb';
import { KEPT_DAYS } from '../core/contract/kept.ts';
import { budgetTable } from '../core/contract/names.ts';
import { PermanentError, RetryableError, saidBy } from '../core/errors/errors.ts';
import { logger } from '../core/process/logging.ts';
import { countThrottle } from '../core/process/throttles.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';

/**
 * A throttled write is refused immediately and has no effect. The waits are up to 50, 100, … ms: 2.3 s in all, half of
 * it on average, for a partition to get through a burst.
 */
export const REFUSED_ATTEMPTS = 10;
export const REFUSED_WAIT_MS = 50;

export type Item = Record<string, dynamodb.AttributeValue>;

/** A change of one item. In expressions, `#name` stands for the attribute `name`. */
export interface ItemChange {
  scope: string;
  expression: string;
  condition?: string | undefined;
  /** Values by name, for `:name` in expressions. */
  values: Record<string, number | string | Uint8Array>;
  /** The attributes that `update` returns. Default: the changed attributes with their new values. */
  returns?: 'ALL_OLD';
}

export const asNumber = (value: dynamodb.AttributeValue | undefined): number => Number(value?.N ?? 0);

/**
 * Returns when an item expires, in epoch seconds.
 *
 * @param ms the time of its last use, epoch milliseconds
 * @param days for which it is kept. Default: as long as a run can be retried
 */
export const expiry = (ms = Date.now(), days: number = KEPT_DAYS.runs): number => Math.ceil(ms / 1000) + days * 86_400;

/** Returns the day (UTC) of an instant, such as `2026-11-20`. @param ms epoch milliseconds */
export const dayAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

function toAttribute(value: ItemChange['values'][string]): dynamodb.AttributeValue {
  if (typeof value === 'number') return { N: String(value) };
  return typeof value === 'string' ? { S: value } : { B: value };
}

export const attributesOf = (values: ItemChange['values'], prefix = ''): Item =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, toAttribute(value)]));

let client: dynamodb.DynamoDBClient | undefined;

/** Returns the client of the table. A process has only one client, so that all limits share its connections. */
export function tableClient(): dynamodb.DynamoDBClient {
  client ??= new dynamodb.DynamoDBClient({});
  return client;
}

export const limitsTable = ({ BUDGET_TABLE }: Pick<LambdaEnvironment, 'BUDGET_TABLE'>): LimitsTable =>
  new LimitsTable(tableClient(), BUDGET_TABLE);

export class LimitsTable {
  readonly client: dynamodb.DynamoDBClient;
  readonly name: string;

  constructor(client: dynamodb.DynamoDBClient, name: string) {
    this.client = client;
    this.name = name;
  }

  /** Returns the item, which is empty if it does not exist. */
  async get(scope: string): Promise<Item> {
    const command = new dynamodb.GetItemCommand({ TableName: this.name, Key: keyOf(scope), ConsistentRead: true });
    const { Item = {} } = await this.client.send(command).catch((error: unknown) => {
      throw namedTableError(error, this.name, scope);
    });
    return Item;
  }

  /**
   * Makes the change. The SDK may send it twice, so its condition must not hold a second time, or repeating it must do
   * no harm.
   *
   * @returns the changed attributes or those selected by `returns`; `undefined` if the condition was not met
   */
  async update(change: ItemChange): Promise<Item | undefined> {
    return this.send(change.scope, async () => {
      const ReturnValues = change.returns ?? 'UPDATED_NEW';
      const command = new dynamodb.UpdateItemCommand({ ...this.#update(change), ReturnValues });
      return (await this.client.send(command)).Attributes ?? {};
    });
  }

  /**
   * Makes the change at most once: it is never repeated, not even by the SDK.
   *
   * @returns the changed attributes; `undefined` if the condition was not met; `unknown` if no reply shows the outcome
   */
  async updateOnce(change: ItemChange): Promise<Item | undefined | 'unknown'> {
    return this.send<Item | 'unknown'>(change.scope, async () => {
      const command = new dynamodb.UpdateItemCommand({ ...this.#update(change), ReturnValues: 'UPDATED_NEW' });
      // Throw inside the SDK's retries, which do not repeat unknown errors.
      command.middlewareStack.add(
        (next) => async (args) => {
          try {
            return await next(args);
          } catch (error) {
            throw new SentOnce(error);
          }
        },
        { step: 'finalizeRequest', priority: 'low', name: 'sentOnce' },
      );
      try {
        return (await this.client.send(command)).Attributes ?? {};
      } catch (error) {
        const failure = error instanceof SentOnce ? error.failure : error;
        const { httpStatusCode = 500 } = failure instanceof dynamodb.DynamoDBServiceException ? failure.$metadata : {};
        if (httpStatusCode >= 500) return 'unknown';
        throw failure;
      }
    });
  }

  /** Repeats a request that was refused temporarily. @returns `undefined` if a condition was not met */
  async send<T>(scope: string, send: () => Promise<T>): Promise<T | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await send();
      } catch (error) {
        if (error instanceof dynamodb.ConditionalCheckFailedException) return undefined;
        const throttled = isThrottled(error);
        if (throttled) countThrottle('table');
        if (!throttled || attempt >= REFUSED_ATTEMPTS) {
          throw namedTableError(error, this.name, scope);
        }
        await sleep(Math.random() * REFUSED_WAIT_MS * attempt);
      }
    }
  }

  #update({ scope, expression, condition, values }: ItemChange): dynamodb.Update {
    const used = `${expression} ${condition ?? ''}`.matchAll(/#(\w+)/g);
    return {
      TableName: this.name,
      Key: keyOf(scope),
      UpdateExpression: expression,
      ConditionExpression: condition,
      ExpressionAttributeNames: Object.fromEntries(used),
      ExpressionAttributeValues: attributesOf(values, ':'),
    };
  }
}

/** Hides a failure from the SDK's retries, which look into causes too. */
class SentOnce extends Error {
  readonly failure: unknown;

  constructor(failure: unknown) {
    super();
    this.failure = failure;
  }
}

export const keyOf = (scope: string): Item => ({ [budgetTable.partitionKey]: { S: scope } });

const THROTTLED = new Set(['ProvisionedThroughputExceededException', 'RequestLimitExceeded', 'ThrottlingException']);

const isThrottled = (error: unknown): boolean => error instanceof Error && THROTTLED.has(error.name);

const EXPIRED = new Set(['ExpiredTokenException', 'ExpiredToken', 'UnrecognizedClientException']);
const TRANSIENT = new Set(['InternalServerError', 'ServiceUnavailable', 'LimitExceededException']);

/** Converts a failure of DynamoDB into a named error, which is retryable if the failure may be transient. */
function namedTableError(error: unknown, table: string, scope: string): Error {
  const name = error instanceof Error ? error.name : 'Unknown';
  const status = error instanceof dynamodb.DynamoDBServiceException ? error.$metadata.httpStatusCode : undefined;
  const facts = { got: saidBy(error), where: `table ${table}, item ${scope}` };
  if (isThrottled(error)) {
    return new RetryableError('BudgetTableThrottled', 'DynamoDB throttled every attempt', facts, error);
  }
  if (EXPIRED.has(name)) {
    return new RetryableError('CredentialsExpired', 'The credentials for DynamoDB have expired', facts, error);
  }
  if (status !== undefined && status >= 400 && status < 500 && !TRANSIENT.has(name)) {
    return name === 'AccessDeniedException'
      ? new PermanentError('BudgetAccessDenied', 'DynamoDB denied access to the budget', facts, error)
      : new PermanentError('BudgetRefused', 'DynamoDB refused a request of the budget', facts, error);
  }
  return new RetryableError('BudgetTableUnavailable', 'DynamoDB did not answer', facts, error);
}

// ----------------------------------------------------------------------------------------------------------- clock
// The time, which simulations replace.

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /**
   * @param ms a negative number does not wait
   * @throws the signal's reason when it is aborted first
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    sleep(Math.max(0, ms), undefined, signal && { signal }).catch((error: unknown) => {
      throw signal?.reason ?? error;
    }),
};

// -------------------------------------------------------------------------------------------------------- warnings
// Of failures that the limits do without: better to exceed a rate than to stop the pipeline.

const logged = new Set<string>();

/** Logs the first failure of a kind in this process. */
export function warnOnce(what: string, error: unknown): void {
  if (logged.has(what)) return;
  logged.add(what);
  logger.warn(what, error as Error);
}
