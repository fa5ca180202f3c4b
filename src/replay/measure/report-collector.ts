/**
 * Collects the report's data other than the figures: the run over time, a sample of its requests, and the slowest and
 * the failed requests with their inputs. The size is bounded for runs of any length.
 */

import { Random } from '../../core/values/random.ts';
import { Body } from '../reply/content.ts';
import { Distribution } from './distribution.ts';
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
  /** Maximum latency from the scheduled time, ms, of the requests that were scheduled in this bucket. */
  maxEffective = 0;
  readonly latency = new Distribution(LATENCY_SCALE);

  add(other: ReturnType<TimeBucket['toJSON']>): void {
    this.sent += other.sent;
    this.completed += other.completed;
    this.failed += other.failed;
    this.maxEffective = Math.max(this.maxEffective, other.maxEffective);
    this.latency.merge(other.latency);
  }

  toJSON() {
    const { sent, completed, failed, maxEffective, latency } = this;
    return { sent, completed, failed, maxEffective, latency: latency.toJSON() };
  }
}

/** Seconds after the start, latency in ms, and the random number by which it was drawn. */
type Point = [seconds: number, latencyMs: number, drawn: number];

/** Draws a uniform sample of points: the points with the smallest random numbers. Samples can be merged. */
function sampleOf(most: number) {
  let points: Point[] = [];
  const kept = (): Point[] => points.toSorted(([, , a], [, , b]) => a - b).slice(0, most);
  return {
    kept,
    add: (...more: readonly Point[]): void => {
      points.push(...more);
      if (points.length > 2 * most) points = kept();
    },
  };
}

/** Collects the requests of one process. Collections of several processes can be merged. */
export class ReportCollector {
  bucketMs = FIRST_BUCKET_MS;
  buckets = new Map<number, TimeBucket>();
  readonly points = sampleOf(MAX_POINTS);
  readonly errorPoints = sampleOf(MAX_ERROR_POINTS);
  slowest: RequestRow[] = [];
  failed: RequestRow[] = [];
  #failedKinds = new Map<string, number>();
  readonly #random = new Random(1);

  /** @param startAt when the run's clock started, as `performance.now()` */
  add(measured: Measured, startAt: number): void {
    const { exchange, error, scheduledAt, metrics } = measured;
    const at = exchange.startedAt - startAt;
    const latency = metrics.request_latency ?? exchange.endAt - exchange.startedAt;
    const sent = this.#bucket(at);
    sent.sent++;
    if (!error) sent.latency.add(latency);
    const done = this.#bucket(exchange.endAt - startAt);
    done.completed++;
    if (error) done.failed++;
    const point: Point = [Math.round(at) / 1000, Math.round(latency * 100) / 100, this.#random.next()];
    (error ? this.errorPoints : this.points).add(point);
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
    while (atMs / this.bucketMs >= MAX_BUCKETS) this.#joinPairs();
    return this.#bucketAt(Math.max(0, Math.floor(atMs / this.bucketMs)));
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
    for (const [index, bucket] of Object.entries(json.buckets)) this.#bucket(Number(index) * json.bucketMs).add(bucket);
    this.points.add(...json.points);
    this.errorPoints.add(...json.errorPoints);
    for (const row of json.slowest) this.#insertSlow(row);
    this.failed = [...this.failed, ...json.failed].slice(0, MAX_FAILED);
  }

  toJSON() {
    const { bucketMs, slowest, failed } = this;
    const [points, errorPoints] = [this.points.kept(), this.errorPoints.kept()];
    const buckets = [...this.buckets].map(([index, bucket]) => [index, bucket.toJSON()] as const);
    return { bucketMs, buckets: Object.fromEntries(buckets), points, errorPoints, slowest, failed };
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
