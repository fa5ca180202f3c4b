/**
 * Collects the report's data other than the figures: the run over time, a sample of its requests, and the slowest and
 * the failed requests with their inputs. The size is bounded for runs of any length.
 */

import { Random } from '../../core/values/random.ts';
import { Body } from '../reply/content.ts';
import { Distribution, type DistributionJson } from './distribution.ts';
import { bodyPreview, type Measured, repliedBody, sentBody } from './measure.ts';

/** Buckets of time in a chart. If there are more, they are merged in pairs. */
const MAX_BUCKETS = 240;
const FIRST_BUCKET_MS = 250;
/** Single requests in the latency chart. More would overlap, and each takes 60 bytes of the page. */
const MAX_POINTS = 1_500;
const MAX_ERROR_POINTS = 1_000;
const SLOWEST = 20;
/** Maximum number of failed requests in the table: in all, and of one kind. */
const MAX_FAILED = 50;
const MAX_FAILED_OF_A_KIND = 10;
const LATENCY_SCALE = 1000;

export class TimeBucket {
  sent = 0;
  completed = 0;
  failed = 0;
  /** Maximum schedule lag, ms. */
  maxLag = 0;
  /** Maximum latency from the scheduled time, ms, of the requests that were scheduled in this bucket. */
  maxEffective = 0;
  readonly latency = new Distribution(LATENCY_SCALE);

  add(other: BucketJson): void {
    this.sent += other.sent;
    this.completed += other.completed;
    this.failed += other.failed;
    this.maxLag = Math.max(this.maxLag, other.maxLag);
    this.maxEffective = Math.max(this.maxEffective, other.maxEffective);
    this.latency.merge(other.latency);
  }

  toJSON(): BucketJson {
    return { ...this, latency: this.latency.toJSON() };
  }
}

interface BucketJson extends Record<'sent' | 'completed' | 'failed' | 'maxLag' | 'maxEffective', number> {
  latency: DistributionJson;
}

/** Seconds after the start, latency in ms, and whether the request failed. */
type Point = [seconds: number, latencyMs: number, failed: boolean];

/** Collects the requests of one process. Collections of several processes can be merged. */
export class ReportCollector {
  bucketMs = FIRST_BUCKET_MS;
  buckets = new Map<number, TimeBucket>();
  points: Point[] = [];
  errorPoints: Point[] = [];
  slowest: RequestRow[] = [];
  failed: RequestRow[] = [];
  #failedKinds = new Map<string, number>();
  #seen = 0;
  readonly #random = new Random(1);

  /** @param startAt when the run's clock started, as `performance.now()` */
  add(measured: Measured, startAt: number): void {
    const { exchange, error, scheduledAt, metrics } = measured;
    const at = exchange.startedAt - startAt;
    const latency = metrics.request_latency ?? exchange.endAt - exchange.startedAt;
    const lag = exchange.startedAt - scheduledAt;
    const sent = this.#bucket(at);
    sent.sent++;
    sent.maxLag = Math.max(sent.maxLag, lag);
    if (!error) sent.latency.add(latency);
    const done = this.#bucket(exchange.endAt - startAt);
    done.completed++;
    if (error) done.failed++;
    this.#addPoint([Math.round(at) / 1000, Math.round(latency * 100) / 100, error !== undefined]);
    if (error) {
      this.#addFailed(measured, startAt);
      return;
    }
    const effective = exchange.endAt - scheduledAt;
    const scheduled = this.#bucket(scheduledAt - startAt);
    scheduled.maxEffective = Math.max(scheduled.maxEffective, effective);
    this.#addSlow(measured, startAt, effective);
  }

