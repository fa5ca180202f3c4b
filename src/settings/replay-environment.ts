/** The environment of the replay's functions: set by `lib/`, read and checked once at cold start. */
import * as z from 'zod';
import { readFunctionVariables } from './variables.ts';

/** `a, b` as a list; empty names are dropped. */
const names = z.string().transform((text) =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== ''),
);

const environmentSchema = z.object({
  STACK_PREFIX: z.string().min(1),
  WORK_BUCKET: z.string().min(1),
  DATA_CAPTURE_S3_BUCKET: z.string().min(1),
  /** Ends with `/`, or is empty. */
  DATA_CAPTURE_S3_PREFIX: z.string().default(''),
  /** Endpoints that may be invoked, comma separated. */
  REPLAY_ENDPOINT_NAMES: names.default([]),
  /** Inference components that may be invoked, comma separated. */
  REPLAY_INFERENCE_COMPONENT_NAMES: names.default([]),
  /** The one secret whose value may be sent as headers. */
  REPLAY_HEADERS_SECRET_ARN: z.string().optional(),
  /** Set by Lambda itself. */
  AWS_REGION: z.string().min(1),
  /** An emulator's, or a private endpoint's. */
  AWS_ENDPOINT_URL: z.string().optional(),
  AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: z.string().optional(),
});

export type ReplayEnvironment = z.infer<typeof environmentSchema>;

/** @throws PermanentError `InvalidEnvironment` naming every wrong or missing variable. */
export const readReplayEnvironment = (variables = process.env): ReplayEnvironment =>
  readFunctionVariables(environmentSchema, variables);
