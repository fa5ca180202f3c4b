/** A DynamoDB table in memory, with as much of the expressions as the budget uses. The emulator tests the real ones. */
import {
  type AttributeValue,
  BatchGetItemCommand,
  BatchWriteItemCommand,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  type Update,
  type UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../../src/core/contract/names.ts';
import { LimitsTable } from '../../src/limits/table.ts';

type Item = Record<string, AttributeValue>;

/** Returns the table of the limits, in memory. */
export const memoryLimits = (table = new MemoryTable()): LimitsTable => new LimitsTable(table.client, 'table');
/** What an attempt at a chunk needs besides a storage and MLflow. */
export const memoryWriting = () => ({ table: memoryLimits(), answers: memoryLimits(), remainingMs: () => 900_000 });

export class MemoryTable {
  readonly items = new Map<string, Item>();
  /** Requests so far. */
  requests = 0;
  /** Loses the replies of this many writes: the SDK then repeats the write, unless its sender forbids it. */
  lostReplies = 0;
  /** How much of a batch is read. The rest is left out, as DynamoDB does when it throttles. */
  batchItems = Number.POSITIVE_INFINITY;
  /** Called with each write before it is made: the key, and the write units that it costs. May throw. */
  onWrite: ((scope: string, units: number) => void) | undefined;

  /** Typed as the code under test expects it. */
  get client(): DynamoDBClient {
    return this as unknown as DynamoDBClient;
  }

  /** Returns a number of an item, 0 if it does not exist. */
  number(scope: string, name: string): number {
    return Number(this.items.get(scope)?.[name]?.N ?? 0);
  }

  async send(
    command: GetItemCommand | UpdateItemCommand | BatchGetItemCommand | BatchWriteItemCommand,
  ): Promise<unknown> {
    this.requests += 1;
    if (command instanceof BatchGetItemCommand) return this.#getAll(command.input.RequestItems ?? {});
    if (command instanceof BatchWriteItemCommand) return this.#putAll(command.input.RequestItems ?? {});
    if (command instanceof GetItemCommand) return { Item: this.items.get(scopeOf(command.input.Key)) };
    const update = command.input as Update;
    const scope = scopeOf(update.Key);
    const before = command.input.ReturnValues === 'ALL_OLD' ? (this.items.get(scope) ?? {}) : undefined;
    const isLost = this.lostReplies > 0;
    if (isLost) this.lostReplies -= 1;
    const isOnce = command.middlewareStack.identify().some((name) => name.includes('sentOnce'));
    for (let sent = 0; sent < (isLost && !isOnce ? 2 : 1); sent += 1) {
      // A write costs a unit for each KB of the whole item.
      this.onWrite?.(scope, Math.max(1, Math.ceil(this.sizeOf(scope) / 1024)));
      if (!this.#isAllowed(update)) {
        throw new ConditionalCheckFailedException({ message: 'refused', $metadata: { httpStatusCode: 400 } });
      }
      this.#apply(update);
    }
    if (isLost && isOnce) throw Object.assign(new Error('socket hang up'), { name: 'TimeoutError' });
    return { Attributes: before ?? this.items.get(scope) };
  }

  #getAll(asked: Record<string, { Keys: Item[] | undefined }>): unknown {
    const [name = '', { Keys: keys = [] } = {}] = Object.entries(asked)[0] ?? [];
    if (new Set(keys.map(scopeOf)).size < keys.length)
      throw new Error('Provided list of item keys contains duplicates');
    const left = keys.splice(this.batchItems);
    const isThere = (key: Item): boolean => this.items.has(scopeOf(key));
    const found = keys.filter(isThere).map((key) => ({ ...key, ...this.items.get(scopeOf(key)) }));
    return { Responses: { [name]: found }, UnprocessedKeys: left.length > 0 ? { [name]: { Keys: left } } : {} };
  }

  #putAll(asked: Record<string, { PutRequest?: { Item: Item | undefined } | undefined }[]>): unknown {
    const [name = '', puts = []] = Object.entries(asked)[0] ?? [];
    const left = puts.splice(this.batchItems);
    for (const { PutRequest: { Item: item = {} } = {} } of puts) {
      this.onWrite?.(scopeOf(item), 1);
      this.items.set(scopeOf(item), item);
    }
    return { UnprocessedItems: left.length > 0 ? { [name]: left } : {} };
  }

  /** The size of an item in bytes, by DynamoDB's rules for texts and numbers. */
  sizeOf(scope: string): number {
    const sizes = Object.entries(this.items.get(scope) ?? {}).map(
      ([name, { N, S }]) => name.length + (N === undefined ? Buffer.byteLength(S ?? '') : 1 + Math.ceil(N.length / 2)),
    );
    return sizes.reduce((sum, size) => sum + size, budgetTable.partitionKey.length + Buffer.byteLength(scope));
  }

  #isAllowed(update: Update): boolean {
    const item = this.items.get(scopeOf(update.Key)) ?? {};
    const holds = (clause: string): boolean => {
      const absent = /^attribute_not_exists\((\S+)\)$/.exec(clause)?.[1];
      if (absent !== undefined) return valueAt(item, absent, update) === undefined;
      const [path = '', operator, name = ''] = clause.split(' ');
      const [stored, given] = [valueAt(item, path, update)?.N, givenValue(update, name).N];
      const text = givenValue(update, name).S;
      if (text !== undefined) return (valueAt(item, path, update)?.S === text) === (operator === '=');
      if (stored === undefined || given === undefined) return false;
      const compare = COMPARISONS[operator ?? ''];
      if (compare === undefined) throw new Error(`The table does not know ${clause}`);
      return compare(Number(stored), Number(given));
    };
    const clauses = update.ConditionExpression?.split(' AND ') ?? [];
    return clauses.every((clause) =>
      clause
        .replace(/^\((.* OR .*)\)$/, '$1')
        .split(' OR ')
        .some(holds),
    );
  }

  #apply(update: Update): void {
    const item = { ...this.items.get(scopeOf(update.Key)) };
    for (const [, action, list = ''] of (update.UpdateExpression ?? '').matchAll(
      /(SET|REMOVE|ADD) (.*?)(?= (?:SET|REMOVE|ADD) |$)/g,
    )) {
      for (const clause of list.split(', ')) {
        const [path = '', second = '', third = ''] = clause.split(' ');
        const name = update.ExpressionAttributeNames?.[path] ?? path;
        if (action === 'REMOVE') delete item[name];
        else if (action === 'SET') item[name] = givenValue(update, third);
        else item[name] = { N: String(Number(item[name]?.N ?? 0) + Number(givenValue(update, second).N)) };
      }
    }
    this.items.set(scopeOf(update.Key), item);
  }
}

const COMPARISONS: Record<string, (a: number, b: number) => boolean> = {
  '=': (a, b) => a === b,
  '<=': (a, b) => a <= b,
  '<': (a, b) => a < b,
  '>': (a, b) => a > b,
};

const scopeOf = (key: Item | undefined): string => key?.[budgetTable.partitionKey]?.S ?? '';

function givenValue(update: Update, name: string): AttributeValue {
  const value = update.ExpressionAttributeValues?.[name];
  if (value === undefined) throw new Error(`The expression has no value ${name}`);
  return value;
}

function valueAt(item: Item, path: string, update: Update): AttributeValue | undefined {
  const [first = '', second] = path.split('.').map((name) => update.ExpressionAttributeNames?.[name] ?? name);
  return second === undefined ? item[first] : item[first]?.M?.[second];
}
