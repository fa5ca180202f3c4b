/** The environment variables of the functions: set by `lib/`, read and checked once per cold start. */
import * as z from 'zod';
import { PermanentError } from '../errors/errors.ts';
import { otlpSettings } from './forward-settings.ts';
import { unpacked } from './packed.ts';
import type { Redaction } from './redact-setting.ts';
import { functionSettings, replaySettings } from './schema.ts';
import { readVariables } from './variables.ts';

const text = z.string().min(1);

/** Names that the stack has checked or made. */
const names = {
  STACK_PREFIX: text,
  WORK_BUCKET: text,
  DATA_CAPTURE_S3_BUCKET: text,
  /** Ends with `/`. */
  DATA_CAPTURE_S3_PREFIX: text,
};

const environmentSchema = z.object({
  ...functionSettings,
  ...names,
  SAGEMAKER_ENDPOINT_NAME: text,
  MLFLOW_TRACKING_URI: text,
  MLFLOW_EXPERIMENT_NAME: text,
  /** The role that Bedrock assumes for a batch job. */
  BATCH_ROLE_ARN: z.string().optional(),
  /** The topic of the alarms, if there are objectives. */
  ALARM_TOPIC_ARN: z.string().optional(),
  /** The state machine of the monitoring, for the functions that start it. */
  STATE_MACHINE_ARN: z.string().optional(),
  /** The state machine of labels, for the summarizer. */
  TRUTH_STATE_MACHINE_ARN: z.string().optional(),
  /** The runs of captures of this time share a run for the labels that wait for them. */
  TRUTH_WINDOW_SECONDS: z.coerce.number().int().min(0).default(0),
  /** How often the state machine checks a batch job. */
  BATCH_POLL_SECONDS: z.coerce.number().int().positive().default(60),
  /** The DynamoDB table of the limits: the budget's reservations, the rates, and the locks. */
  BUDGET_TABLE: text,
  /** The DynamoDB table of the judge's answers, for the function that judges. */
  ANSWERS_TABLE: z.string().optional(),
});

export interface LambdaEnvironment extends z.infer<typeof environmentSchema> {
  /** Rules for masking captures, with the key of the run's pseudonyms; see `src/captures/redact/redaction.ts`. */
  redaction?: Redaction;
}

/** Of the functions that plan and send a replay. */
const replayEnvironmentSchema = environmentSchema.extend({
  ...replaySettings,
  /** Set by Lambda itself. */
  AWS_REGION: text,
  /** The address of an emulator, or of a private endpoint. */
  AWS_ENDPOINT_URL: z.string().optional(),
  AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: z.string().optional(),
});

export type ReplayEnvironment = z.infer<typeof replayEnvironmentSchema> & Pick<LambdaEnvironment, 'redaction'>;

/** Of a function that works on the messages of a queue. */
const queueVariables = {
  /** The URLs of the queue and of its dead-letter queue. */
  QUEUE_URL: text,
  DEAD_LETTERS_URL: text,
  /** The first wait of a message that could not be worked on. */
  RETRY_SECONDS: z.coerce.number().positive().default(60),
};

const forwardEnvironmentSchema = z.object({
  ...names,
  BEDROCK_MODEL_ID: functionSettings.BEDROCK_MODEL_ID,
  JUDGE_CASCADE: functionSettings.JUDGE_CASCADE,
  ARTHUR_HOST: text,
  ARTHUR_MODEL_ID: text,
  ARTHUR_SECRET_ARN: text,
  ARTHUR_S3_PREFIX: text,
  ARTHUR_S3_SUFFIX: text,
  BUDGET_TABLE: text,
  ...queueVariables,
});

export type ForwardEnvironment = z.infer<typeof forwardEnvironmentSchema>;

const otlpEnvironmentSchema = environmentSchema.extend({ ...otlpSettings, OTLP_ENDPOINT: text, ...queueVariables });

export type OtlpEnvironment = z.infer<typeof otlpEnvironmentSchema> & Pick<LambdaEnvironment, 'redaction'>;

const invalid = (wrong: string): Error =>
  new PermanentError('InvalidEnvironment', `The function's environment is invalid: ${wrong}`);

/**
 * Reads the environment variables of a function.
 *
 * @throws PermanentError `InvalidEnvironment` with every wrong or missing variable
 *
 * @example
 *     const { WORK_BUCKET, STACK_PREFIX } = readEnvironment();
 */
export const readEnvironment = (variables = process.env): LambdaEnvironment =>
  readVariables(environmentSchema, unpacked(variables), invalid);

/** @throws PermanentError `InvalidEnvironment` with every wrong or missing variable */
export const readReplayEnvironment = (variables = process.env): ReplayEnvironment =>
  readVariables(replayEnvironmentSchema, unpacked(variables), invalid);

/** @throws PermanentError `InvalidEnvironment` with every wrong or missing variable */
export const readForwardEnvironment = (variables = process.env): ForwardEnvironment =>
  readVariables(forwardEnvironmentSchema, unpacked(variables), invalid);

/** @throws PermanentError `InvalidEnvironment` with every wrong or missing variable */
export const readOtlpEnvironment = (variables = process.env): OtlpEnvironment =>
  readVariables(otlpEnvironmentSchema, unpacked(variables), invalid);
