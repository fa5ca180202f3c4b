/** Names of the CloudWatch metrics and of their dimensions. */

/** The namespace and the only dimension of the metrics that SummarizeRun publishes to CloudWatch. */
export const RESOURCE_METRICS = {
  namespace: 'SageMakerInferenceMonitor',
  dimension: 'StackPrefix',
} as const;

/**
 * The metrics of a run. A run publishes each metric once, at its end. `JudgeUsd` is missing if the judge's price is
 * unknown, and `JudgeCacheMissed` if too few calls asked for caching.
 */
export const RUN_METRICS = [
  'TracedLines',
  'QuarantinedLines',
  'LostLines',
  'NewVerdicts',
  'FailedVerdicts',
  'HeldVerdicts',
  'LostVerdicts',
  'RunsFailed',
  'JudgeModelEnding',
  'JudgeCacheMissed',
  'JudgeUsd',
] as const;
export type RunMetric = (typeof RUN_METRICS)[number];

/**
 * The metrics of labels, which a run over label files publishes at its end: non-blank lines; labels with a prediction; and lines and
 * files that could not be used.
 */
export type LabelMetric = 'LabelsRead' | 'LabelsJoined' | 'LabelsInvalid';

/**
 * The metrics of throttling, by throttling service, and the seconds by which chunks are postponed for any reason. A
 * function publishes the nonzero metrics when it ends.
 */
export const THROTTLE_METRICS = {
  judge: 'JudgeThrottles',
  mlflow: 'MlflowThrottles',
  table: 'TableThrottles',
  storage: 'StorageThrottles',
  chunks: 'ChunkWaitSeconds',
} as const;
export type ThrottleMetric = (typeof THROTTLE_METRICS)[keyof typeof THROTTLE_METRICS];

/**
 * The metrics of forwarding: files and inferences that Arthur accepted, inferences of these files that it did not
 * accept, files of which it accepted none or counted fewer inferences than lines, and attempts at files that have
 * waited for long.
 */
export type ForwardMetric =
  | 'ForwardedFiles'
  | 'ForwardedInferences'
  | 'ForwardRejected'
  | 'ForwardUntaken'
  | 'ForwardLate';

/**
 * The metrics of sending to an OpenTelemetry receiver: spans and verdicts that it accepted, those that it rejected of a request that it
 * accepted, and attempts at parts that have waited for long.
 */
export type OtlpMetric = 'OtlpSent' | 'OtlpRejected' | 'OtlpLate';

/**
 * The metrics of quality, which runs of new captures publish: `Judged` and `Passed` by scorer and variant; `ErrorReplies`
 * and `VerdictAge` (seconds from the inference to the end of the run) by variant; `QualityMissed` by objective,
 * only while it is missed. Runs over labels publish the last one too, and `TrueValue` (the figure itself) by objective.
 */
export type QualityMetric = 'Judged' | 'Passed' | 'ErrorReplies' | 'VerdictAge' | 'QualityMissed' | 'TrueValue';
export const QUALITY_DIMENSIONS = { scorer: 'Scorer', variant: 'Variant', objective: 'Objective' } as const;

/** Any metric of the stack. */
export type StackMetric = RunMetric | LabelMetric | ThrottleMetric | ForwardMetric | OtlpMetric | QualityMetric;
