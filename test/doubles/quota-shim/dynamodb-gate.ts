/**
 * DynamoDB's limits: write units of a partition, which count the whole item in KB, conflicts of transactions, and the size of
 * an item. It also counts the units that on-demand tables charge. Every hash key is treated as a partition of its own, the
 * best that a table can do.
 */
import { type Asked, type Gate, jsonError, type Reply, type Upstream, type Verdict } from './front.ts';
import type { QuotaLimits } from './limits.ts';
import { Bucket, type Counts } from './meter.ts';

type Value = Record<string, unknown>;
type Item = Record<string, Value>;

interface Write {
  table: string;
  key: Item;
  /** Bytes that the request may add to the item. */
  added: number;
}

interface Body {
  TableName?: string;
  Key?: Item;
  Item?: Item;
  ConsistentRead?: boolean;
  ExpressionAttributeValues?: Item;
  TransactItems?: Record<string, Body>[];
  RequestItems?: Record<string, Record<string, Body>[]>;
}

const KB = 1024;
const READ_UNIT = 4 * KB;
const TARGET = 'DynamoDB_20120810.';

const CONFLICT = 'Transaction is ongoing for the item';
const TOO_FAST =
  'Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly.';
const TOO_LARGE = 'Item size to update has exceeded the maximum allowed size';

export class DynamoGate implements Gate {
  readonly #limits: QuotaLimits;
  readonly #counts: Counts;
  readonly #now: () => number;
  readonly #partitions = new Map<string, Bucket>();
  readonly #hashKeys = new Map<string, Promise<string[]>>();
  /** Items that are being written, and how. */
  readonly #busy = new Map<string, { transactions: number; writes: number }>();

  constructor(limits: QuotaLimits, counts: Counts, now: () => number) {
    this.#now = now;
    this.#limits = limits;
    this.#counts = counts;
  }

