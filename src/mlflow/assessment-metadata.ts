/** Metadata keys of an assessment, as MLflow’s own judges name them. */
export const SCORER_NAME = 'mlflow.assessment.scorerName';
export const SCORER_VERSION = 'mlflow.assessment.scorerVersion';
/** When a verdict replaced the error with the same id, as an ISO time. */
export const REPLACED_AT = 'monitoring.replacedAt';
/** What a label from a file says, as it was written. If the value is another one, a person has edited it. */
export const LABEL_METADATA = 'monitoring.label';
/** Whether the label says that the answer was right: `yes` or `no`. Absent where that depends on more than the two. */
export const RIGHT_METADATA = 'monitoring.right';
export const JUDGE_COST = 'mlflow.assessment.judgeCost';
export const JUDGE_INPUT_TOKENS = 'mlflow.assessment.judgeInputTokens';
export const JUDGE_OUTPUT_TOKENS = 'mlflow.assessment.judgeOutputTokens';

/** The run that gave the verdict, so that the retry of a re-evaluation asks nothing twice, and a run counts its own. */
export const RUN_METADATA = 'monitoring.run';
/** The chance with which the capture was judged; see src/quality/sample.ts. Absent on verdicts that are in no counts. */
export const SAMPLE_METADATA = 'monitoring.sample';
/** The part of the sample that the verdict is counted in, where a later run has judged the capture with another chance. */
export const PART_METADATA = 'monitoring.part';
