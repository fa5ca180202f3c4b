/** The times of a call that show how fast the endpoint is, by the names of their scorers. */
import { failureOf } from './failure.ts';
import type { Capture } from './types.ts';

export type CallTimes = {
  [name in 'latency_ms' | 'time_to_first_token_ms' | 'output_tokens_per_second']?: number | undefined;
};

/** A higher rate cannot be real, and would displace true values in the bins of the counts. */
const MAX_TOKENS_PER_SECOND = 1e6;

/** Returns the times of a reply that came whole and without an error, and of a stream that broke the first token. */
export function callTimesOf(capture: Pick<Capture, 'call' | 'error' | 'usage'>): CallTimes {
  const { call, usage } = capture;
  const firstToken = call?.firstTokenMs;
  if (call?.ended === 'broke') return { time_to_first_token_ms: firstToken };
  if (call?.ended !== 'whole' || failureOf(capture) !== undefined) return {};
  const times = { latency_ms: call.endMs, time_to_first_token_ms: firstToken };
  if (firstToken === undefined || usage?.outputTokens === undefined) return times;
  const rate = (1000 * usage.outputTokens) / (call.endMs - firstToken);
  return rate <= MAX_TOKENS_PER_SECOND ? { ...times, output_tokens_per_second: rate } : times;
}
