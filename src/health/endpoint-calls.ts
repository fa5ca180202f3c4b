/**
 * Asks SageMaker and CloudWatch about an endpoint's calls, and checks whether the expected number of captures has
 * arrived.
 */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { callAws } from '../core/aws/aws-json.ts';
import type { AwsClient } from '../core/aws/aws-post.ts';
import { type HourlyCalls, hourlyCalls } from '../core/aws/cloudwatch.ts';
import type { Endpoint } from '../core/aws/endpoint.ts';
import { binomialCdf } from '../core/statistics/distributions.ts';
import { sum } from '../core/values/sum.ts';
import { type CountedCell, hourMs, type TimeWindow } from '../quality/counts-store.ts';

/** Number of hours whose captures must have arrived, and the minimum time since the last of these hours ended. */
const [ASKED_HOURS, SETTLED_MS] = [3, 30 * 60_000];
/** Below this chance, captures are missing. */
const SURE = 0.001;
/** A call at the end of an hour may be captured in the next one, and the two count calls a little differently. */
const TOLERANCE = 0.95;

export type EndpointCalls = Awaited<ReturnType<typeof askCalls>>;

interface Asked {
  window: TimeWindow;
  /** By hour and variant, at least of the window. */
  cells: readonly CountedCell[];
  nowMs: number;
  /** Start of the oldest run that may still count captures, epoch milliseconds; `Infinity` without such a run. */
  openMs: number;
}

/** Asks about the calls of a window. */
export async function askCalls(client: AwsClient, name: string, { window, cells, nowMs, openMs }: Asked) {
  const endpoint = await callAws<Endpoint>(client, 'api.sagemaker', 'DescribeEndpoint', { EndpointName: name });
  const { ProductionVariants: served = [], ShadowProductionVariants: shadow = [] } = endpoint;
  const variants = [...served, ...shadow].map(({ VariantName }) => VariantName);
  const toMs = Math.floor((nowMs - SETTLED_MS) / HOUR_MS) * HOUR_MS;
  const asked = { fromMs: toMs - ASKED_HOURS * HOUR_MS, toMs };
  const fromMs = Math.min(window.fromMs, asked.fromMs);
  const calls = await hourlyCalls(client, name, variants, fromMs, nowMs);
  const sinceMs = endpoint.LastModifiedTime * 1000;
  const isSettled = window.fromMs <= asked.fromMs && sinceMs < asked.fromMs && openMs >= toMs + SETTLED_MS;
  const total = (of: 'invocations' | 'serverErrors'): number =>
    sum(calls.filter((one) => one.hourMs >= window.fromMs).map((one) => one[of]));
  return {
    configuration: { name: endpoint.EndpointConfigName ?? '', sinceMs },
    /** Calls of all variants in the window. */
    invocations: total('invocations'),
    serverErrors: total('serverErrors'),
    missing: isSettled ? variants.flatMap((variant) => missingOf(variant, endpoint, asked, calls, cells)) : [],
  };
}

/**
 * Returns the captures that are missing of a variant, beside the invocations of the same hours, if so few have less than a chance of 0.1%.
 * `percent` is Data Capture's sampling percentage; 0 if it is off.
 */
function missingOf(
  variant: string,
  { DataCaptureConfig: capture }: Endpoint,
  asked: TimeWindow,
  calls: readonly HourlyCalls[],
  cells: readonly CountedCell[],
) {
  const isAsked = (ms: number): boolean => ms >= asked.fromMs && ms < asked.toMs;
  const own = cells.filter((one) => one.variant === variant && isAsked(hourMs(one.hour))).map(({ cell }) => cell);
  const byClient = sum(own.map(({ byClient: { streams = 0, calls: whole = 0 } = {} }) => streams + whole));
  const isOn = capture?.EnableCapture === true && capture.CaptureStatus !== 'Stopped';
  // The capture client writes only what the application configures.
  if (byClient > 0 && !isOn) return [];
  const captures = sum(own.map(({ captures: some = 0, notTraffic = 0 }) => some + notTraffic)) - byClient;
  const inTime = calls.filter((one) => one.variant === variant && isAsked(one.hourMs));
  // Whether failed calls are captured depends on where they failed, so leave them out.
  const invocations = sum(inTime.map((one) => one.invocations - one.serverErrors - one.clientErrors));
  const percent = isOn ? capture.CurrentSamplingPercentage : 0;
  const chance = binomialCdf(captures, invocations, (TOLERANCE * (isOn ? percent : 100)) / 100);
  return invocations > 0 && chance < SURE ? [{ variant, captures, invocations, percent, ...asked }] : [];
}
