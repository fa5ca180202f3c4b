/** A DynamoDB table in memory, with as much of the expressions as the budget uses. The emulator tests the real ones. */
import {
  type AttributeValue,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  TransactionCanceledException,
  TransactWriteItemsCommand,
  type Update,
  type UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../../src/contract/names.ts';

type Item = Record<string, AttributeValue>;

export class MemoryTable {
  readonly items = new Map<string, Item>();
  /** Requests so far. */
  requests = 0;
  /** Loses the replies of this many writes: the SDK then repeats the write. */
  lostReplies = 0;

  /** Typed as the code under test expects it. */
  get client(): DynamoDBClient {
    return this as unknown as DynamoDBClient;
  }

  /** Returns a number of an item, 0 if it does not exist. */
  number(scope: string, name: string): number {
    return Number(this.items.get(scope)?.[name]?.N ?? 0);
  }

  async send(command: GetItemCommand | UpdateItemCommand | TransactWriteItemsCommand): Promise<unknown> {
    this.requests += 1;
    if (command instanceof GetItemCommand) return { Item: this.items.get(scopeOf(command.input.Key)) };
    const isTransaction = command instanceof TransactWriteItemsCommand;
    const updates = isTransaction
      ? (command.input.TransactItems ?? []).map(({ Update: update }) => update as Update)
      : [command.input as Update];
    const sends = this.lostReplies > 0 ? 2 : 1;
    this.lostReplies -= sends - 1;
    for (let sent = 0; sent < sends; sent += 1) {
      if (!updates.every((update) => this.#isAllowed(update))) throw refusal(isTransaction);
      for (const update of updates) this.#apply(update);
    }
    return isTransaction ? {} : { Attributes: this.items.get(scopeOf(command.input.Key)) };
  }

  #isAllowed(update: Update): boolean {
    const item = this.items.get(scopeOf(update.Key)) ?? {};
    const holds = (clause: string): boolean => {
      const absent = /^attribute_not_exists\((\S+)\)$/.exec(clause)?.[1];
      if (absent !== undefined) return valueAt(item, absent, update) === undefined;
      const [path = '', operator, name = ''] = clause.split(' ');
      const [stored, given] = [valueAt(item, path, update)?.N, givenValue(update, name).N];
      return stored !== undefined && (operator === '=' ? stored === given : Number(stored) <= Number(given));
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

const scopeOf = (key: Item | undefined): string => key?.[budgetTable.partitionKey]?.S ?? '';

const refusal = (isTransaction: boolean): Error => {
  const facts = { message: 'refused', $metadata: {} };
  return isTransaction
    ? new TransactionCanceledException({ ...facts, CancellationReasons: [{ Code: 'ConditionalCheckFailed' }] })
    : new ConditionalCheckFailedException(facts);
};

function givenValue(update: Update, name: string): AttributeValue {
  const value = update.ExpressionAttributeValues?.[name];
  if (value === undefined) throw new Error(`The expression has no value ${name}`);
  return value;
}

function valueAt(item: Item, path: string, update: Update): AttributeValue | undefined {
  const [first = '', second] = path.split('.').map((name) => update.ExpressionAttributeNames?.[name] ?? name);
  return second === undefined ? item[first] : item[first]?.M?.[second];
}