  async admit(asked: Asked, upstream: Upstream): Promise<Verdict> {
    const operation = String(asked.headers['x-amz-target'] ?? '').replace(TARGET, '');
    this.#counts.operation(`dynamodb ${operation}`);
    const body = JSON.parse(asked.body.toString() || '{}') as Body;
    const writes = await this.#writes(operation, body, asked, upstream);
    if (writes.length === 0) return { served: (reply) => this.#countRead(operation, body, reply) };
    return { answer: await this.#write(operation === 'TransactWriteItems', writes, asked, upstream) };
  }

  /** The items that a request writes or, in a transaction, checks. */
  async #writes(operation: string, body: Body, asked: Asked, upstream: Upstream): Promise<Write[]> {
    const one = async (each: Body, table = each.TableName ?? ''): Promise<Write> => {
      const names = await this.#keyNames(table, asked, upstream);
      const key = each.Key ?? Object.fromEntries(names.map((name) => [name, each.Item?.[name] ?? {}]));
      return { table, key, added: sizeOf(each.Item ?? {}) + sizeOf(each.ExpressionAttributeValues ?? {}) };
    };
    if (['PutItem', 'UpdateItem', 'DeleteItem'].includes(operation)) return [await one(body)];
    if (operation === 'TransactWriteItems') {
      const parts = (body.TransactItems ?? []).flatMap((item) => Object.values(item));
      return Promise.all(parts.map((part) => one(part)));
    }
    if (operation !== 'BatchWriteItem') return [];
    const parts = Object.entries(body.RequestItems ?? {}).flatMap(([table, items]) =>
      items.flatMap((item) => Object.values(item).map((part) => one(part, table))),
    );
    return Promise.all(parts);
  }

  async #write(isTransaction: boolean, writes: readonly Write[], asked: Asked, upstream: Upstream): Promise<Reply> {
    const { transactionMs = 0, itemBytes = Number.POSITIVE_INFINITY } = this.#limits;
    const names = writes.map(nameOf);
    for (const limit of ['transaction conflicts', 'partition writes']) this.#counts.asked(limit);
    const conflicts = names.map((name) => this.#conflicts(name, isTransaction));
    if (transactionMs > 0 && conflicts.includes(true)) {
      this.#counts.throttled('transaction conflicts');
      return isTransaction
        ? canceled(conflicts.map((is) => (is ? 'TransactionConflict' : 'None')))
        : jsonError(400, 'TransactionConflictException', `${CONFLICT}`);
    }
    this.#counts.served('transaction conflicts');
    for (const name of names) this.#enter(name, isTransaction, 1);
    const held = isTransaction ? new Promise((resolve) => setTimeout(resolve, transactionMs)) : undefined;
    try {
      const before = await Promise.all(writes.map((write) => this.#size(write, asked, upstream)));
      if (writes.some(({ added }, n) => (before[n] ?? 0) + added > itemBytes)) {
        return isTransaction
          ? canceled(writes.map(() => 'ValidationError'))
          : jsonError(400, 'ValidationException', TOO_LARGE);
      }
      const factor = isTransaction ? 2 : 1;
      const units = before.map((size) => Math.max(1, Math.ceil(size / KB)) * factor);
      const buckets = await Promise.all(writes.map((write) => this.#partition(write, asked, upstream)));
      const refused = buckets.map((bucket, n) => bucket?.take(units[n]) === false);
      if (refused.includes(true)) {
        this.#counts.throttled('partition writes');
        return isTransaction
          ? canceled(refused.map((is) => (is ? 'ThrottlingError' : 'None')))
          : jsonError(400, 'ThrottlingException', TOO_FAST);
      }
      const reply = await upstream.send(asked);
      await held;
      for (const [n, write] of writes.entries()) {
        const after = Math.ceil((await this.#size(write, asked, upstream)) / KB) * factor;
        const used = Math.max(after, units[n] ?? 0);
        buckets[n]?.correct(used - (units[n] ?? 0));
        this.#counts.served('partition writes', used);
        this.#counts.operation('dynamodb write units', used);
      }
      return reply;
    } finally {
      for (const name of names) this.#enter(name, isTransaction, -1);
    }
  }

  #conflicts(name: string, isTransaction: boolean): boolean {
    const { transactions = 0, writes = 0 } = this.#busy.get(name) ?? {};
    return transactions > 0 || (isTransaction && writes > 0);
  }

  #enter(name: string, isTransaction: boolean, by: number): void {
    const busy = this.#busy.get(name) ?? { transactions: 0, writes: 0 };
    busy[isTransaction ? 'transactions' : 'writes'] += by;
    if (busy.transactions + busy.writes === 0) this.#busy.delete(name);
    else this.#busy.set(name, busy);
  }

  /** The hash key, then the range key if there is one. */
  #keyNames(table: string, asked: Asked, upstream: Upstream): Promise<string[]> {
    const known = this.#hashKeys.get(table);
    if (known) return known;
    const found = ask(asked, upstream, 'DescribeTable', { TableName: table }).then((reply) => {
      const { Table } = reply as { Table?: { KeySchema?: { AttributeName: string; KeyType: string }[] } };
      const keys = Table?.KeySchema ?? [];
      return keys.toSorted((a, b) => a.KeyType.localeCompare(b.KeyType)).map((key) => key.AttributeName);
    });
    this.#hashKeys.set(table, found);
    return found;
  }

  async #partition(write: Write, asked: Asked, upstream: Upstream): Promise<Bucket | undefined> {
    const { partitionWrites } = this.#limits;
    if (partitionWrites === undefined) return undefined;
    const [hashKey = ''] = await this.#keyNames(write.table, asked, upstream);
    const name = `${write.table} ${JSON.stringify(write.key[hashKey])}`;
    const bucket = this.#partitions.get(name) ?? new Bucket({ perSecond: partitionWrites }, this.#now);
    this.#partitions.set(name, bucket);
    return bucket;
  }

  async #size({ table, key }: Write, asked: Asked, upstream: Upstream): Promise<number> {
    const question = { TableName: table, Key: key, ConsistentRead: true };
    const { Item } = (await ask(asked, upstream, 'GetItem', question)) as { Item?: Item };
    return sizeOf(Item ?? {});
  }

  #countRead(operation: string, { ConsistentRead }: Body, reply: Reply): void {
    if (!/^(?:GetItem|Query|Scan|BatchGetItem|TransactGetItems)$/.test(operation)) return;
    const units = Math.max(1, Math.ceil(reply.body.length / READ_UNIT)) * (ConsistentRead ? 1 : 0.5);
    this.#counts.operation('dynamodb read units', units);
  }
}

const nameOf = ({ table, key }: Write): string => `${table} ${JSON.stringify(key)}`;

async function ask(asked: Asked, upstream: Upstream, operation: string, question: object): Promise<unknown> {
  const headers = { ...asked.headers, 'x-amz-target': `${TARGET}${operation}` };
  const reply = await upstream.send({ ...asked, headers, body: Buffer.from(JSON.stringify(question)) });
  return JSON.parse(reply.body.toString() || '{}');
}

const canceled = (codes: readonly string[]): Reply =>
  jsonError(
    400,
    'TransactionCanceledException',
    `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes.join(', ')}]`,
    { CancellationReasons: codes.map((Code) => (Code === 'None' ? { Code } : { Code, Message: `${CONFLICT}` })) },
  );

/** The bytes of an item as DynamoDB counts them: names and values, with 3 bytes for each list or map and 1 for each member. */
export function sizeOf(item: Item): number {
  return Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + sizeOfValue(value), 0);
}

function sizeOfValue(value: Value): number {
  const [[type, content] = ['NULL', true]] = Object.entries(value);
  if (type === 'S') return Buffer.byteLength(String(content));
  if (type === 'N') return Math.ceil(String(content).replace(/\D/g, '').length / 2) + 1;
  if (type === 'B') return Math.ceil((String(content).length * 3) / 4);
  if (type === 'M') {
    const members = Object.entries(content as Item);
    return members.reduce((sum, [name, each]) => sum + 1 + Buffer.byteLength(name) + sizeOfValue(each), 3);
  }
  if (type === 'L') return (content as Value[]).reduce((sum, each) => sum + 1 + sizeOfValue(each), 3);
  if (Array.isArray(content)) return content.reduce((sum: number, each) => sum + String(each).length, 0);
  return 1;
}
