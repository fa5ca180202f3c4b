/** Metadata keys of an assessment, as MLflow’s own judges name them. */
export const SCORER_NAME = 'mlflow.assessment.scorerName';
export const SCORER_VERSION = 'mlflow.assessment.scorerVersion';
export const JUDGE_COST = 'mlflow.assessment.judgeCost';
export const JUDGE_INPUT_TOKENS = 'mlflow.assessment.judgeInputTokens';
export const JUDGE_OUTPUT_TOKENS = 'mlflow.assessment.judgeOutputTokens';