  #bucket(atMs: number): TimeBucket {
    let index = Math.max(0, Math.floor(atMs / this.bucketMs));
    while (index >= MAX_BUCKETS) {
      this.#joinPairs();
      index = Math.max(0, Math.floor(atMs / this.bucketMs));
    }
    return this.#bucketAt(index);
  }

  #bucketAt(index: number): TimeBucket {
    const bucket = this.buckets.get(index) ?? new TimeBucket();
    this.buckets.set(index, bucket);
    return bucket;
  }

  #joinPairs(): void {
    const pairs = this.buckets;
    this.buckets = new Map();
    this.bucketMs *= 2;
    for (const [index, bucket] of pairs) this.#bucketAt(Math.floor(index / 2)).add(bucket.toJSON());
  }

  /** Draws a uniform sample of the requests that succeeded. Keeps all of the first failed requests. */
  #addPoint(point: Point): void {
    if (point[2]) {
      if (this.errorPoints.length < MAX_ERROR_POINTS) this.errorPoints.push(point);
      return;
    }
    this.#seen++;
    if (this.points.length < MAX_POINTS) {
      this.points.push(point);
      return;
    }
    const place = this.#random.below(this.#seen);
    if (place < MAX_POINTS) this.points[place] = point;
  }

  #addSlow(measured: Measured, startAt: number, effectiveMs: number): void {
    const least = this.slowest.at(-1);
    if (this.slowest.length >= SLOWEST && least && effectiveMs <= least.effectiveMs) return;
    this.#insertSlow(rowOf(measured, startAt));
  }

  #insertSlow(row: RequestRow): void {
    this.slowest.push(row);
    this.slowest.sort((a, b) => b.effectiveMs - a.effectiveMs);
    this.slowest.length = Math.min(this.slowest.length, SLOWEST);
  }

  #addFailed(measured: Measured, startAt: number): void {
    if (this.failed.length >= MAX_FAILED) return;
    const kind = `${measured.error?.code ?? ''} ${measured.error?.type}`;
    const known = this.#failedKinds.get(kind) ?? 0;
    if (known >= MAX_FAILED_OF_A_KIND) return;
    this.#failedKinds.set(kind, known + 1);
    this.failed.push(rowOf(measured, startAt));
  }

  /** Adds the data that another process collected with the same clock. */
  merge(json: CollectorJson): void {
    while (this.bucketMs < json.bucketMs) this.#joinPairs();
    for (const [index, bucket] of Object.entries(json.buckets))
      this.#bucketAt(Math.floor((Number(index) * json.bucketMs) / this.bucketMs)).add(bucket);
    while (Math.max(...this.buckets.keys()) >= MAX_BUCKETS) this.#joinPairs();
    this.#mergeSample(json.points, json.seen);
    for (const point of json.errorPoints) this.#addPoint(point);
    for (const row of json.slowest) this.#insertSlow(row);
    this.failed = [...this.failed, ...json.failed].slice(0, MAX_FAILED);
  }

  /**
   * Merges two uniform samples. Each draw chooses a side in proportion to the requests that its sample still
   * represents.
   */
  #mergeSample(points: readonly Point[], seen: number): void {
    const own = { points: this.points, seen: this.#seen };
    const other = { points: [...points], seen };
    this.points = [];
    this.#seen += seen;
    while (this.points.length < MAX_POINTS && own.points.length + other.points.length > 0) {
      const side = this.#random.below(own.seen + other.seen) < own.seen ? own : other;
      this.points.push(...side.points.splice(this.#random.below(side.points.length), 1));
      side.seen -= 1;
    }
  }

  toJSON() {
    const { bucketMs, points, errorPoints, slowest, failed } = this;
    const buckets = [...this.buckets].map(([index, bucket]) => [index, bucket.toJSON()] as const);
    return { bucketMs, buckets: Object.fromEntries(buckets), points, errorPoints, slowest, failed, seen: this.#seen };
  }
}

export type CollectorJson = ReturnType<ReportCollector['toJSON']>;

export type RequestRow = ReturnType<typeof rowOf>;

/** @returns `at`: seconds after the start */
function rowOf(measured: Measured, startAt: number) {
  const { request, exchange, error, scheduledAt, content } = measured;
  const { eventId, file, line, requestId, keep } = request;
  return {
    eventId,
    file,
    line,
    requestId,
    at: (exchange.startedAt - startAt) / 1000,
    latencyMs: exchange.endAt - exchange.startedAt,
    effectiveMs: exchange.endAt - scheduledAt,
    lagMs: exchange.startedAt - scheduledAt,
    error,
    input: bodyPreview('endpointInput', sentBody(request), keep),
    output: bodyPreview(
      'endpointOutput',
      content.text === '' ? repliedBody(exchange) : new Body(Buffer.from(content.text), 'text/plain'),
      keep,
    ),
  };
}
