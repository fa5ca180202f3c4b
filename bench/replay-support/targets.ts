/** The replay's targets, in addition to AIPerf. */
import { atMost, type Check, round } from '../support/result.ts';

/** Latency of the server. */
export const LATENCY_MS = 50;

const TARGET_MEGABYTES = 200;
const TARGET_FIRST_SECONDS = 0.7;
const TARGET_LATENCY_SHARE = 0.05;
export const TARGET_REQUESTS_PER_SECOND = 4_000;

export const memoryCheck = (what: string, megabytes: number): Check =>
  atMost(`${what}: MB`, megabytes, TARGET_MEGABYTES);

export const firstRequestCheck = (what: string, seconds: number): Check =>
  atMost(`${what}: first request, s`, seconds, TARGET_FIRST_SECONDS);

/** Compares the latencies. @param p50 median latency as the replay measured it, ms */
export function latencyCheck(what: string, p50: number): Check {
  const share = Math.abs(p50 / LATENCY_MS - 1);
  return {
    ...atMost(`${what}: latency p50 relative to the server’s own ${LATENCY_MS} ms`, share, TARGET_LATENCY_SHARE),
    value: round(share, 4),
  };
}
