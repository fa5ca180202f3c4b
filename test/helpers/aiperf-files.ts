/** Strict schemas of AIPerf 0.13's result files, as its own readers accept them, for tests without AIPerf. */
import * as z from 'zod';
import METRICS from './aiperf-units.json' with { type: 'json' };

const UNITS: Record<string, string> = METRICS;

const finite = z.number().refine(Number.isFinite);
const withUnits = <T extends { unit: string }>(metrics: Record<string, T>, context: z.core.$RefinementCtx): void => {
  for (const [tag, { unit }] of Object.entries(metrics)) {
    const expected = UNITS[tag];
    if (expected !== undefined && unit !== expected)
      context.addIssue({ code: 'custom', message: `${tag} is in ${unit}, not in ${expected}` });
  }
};

const errorSchema = z.strictObject({ code: z.int().optional(), type: z.string().min(1), message: z.string() });

const metadataSchema = z.looseObject({
  session_num: z.int().min(0),
  x_request_id: z.uuid(),
  x_correlation_id: z.string().min(1),
  conversation_id: z.string().min(1),
  turn_index: z.int().min(0),
  credit_issued_ns: z.number().positive(),
  request_start_ns: z.number().positive(),
  request_ack_ns: z.number().positive().optional(),
  request_end_ns: z.number().positive(),
  worker_id: z.string().min(1),
  record_processor_id: z.string().min(1),
  benchmark_phase: z.literal('profiling'),
  phase_index: z.int().min(0),
  profiling_index: z.int().min(0),
  phase_name: z.literal('profiling'),
  phase_kind: z.literal('profiling'),
  was_cancelled: z.boolean(),
  cancellation_time_ns: z.number().positive().optional(),
  scheduled_ns: z.number().positive(),
  s3_key: z.string().min(1),
});

const value = z.union([finite, z.array(finite)]);
const metricsSchema = z.record(z.string(), z.strictObject({ value, unit: z.string() })).superRefine(withUnits);

/** A line of `profile_export.jsonl`. */
export const recordSchema = z
  .strictObject({ metadata: metadataSchema, metrics: metricsSchema, error: errorSchema.optional() })
  .superRefine(({ metadata, metrics, error }, context) => {
    const problem = (message: string): void => context.addIssue({ code: 'custom', message });
    if (metadata.request_end_ns < metadata.request_start_ns) problem('it ended before it began');
    // AIPerf's parser rejects null.
    if (error && Object.keys(metrics).length > 0) problem('a failed record has metrics');
    if (!error && metrics.request_latency === undefined) problem('a good record has no latency');
    if (metadata.was_cancelled !== (error?.type === 'RequestCancellationError'))
      problem('was_cancelled and the error disagree');
    if (metadata.was_cancelled && (error?.code !== 499 || !metadata.cancellation_time_ns))
      problem('a cancelled record is not whole');
  });

const PERCENTILES = ['p1', 'p5', 'p10', 'p25', 'p50', 'p75', 'p90', 'p95', 'p99'] as const;
const STATISTICS = ['avg', ...PERCENTILES, 'min', 'max', 'std', 'count', 'sum'] as const;
const distribution = z.strictObject({
  unit: z.string(),
  ...(Object.fromEntries(STATISTICS.map((key) => [key, finite])) as Record<(typeof STATISTICS)[number], typeof finite>),
});
const single = z.strictObject({ unit: z.string(), avg: finite });
const metricResult = z.union([distribution, single]);

const NOT_METRICS =
  'schema_version benchmark_id run_info input_config was_cancelled is_complete incomplete_reason error_summary start_time end_time'.split(
    ' ',
  );
const metricsOf = (object: Record<string, unknown>, context: z.core.$RefinementCtx): void => {
  const metrics: Record<string, { unit: string }> = {};
  for (const [tag, content] of Object.entries(object)) {
    if (NOT_METRICS.includes(tag)) continue;
    const parsed = metricResult.safeParse(content);
    if (parsed.success) metrics[tag] = parsed.data as { unit: string };
    else context.addIssue({ code: 'custom', message: `${tag} is no metric: ${JSON.stringify(content)}` });
  }
  withUnits(metrics, context);
};

/** `profile_export_aiperf.json`. */
export const summarySchema = z
  .looseObject({
    schema_version: z.literal('1.4'),
    benchmark_id: z.string().min(1),
    was_cancelled: z.boolean(),
    is_complete: z.boolean(),
    error_summary: z.array(z.strictObject({ error_details: errorSchema, count: z.int().positive() })),
    start_time: z.iso.datetime(),
    end_time: z.iso.datetime(),
    input_config: z.looseObject({ models: z.unknown(), endpoint: z.unknown(), phases: z.array(z.unknown()).min(1) }),
  })
  .superRefine(metricsOf);

export const inputsSchema = z.strictObject({
  data: z.array(
    z.strictObject({ session_id: z.string(), payloads: z.array(z.record(z.string(), z.unknown())).min(1) }),
  ),
});
