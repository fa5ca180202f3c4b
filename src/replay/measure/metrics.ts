/** The metrics of a request, by AIPerf 0.13's tags, units and names, so that its readers take our files. */

export interface MetricDefinition {
  tag: string;
  unit: string;
  /** Its name in the CSV, without the unit. */
  header: string;
  /** Histograms count whole numbers: values are multiplied by this. 1,000 makes milliseconds microseconds. */
  scale: number;
  largerIsBetter?: boolean;
  /** Lowest value, where it is below 0; histograms count from there. */
  lowest?: number;
}

const ms = (tag: string, header: string): MetricDefinition => ({ tag, unit: 'ms', header, scale: 1000 });
const tokens = (tag: string, header: string): MetricDefinition => ({ tag, unit: 'tokens', header, scale: 1 });
/** Three decimals of a rate. */
const rate = (tag: string, header: string): MetricDefinition => ({
  tag,
  unit: 'tokens/sec/user',
  header,
  scale: 1000,
  largerIsBetter: true,
});
/** Bytes: a KB is 1,024 of them. */
const kilobytes = (tag: string, header: string): MetricDefinition => ({ tag, unit: 'KB', header, scale: 1024 });

/** Metrics of single requests that were answered. The order is that of the record's line. */
export const REQUEST_METRICS = {
  request_latency: ms('request_latency', 'Request Latency'),
  input_sequence_length: tokens('input_sequence_length', 'Input Sequence Length'),
  output_sequence_length: tokens('output_sequence_length', 'Output Sequence Length'),
  output_token_count: tokens('output_token_count', 'Output Token Count'),
  reasoning_token_count: tokens('reasoning_token_count', 'Reasoning Token Count'),
  usage_prompt_tokens: tokens('usage_prompt_tokens', 'Usage Prompt Tokens'),
  usage_completion_tokens: tokens('usage_completion_tokens', 'Usage Completion Tokens'),
  usage_total_tokens: tokens('usage_total_tokens', 'Usage Total Tokens'),
  usage_reasoning_tokens: tokens('usage_reasoning_tokens', 'Usage Reasoning Tokens'),
  time_to_first_token: ms('time_to_first_token', 'Time to First Token'),
  time_to_second_token: ms('time_to_second_token', 'Time to Second Token'),
  time_to_first_output_token: ms('time_to_first_output_token', 'Time to First Output Token'),
  inter_token_latency: ms('inter_token_latency', 'Inter Token Latency'),
  decode_duration: ms('decode_duration', 'Decode Duration'),
  e2e_output_token_throughput: rate('e2e_output_token_throughput', 'E2E Output Token Throughput'),
  output_token_throughput_per_user: rate('output_token_throughput_per_user', 'Output Token Throughput Per User'),
  prefill_throughput_per_user: rate('prefill_throughput_per_user', 'Prefill Throughput Per User'),
  http_req_blocked: ms('http_req_blocked', 'HTTP Blocked'),
  http_req_dns_lookup: ms('http_req_dns_lookup', 'HTTP DNS Lookup'),
  http_req_connecting: ms('http_req_connecting', 'HTTP Connecting'),
  http_req_sending: ms('http_req_sending', 'HTTP Sending'),
  http_req_waiting: ms('http_req_waiting', 'HTTP Waiting (TTFB)'),
  http_req_receiving: ms('http_req_receiving', 'HTTP Receiving'),
  http_req_duration: ms('http_req_duration', 'HTTP Duration (excl. conn)'),
  http_req_connection_overhead: ms('http_req_connection_overhead', 'HTTP Connection Overhead'),
  http_req_total: ms('http_req_total', 'HTTP Total Time'),
  http_req_data_sent: kilobytes('http_req_data_sent', 'HTTP Data Sent'),
  http_req_data_received: kilobytes('http_req_data_received', 'HTTP Data Received'),
  http_req_chunks_sent: { tag: 'http_req_chunks_sent', unit: 'count', header: 'HTTP Chunks Sent', scale: 1 },
  http_req_chunks_received: {
    tag: 'http_req_chunks_received',
    unit: 'count',
    header: 'HTTP Chunks Received',
    scale: 1,
  },
  http_req_connection_reused: {
    tag: 'http_req_connection_reused',
    unit: 'ratio',
    header: 'HTTP Connection Reused',
    scale: 1,
  },
  /** Tokens of the reply against the request's own limit, signed: -100% is an empty reply. */
  osl_mismatch_diff_pct: {
    tag: 'osl_mismatch_diff_pct',
    unit: '%',
    header: 'OSL Mismatch Diff %',
    scale: 1000,
    lowest: -100,
  },
  good_request_count: { tag: 'good_request_count', unit: 'requests', header: 'Good Request Count', scale: 1 },
} as const satisfies Record<string, MetricDefinition>;

export type RequestMetric = keyof typeof REQUEST_METRICS;

/** Distributions over the run that are not in the metrics of a record: of gaps, of failures, of the schedule. */
const RUN_METRICS = {
  inter_chunk_latency: ms('inter_chunk_latency', 'Inter Chunk Latency'),
  error_isl: tokens('error_isl', 'Error Input Sequence Length'),
  effective_latency: ms('effective_latency', 'Effective Latency (CO-aware)'),
  credit_to_start_latency: ms('credit_to_start_latency', 'Credit-to-Start Latency'),
  /** Ours: the part of the lag that is the client's own doing, not the concurrency cap's. */
  replay_client_lag: ms('replay_client_lag', 'Replay Client Lag'),
} as const satisfies Record<string, MetricDefinition>;

type RunMetric = keyof typeof RUN_METRICS;
export type DistributionMetric = RequestMetric | RunMetric;

export const DISTRIBUTION_METRICS: Record<DistributionMetric, MetricDefinition> = {
  ...REQUEST_METRICS,
  ...RUN_METRICS,
};

export const isRequestMetric = (tag: string): tag is RequestMetric => Object.hasOwn(REQUEST_METRICS, tag);
