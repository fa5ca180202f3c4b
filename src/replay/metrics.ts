/** The metrics of a request, with AIPerf 0.13's tags, units and names, so that its tools accept our files. */

export interface MetricDefinition {
  unit: string;
  /** The name in the CSV, without the unit. */
  header: string;
  /** Values are multiplied by this, since histograms count whole numbers. 1,000 turns milliseconds into microseconds. */
  scale: number;
  largerIsBetter?: boolean;
  /** The lowest value if it is below 0. Histograms count from there. */
  lowest?: number;
}

const ms = (header: string): MetricDefinition => ({ unit: 'ms', header, scale: 1000 });
const tokens = (header: string): MetricDefinition => ({ unit: 'tokens', header, scale: 1 });
/** A rate, with three decimals. */
const rate = (header: string): MetricDefinition => ({
  unit: 'tokens/sec/user',
  header,
  scale: 1000,
  largerIsBetter: true,
});
/** A size in KB of 1,024 bytes, exact to the byte. */
const kilobytes = (header: string): MetricDefinition => ({ unit: 'KB', header, scale: 1024 });

/** Metrics of single answered requests, in the order of a record's line. */
export const REQUEST_METRICS = {
  request_latency: ms('Request Latency'),
  input_sequence_length: tokens('Input Sequence Length'),
  output_sequence_length: tokens('Output Sequence Length'),
  output_token_count: tokens('Output Token Count'),
  reasoning_token_count: tokens('Reasoning Token Count'),
  usage_prompt_tokens: tokens('Usage Prompt Tokens'),
  usage_completion_tokens: tokens('Usage Completion Tokens'),
  usage_total_tokens: tokens('Usage Total Tokens'),
  usage_reasoning_tokens: tokens('Usage Reasoning Tokens'),
  time_to_first_token: ms('Time to First Token'),
  time_to_second_token: ms('Time to Second Token'),
  time_to_first_output_token: ms('Time to First Output Token'),
  inter_token_latency: ms('Inter Token Latency'),
  decode_duration: ms('Decode Duration'),
  e2e_output_token_throughput: rate('E2E Output Token Throughput'),
  output_token_throughput_per_user: rate('Output Token Throughput Per User'),
  prefill_throughput_per_user: rate('Prefill Throughput Per User'),
  http_req_blocked: ms('HTTP Blocked'),
  http_req_dns_lookup: ms('HTTP DNS Lookup'),
  http_req_connecting: ms('HTTP Connecting'),
  http_req_sending: ms('HTTP Sending'),
  http_req_waiting: ms('HTTP Waiting (TTFB)'),
  http_req_receiving: ms('HTTP Receiving'),
  http_req_duration: ms('HTTP Duration (excl. conn)'),
  http_req_connection_overhead: ms('HTTP Connection Overhead'),
  http_req_total: ms('HTTP Total Time'),
  http_req_data_sent: kilobytes('HTTP Data Sent'),
  http_req_data_received: kilobytes('HTTP Data Received'),
  http_req_chunks_sent: { unit: 'count', header: 'HTTP Chunks Sent', scale: 1 },
  http_req_chunks_received: { unit: 'count', header: 'HTTP Chunks Received', scale: 1 },
  http_req_connection_reused: { unit: 'ratio', header: 'HTTP Connection Reused', scale: 1 },
  /** Difference between the reply's length and the request's limit: -100% is an empty reply. */
  osl_mismatch_diff_pct: { unit: '%', header: 'OSL Mismatch Diff %', scale: 1000, lowest: -100 },
  good_request_count: { unit: 'requests', header: 'Good Request Count', scale: 1 },
} as const satisfies Record<string, MetricDefinition>;

export type RequestMetric = keyof typeof REQUEST_METRICS;

/** Distributions over the run that are not metrics of a record: gaps, failures and the schedule. */
const RUN_METRICS = {
  inter_chunk_latency: ms('Inter Chunk Latency'),
  error_isl: tokens('Error Input Sequence Length'),
  effective_latency: ms('Effective Latency (CO-aware)'),
  credit_to_start_latency: ms('Credit-to-Start Latency'),
  /** Not in AIPerf: the part of the lag that the client causes, without waiting for the concurrency cap. */
  replay_client_lag: ms('Replay Client Lag'),
  /** Not in AIPerf: what the capture client measured of the same requests. No threshold compares with it. */
  captured_latency: ms('Captured Latency, measured elsewhere'),
  captured_time_to_first_token: ms('Captured Time to First Token, measured elsewhere'),
} as const satisfies Record<string, MetricDefinition>;

type RunMetric = keyof typeof RUN_METRICS;
export type DistributionMetric = RequestMetric | RunMetric;

export const DISTRIBUTION_METRICS: Record<DistributionMetric, MetricDefinition> = {
  ...REQUEST_METRICS,
  ...RUN_METRICS,
};

export const isRequestMetric = (tag: string): tag is RequestMetric => Object.hasOwn(REQUEST_METRICS, tag);
