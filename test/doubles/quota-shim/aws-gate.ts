/** The gate in front of emulated AWS: it tells the services apart by the signature, and imposes the limits of each. */

import type { Reply, SeenRequest } from '../misbehaving-server.ts';
import { DynamoGate } from './dynamodb-gate.ts';
import { type Gate, jsonError, type Upstream, type Verdict } from './front.ts';
import type { QuotaLimits } from './limits.ts';
import { Bucket, type Counts } from './meter.ts';

const SLOW_DOWN: Reply = {
  status: 503,
  headers: { 'content-type': 'application/xml' },
  body: Buffer.from(
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>',
  ),
};

export class AwsGate implements Gate {
  readonly #limits: QuotaLimits;
  readonly #counts: Counts;
  readonly #now: () => number;
  readonly #dynamo: DynamoGate;
  readonly #starts: Bucket | undefined;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limits: QuotaLimits, counts: Counts, now: () => number) {
    this.#limits = limits;
    this.#counts = counts;
    this.#now = now;
    this.#dynamo = new DynamoGate(limits, counts, now);
    this.#starts = limits.startExecution && new Bucket(limits.startExecution, now);
  }

  admit(asked: SeenRequest, upstream: Upstream): Promise<Verdict> | Verdict {
    const service = /\/([\w-]+)\/aws4_request/.exec(asked.headers.authorization ?? '')?.[1] ?? 'unsigned';
    if (service === 'dynamodb') return this.#dynamo.admit(asked, upstream);
    if (service === 's3') return this.#s3(asked);
    const target = String(asked.headers['x-amz-target'] ?? '')
      .split('.')
      .at(-1);
    const operation = target || `${asked.method} ${asked.path.split(/[?/]/)[1] ?? ''}`;
    this.#counts.operation(`${service} ${operation}`);
    if (service !== 'states' || operation !== 'StartExecution') return undefined;
    if (this.#starts?.take() === false) {
      this.#counts.throttled('start execution');
      return { answer: jsonError(400, 'ThrottlingException', 'Rate exceeded') };
    }
    this.#counts.served('start execution');
    return undefined;
  }

  #s3({ method, path }: SeenRequest): Verdict {
    const url = new URL(path, 'http://s3');
    const bucket = url.pathname.split('/')[1] ?? '';
    const isList = method === 'GET' && url.pathname.split('/').slice(2).join('') === '';
    this.#counts.operation(`s3 ${isList ? 'LIST' : method} ${bucket}`);
    const isRead = method === 'GET' || method === 'HEAD';
    const limit = isRead ? 's3 reads' : 's3 writes';
    const rate = isRead ? this.#limits.s3Reads : this.#limits.s3Writes;
    const name = `${bucket} ${limit}`;
    const tokens = this.#buckets.get(name) ?? (rate && new Bucket(rate, this.#now));
    if (tokens) this.#buckets.set(name, tokens);
    if (tokens?.take() === false) {
      this.#counts.throttled(limit);
      return { answer: SLOW_DOWN };
    }
    this.#counts.served(limit);
    return undefined;
  }
}

/** MLflow behind a rate, as managed MLflow answers above it. */
export class MlflowGate implements Gate {
  readonly #counts: Counts;
  readonly #tokens: Bucket | undefined;

  constructor({ mlflow }: QuotaLimits, counts: Counts, now: () => number) {
    this.#counts = counts;
    this.#tokens = mlflow && new Bucket(mlflow, now);
  }

  admit({ method, path }: SeenRequest): Verdict {
    // Ids differ in each request.
    const route = (path.split('?')[0] ?? '').replace(/\/(?:tr-[0-9a-f]+|a-[\w-]+|\d+)(?=\/|$)/g, '/{id}');
    this.#counts.operation(`mlflow ${method} ${route}`);
    if (this.#tokens?.take() === false) {
      this.#counts.throttled('mlflow');
      return { answer: jsonError(429, 'ThrottlingException', 'Rate exceeded') };
    }
    this.#counts.served('mlflow');
    return undefined;
  }
}
