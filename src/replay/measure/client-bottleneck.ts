/** Whether the replay client, rather than the target, limited a replay. */
import { neverSent } from './error-rate.ts';
import type { RunStats } from './run-stats.ts';

/** The client's own delay may be this share of the median latency before it counts as a distortion. */
const BOTTLENECK_SHARE = 0.1;
/** A shorter delay is not noticeable. */
const BOTTLENECK_MIN_MS = 10;

/**
 * Explains why this process could not keep to its schedule. Waiting for room under the concurrency cap does not count:
 * the target caused it, and it shows in the latency from the scheduled time.
 *
 * @returns `undefined` if the client was fast enough
 */
export function clientBottleneck(stats: RunStats): string | undefined {
  const own = neverSent(stats);
  if (own !== undefined) return own;
  const lag = stats.distributions.get('replay_client_lag');
  if (!lag || lag.count === 0) return undefined;
  const latency = stats.distributions.get('request_latency')?.percentile(50) ?? 0;
  const p99 = lag.percentile(99);
  const allowed = Math.max(BOTTLENECK_MIN_MS, BOTTLENECK_SHARE * latency);
  if (p99 <= allowed) return undefined;
  return `1% of the requests were sent ${p99.toFixed(1)} ms or more after their scheduled time because this client was busy; expected: at most ${allowed.toFixed(1)} ms`;
}
