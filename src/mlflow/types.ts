/** The types of the MLflow client. */

export interface Experiment {
  id: string;
  name: string;
  artifactLocation: string;
  tags?: Readonly<Record<string, string>>;
}

/** The stack that writes an endpoint's traces to an experiment. Its locks do not keep another stack from writing the same traces. */
export interface ExperimentOwner {
  endpoint: string;
  stack: string;
  /** Another stack may write them too. */
  isShared: boolean;
}

export type AssessmentValue = string | number | boolean;

/** The beginning of the `sourceId` of a scorer in code, which assesses every capture. */
export const COMPUTED = 'code:/';
export const isComputed = ({ sourceId }: Pick<NewAssessment, 'sourceId'>): boolean => sourceId.startsWith(COMPUTED);

/** An assessment to write. */
export interface NewAssessment {
  /** `a-` and 32 hex digits, derived so that the same verdict has the same id. */
  assessmentId: string;
  traceId: string;
  name: string;
  /** `HUMAN`: a label that people gave, which came in a file. */
  sourceType: 'LLM_JUDGE' | 'CODE' | 'HUMAN';
  /** `bedrock:/<model>`, `code:/<scorer>`, `lambda:/<function>:<version>`, or the labeller's name. */
  sourceId: string;
  /** Set if this is the true answer instead of an assessment of the given answer. */
  isExpectation?: true;
  /** The span that is assessed. Absent: the trace. */
  spanId?: string;
  /**
   * For a label: set if it was written before, with this or another value. If it is missing, a person has deleted it.
   */
  wasWritten?: boolean;
  /** Exactly one of `value` and `error` is set. */
  value?: AssessmentValue;
  error?: { code: string; message: string };
  rationale?: string;
  /** The values have at most 250 characters. */
  metadata: Record<string, string>;
  createTimeMs: number;
  /** Set if it overrides the scorer's valid verdict at the time of writing (`reevaluate`). */
  replaces?: true;
}

/** The parts of a stored assessment that the pipeline uses. */
export interface StoredAssessment
  extends Pick<
    NewAssessment,
    'assessmentId' | 'name' | 'sourceId' | 'value' | 'metadata' | 'isExpectation' | 'spanId'
  > {
  sourceType: string;
  errorCode?: string;
  valid: boolean;
  overrides?: string;
  /**
   * Set if its value or its rationale was changed after it was written. It is then treated as a person's assessment.
   */
  isEdited?: true;
}

export interface StoredTrace {
  /** Time at which the trace was read, epoch milliseconds. `undefined` if it has just been written instead. */
  readAtMs?: number;
  traceId: string;
  state: string;
  assessments: StoredAssessment[];
  info?: { experimentId: string; tagKeys: string[]; run?: string | undefined };
  /** The trace was posted without its spans, which are to come by OTLP, and they did not come. */
  lacksSpans?: true;
}

/** The outcome of each trace passed to `writeTraces`. */
export interface WriteTracesResult {
  written: string[];
  /** Traces that existed before they were written. Neither they nor their assessments were sent. */
  alreadyThere: string[];
  /** The traces of `written` whose assessments MLflow refused. These traces are stored without assessments. */
  bare: string[];
  /** Traces that MLflow refused for their content, found by halving the batch. All others were written. */
  refused: { traceId: string; reason: { name: string; message: string; words?: string } }[];
}

/** A person has deleted the label, edited or overridden it, or written the same assessment before. */
export type LabelLeft = 'DeletedByPerson' | 'EditedByPerson' | 'WrittenByPerson';

/** Ids of assessments, by outcome. */
export interface WriteAssessmentsResult {
  written: string[];
  alreadyThere: string[];
  /** Labels that were not written to MLflow because of a person's action there. */
  left?: { assessmentId: string; because: LabelLeft }[];
  /** Set if a person deleted the trace while it was judged. It is not recreated, and no verdict was written. */
  traceMissing?: true;
}

export interface WriteOptions {
  /** Called right before each write. It throws if the caller may no longer write. */
  assertHeld?: (() => void) | undefined;
}

export const SCORER_NAME = 'mlflow.assessment.scorerName';
/** The judge that a cascade asks if its first model is not sure, on the first model's verdicts. */
export const CASCADE_JUDGE = 'monitoring.judge';
export const SCORER_VERSION = 'mlflow.assessment.scorerVersion';
/** Time at which a verdict replaced the error with the same id, in ISO format. */
export const REPLACED_AT = 'monitoring.replacedAt';
/** The value of a label from a file, as written. If the current value differs, a person has edited it. */
export const LABEL_METADATA = 'monitoring.label';
/**
 * Whether the answer was right according to the label: `yes` or `no`. Absent if that depends on more than label and
 * answer.
 */
export const RIGHT_METADATA = 'monitoring.right';
export const JUDGE_COST = 'mlflow.assessment.judgeCost';
export const JUDGE_INPUT_TOKENS = 'mlflow.assessment.judgeInputTokens';
export const JUDGE_OUTPUT_TOKENS = 'mlflow.assessment.judgeOutputTokens';

/**
 * The run that gave the verdict, so that the retry of a re-evaluation asks no question twice, and a run counts its own
 * verdicts.
 */
export const RUN_METADATA = 'monitoring.run';
/** The chance with which the capture was judged; see src/quality/sample.ts. Absent on verdicts that are in no counts. */
export const SAMPLE_METADATA = 'monitoring.sample';
/** The stratum that the verdict is counted in, where a later run has judged the capture with another chance. */
export const STRATUM_METADATA = 'monitoring.part';
