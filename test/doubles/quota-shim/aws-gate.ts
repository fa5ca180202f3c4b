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

/** Takes a unit, and counts it. @returns the answer if there is none */
function takeOne(tokens: Bucket | undefined, counts: Counts, limit: string, answer: Reply): Verdict {
  if (tokens?.take() === false) {
    counts.throttled(limit);
    return { answer };
  }
  counts.served(limit);
  return undefined;
}

const RATE_EXCEEDED = ['ThrottlingException', 'Rate exceeded'] as const;

export function awsGate(limits: QuotaLimits, counts: Counts, now: () => number): Gate {
  const dynamo = new DynamoGate(limits, counts, now);
  const starts = limits.startExecution && new Bucket(limits.startExecution, now);
  const buckets = new Map<string, Bucket>();
  const s3 = ({ method, path }: SeenRequest): Verdict => {
    const url = new URL(path, 'http://s3');
    const bucket = url.pathname.split('/')[1] ?? '';
    const isList = method === 'GET' && url.pathname.split('/').slice(2).join('') === '';
    counts.operation(`s3 ${isList ? 'LIST' : method} ${bucket}`);
    const isRead = method === 'GET' || method === 'HEAD';
    const limit = isRead ? 's3 reads' : 's3 writes';
    const rate = isRead ? limits.s3Reads : limits.s3Writes;
    const name = `${bucket} ${limit}`;
    const tokens = buckets.get(name) ?? (rate && new Bucket(rate, now));
    if (tokens) buckets.set(name, tokens);
    return takeOne(tokens, counts, limit, SLOW_DOWN);
  };
  const admit = (asked: SeenRequest, upstream: Upstream): Promise<Verdict> | Verdict => {
    const service = /\/([\w-]+)\/aws4_request/.exec(asked.headers.authorization ?? '')?.[1] ?? 'unsigned';
    if (service === 'dynamodb') return dynamo.admit(asked, upstream);
    if (service === 's3') return s3(asked);
    const target = String(asked.headers['x-amz-target'] ?? '')
      .split('.')
      .at(-1);
    const operation = target || `${asked.method} ${asked.path.split(/[?/]/)[1] ?? ''}`;
    counts.operation(`${service} ${operation}`);
    if (service !== 'states' || operation !== 'StartExecution') return undefined;
    return takeOne(starts, counts, 'start execution', jsonError(400, ...RATE_EXCEEDED));
  };
  return { admit };
}

/** MLflow behind a rate, as managed MLflow answers above it. */
export function mlflowGate({ mlflow }: QuotaLimits, counts: Counts, now: () => number): Gate {
  const tokens = mlflow && new Bucket(mlflow, now);
  const admit = ({ method, path }: SeenRequest): Verdict => {
    // Ids differ in each request.
    const route = (path.split('?')[0] ?? '').replace(/\/(?:tr-[0-9a-f]+|a-[\w-]+|\d+)(?=\/|$)/g, '/{id}');
    counts.operation(`mlflow ${method} ${route}`);
    return takeOne(tokens, counts, 'mlflow', jsonError(429, ...RATE_EXCEEDED));
  };
  return { admit };
}
