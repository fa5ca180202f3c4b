/** Schemas for the parts of MLflow's replies that this client uses. */
import * as z from 'zod';

const experiment = z.object({
  experiment_id: z.string(),
  name: z.string(),
  artifact_location: z.string().default(''),
  lifecycle_stage: z.string().default('active'),
  tags: z.array(z.object({ key: z.string(), value: z.string().default('') })).default([]),
});

export type ExperimentReply = z.infer<typeof experiment>;

export const experimentReply = z.object({ experiment });
export const experimentsReply = z.object({ experiments: z.array(experiment).default([]) });

export const createdExperimentReply = z.object({ experiment_id: z.string() });

const assessment = z.object({
  assessment_id: z.string().default(''),
  assessment_name: z.string().default(''),
  span_id: z.string().optional(),
  source: z.object({ source_type: z.string().default(''), source_id: z.string().default('') }).prefault({}),
  feedback: z
    .object({
      value: z.unknown().optional(),
      error: z.object({ error_code: z.string().default('UNKNOWN') }).optional(),
    })
    .optional(),
  expectation: z.object({ value: z.unknown().optional() }).optional(),
  rationale: z.string().default(''),
  metadata: z.record(z.string(), z.string()).default({}),
  create_time: z.string().default(''),
  last_update_time: z.string().default(''),
  overrides: z.string().optional(),
  // MLflow omits the field unless another assessment has overridden this one.
  valid: z.boolean().default(true),
});

const traceInfo = z.object({
  trace_id: z.string(),
  trace_location: z.object({ mlflow_experiment: z.object({ experiment_id: z.string() }).optional() }).prefault({}),
  state: z.string().default('STATE_UNSPECIFIED'),
  request_time: z.string().default(''),
  request_preview: z.string().default(''),
  response_preview: z.string().default(''),
  tags: z.record(z.string(), z.string()).default({}),
  assessments: z.array(assessment).default([]),
});

export type AssessmentReply = z.infer<typeof assessment>;
export type TraceInfoReply = z.infer<typeof traceInfo>;

export const searchReply = z.object({ traces: z.array(traceInfo).default([]), next_page_token: z.string().optional() });
export const anyReply = z.unknown();

/** The id of the written object. */
export const traceReply = z
  .object({ trace: z.object({ trace_info: z.object({ trace_id: z.string() }) }) })
  .transform(({ trace }) => trace.trace_info.trace_id);
export const assessmentReply = z
  .object({ assessment: z.object({ assessment_id: z.string() }) })
  .transform(({ assessment: { assessment_id: id } }) => id);
