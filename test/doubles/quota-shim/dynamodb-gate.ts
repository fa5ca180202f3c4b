/**
 * DynamoDB's limits: write units of a partition, which count the whole item in KB, and the size of an item. It also counts the units that on-demand tables charge. Every hash key is treated as a partition of its own, the
 * best that a table can do.
 */
import type { Reply, SeenRequest } from '../misbehaving-server.ts';
import { type Gate, jsonError, type Upstream, type Verdict } from './front.ts';
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
  RequestItems?: Record<string, Record<string, Body>[]>;
}

const KB = 1024;
const READ_UNIT = 4 * KB;
const TARGET = 'DynamoDB_20120810.';

const TOO_FAST =
  'Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly.';
const TOO_LARGE = 'Item size to update has exceeded the maximum allowed size';

export class DynamoGate implements Gate {
  readonly #limits: QuotaLimits;
  readonly #counts: Counts;
  readonly #now: () => number;
  readonly #partitions = new Map<string, Bucket>();
  readonly #hashKeys = new Map<string, Promise<string[]>>();

  constructor(limits: QuotaLimits, counts: Counts, now: () => number) {
    this.#now = now;
    this.#limits = limits;
    this.#counts = counts;
  }

  async admit(asked: SeenRequest, upstream: Upstream): Promise<Verdict> {
    const operation = String(asked.headers['x-amz-target'] ?? '').replace(TARGET, '');
    this.#counts.operation(`dynamodb ${operation}`);
    const body = JSON.parse(asked.body.toString() || '{}') as Body;
    const writes = await this.#writes(operation, body, asked, upstream);
    if (writes.length === 0) return { served: (reply) => this.#countRead(operation, body, reply) };
    return { answer: await this.#write(writes, asked, upstream) };
  }

  /** The items that a request writes. */
  async #writes(operation: string, body: Body, asked: SeenRequest, upstream: Upstream): Promise<Write[]> {
    const one = async (each: Body, table = each.TableName ?? ''): Promise<Write> => {
      const names = await this.#keyNames(table, asked, upstream);
      const key = each.Key ?? Object.fromEntries(names.map((name) => [name, each.Item?.[name] ?? {}]));
      return { table, key, added: sizeOf(each.Item ?? {}) + sizeOf(each.ExpressionAttributeValues ?? {}) };
    };
    if (['PutItem', 'UpdateItem', 'DeleteItem'].includes(operation)) return [await one(body)];
    if (operation !== 'BatchWriteItem') return [];
    const parts = Object.entries(body.RequestItems ?? {}).flatMap(([table, items]) =>
      items.flatMap((item) => Object.values(item).map((part) => one(part, table))),
    );
    return Promise.all(parts);
  }

  async #write(writes: readonly Write[], asked: SeenRequest, upstream: Upstream): Promise<Reply> {
    const { itemBytes = Number.POSITIVE_INFINITY } = this.#limits;
    const before = await Promise.all(writes.map((write) => this.#size(write, asked, upstream)));
    if (writes.some(({ added }, n) => (before[n] ?? 0) + added > itemBytes)) {
      return jsonError(400, 'ValidationException', TOO_LARGE);
    }
    const units = before.map((size) => Math.max(1, Math.ceil(size / KB)));
    const buckets = await Promise.all(writes.map((write) => this.#partition(write, asked, upstream)));
    if (buckets.some((bucket, n) => bucket?.take(units[n]) === false)) {
      this.#counts.throttled('partition writes');
      return jsonError(400, 'ThrottlingException', TOO_FAST);
    }
    const reply = await upstream.send(asked);
    for (const [n, write] of writes.entries()) {
      const after = Math.ceil((await this.#size(write, asked, upstream)) / KB);
      const used = Math.max(after, units[n] ?? 0);
      buckets[n]?.correct(used - (units[n] ?? 0));
      this.#counts.served('partition writes', used);
      this.#counts.operation('dynamodb write units', used);
    }
    return reply;
  }

  /** The hash key, then the range key if there is one. */
  #keyNames(table: string, asked: SeenRequest, upstream: Upstream): Promise<string[]> {
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

  async #partition(write: Write, asked: SeenRequest, upstream: Upstream): Promise<Bucket | undefined> {
    const { partitionWrites } = this.#limits;
    if (partitionWrites === undefined) return undefined;
    const [hashKey = ''] = await this.#keyNames(write.table, asked, upstream);
    const name = `${write.table} ${JSON.stringify(write.key[hashKey])}`;
    const bucket = this.#partitions.get(name) ?? new Bucket({ perSecond: partitionWrites }, this.#now);
    this.#partitions.set(name, bucket);
    return bucket;
  }

  async #size({ table, key }: Write, asked: SeenRequest, upstream: Upstream): Promise<number> {
    const question = { TableName: table, Key: key, ConsistentRead: true };
    const { Item } = (await ask(asked, upstream, 'GetItem', question)) as { Item?: Item };
    return sizeOf(Item ?? {});
  }

  #countRead(operation: string, { ConsistentRead }: Body, reply: Reply): void {
    if (!/^(?:GetItem|Query|Scan|BatchGetItem)$/.test(operation)) return;
    const units = Math.max(1, Math.ceil(reply.body.length / READ_UNIT)) * (ConsistentRead ? 1 : 0.5);
    this.#counts.operation('dynamodb read units', units);
  }
}

async function ask(asked: SeenRequest, upstream: Upstream, operation: string, question: object): Promise<unknown> {
  const headers = { ...asked.headers, 'x-amz-target': `${TARGET}${operation}` };
  const reply = await upstream.send({ ...asked, headers, body: Buffer.from(JSON.stringify(question)) });
  return JSON.parse(reply.body.toString() || '{}');
}

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
