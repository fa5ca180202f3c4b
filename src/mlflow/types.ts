/** The types of the MLflow client, the pipeline's port to MLflow, and the JSON of assessments in its REST API. */
import { rootSpanIdOf } from '../captures/trace/ids.ts';
import { MAX_METADATA_CHARS } from '../captures/trace/text.ts';
import type { TraceRecord } from '../captures/trace/types.ts';
import { LABEL_METADATA, REPLACED_AT } from './assessment-metadata.ts';
import type { SpansForm } from './encode-spans.ts';
import { cutIdentifier, MAX_NAME_CHARS, MAX_RATIONALE_CHARS, storableText } from './limits.ts';

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

/** An assessment to write. */
export interface NewAssessment {
  /** `a-` and 32 hex digits, derived so that the same verdict has the same id. */
  assessmentId: string;
  traceId: string;
  name: string;
  /** `HUMAN`: a label that people gave, which came in a file. */
  sourceType: 'LLM_JUDGE' | 'CODE' | 'HUMAN';
  /** `bedrock:/<model>`, the name of the code scorer, or who labelled. */
  sourceId: string;
  /** It is the true answer, and no assessment of the one that was given. */
  isExpectation?: true;
  /** It is about this span. Absent: about the trace. */
  spanId?: string;
  /** Of a label: it was written before, with this value or another one. If it is gone, a person has deleted it. */
  wasWritten?: boolean;
  /** Exactly one of `value` and `error` is set. */
  value?: AssessmentValue;
  error?: { code: string; message: string };
  rationale?: string;
  /** The values have at most 250 characters. */
  metadata: Record<string, string>;
  createTimeMs: number;
  /** It overrides the verdict of its scorer that is in force when it is written (`reevaluate`). */
  replaces?: true;
}

/** The parts of a stored assessment that the pipeline uses. */
export interface StoredAssessment {
  assessmentId: string;
  name: string;
  sourceType: string;
  sourceId: string;
  value?: AssessmentValue;
  errorCode?: string;
  valid: boolean;
  overrides?: string;
  metadata: Record<string, string>;
  isExpectation?: true;
  spanId?: string;
  /** Somebody has changed its value or its rationale since it was written. It is treated as a person’s. */
  isEdited?: true;
}

export interface StoredTrace {
  /** When the trace was read, epoch milliseconds; `undefined` if it has just been written instead. */
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
  /** Traces that existed when they were to be written. Nothing was sent for them, also no assessment. */
  alreadyThere: string[];
  /** Those of `written` whose assessments MLflow refused. They are stored without any. */
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
  /** Labels that are not in MLflow for what a person did there. */
  left?: { assessmentId: string; because: LabelLeft }[];
  /** A person deleted the trace while it was judged. Nothing was written, and the trace is not recreated. */
  traceMissing?: true;
}

export interface WriteOptions {
  /** Called right before each write. It throws if the caller may no longer write. */
  assertHeld?: (() => void) | undefined;
}

/** The port through which the pipeline sees MLflow; `src/mlflow/client.ts` implements it. */
export interface TraceStore {
  /**
   * Finds the experiment by its name, or creates it.
   *
   * @param owner is written to the experiment, unless another stack is
   * @throws PermanentError `MlflowExperimentOfOtherStack` if another stack was the first to write the endpoint's traces there
   */
  resolveExperiment(name: string, owner?: ExperimentOwner): Promise<Experiment>;
  getExperiment(id: string): Promise<Experiment>;
  /** Returns the existing traces among any number of ids, with their assessments. */
  getTraces(experimentId: string, traceIds: readonly string[]): Promise<Map<string, StoredTrace>>;
  /**
   * Writes any number of traces, in batches, each together with its assessments, by trace id. A trace is written only if
   * a read in the last 5 s did not find it. After an unknown outcome it reads before it sends again.
   */
  writeTraces(
    experiment: Experiment,
    traces: readonly TraceRecord[],
    assessmentsOf?: ReadonlyMap<string, readonly NewAssessment[]>,
    how?: WriteOptions & { areAbsent?: boolean },
  ): Promise<WriteTracesResult>;
  /** Returns how the server takes spans that are encoded before. */
  spansForm(experiment: Experiment): Promise<SpansForm>;
  /**
   * Writes the spans of existing traces where they are missing or incomplete: for an attempt after one that was killed
   * between a trace and its spans, or while another run wrote the same records.
   *
   * @returns the traces whose spans MLflow refused. They are deleted, because nobody could open them.
   */
  mendTraces(experiment: Experiment, traces: readonly TraceRecord[]): Promise<WriteTracesResult['refused']>;
  /**
   * Writes the verdicts of one trace. A valid assessment of `trace` is never sent again. A verdict replaces the error
   * assessment of the same scorer.
   */
  writeAssessments(
    trace: StoredTrace,
    assessments: readonly NewAssessment[],
    how?: WriteOptions,
  ): Promise<WriteAssessmentsResult>;
}

/** Returns the value as MLflow keeps it. */
const storableValue = (value: AssessmentValue | undefined): AssessmentValue | undefined =>
  typeof value === 'string' ? storableText(value, MAX_RATIONALE_CHARS) : value;

/** Returns the field with what the assessment says. */
const content = ({ value, error, isExpectation }: NewAssessment): Record<string, unknown> =>
  isExpectation ? { expectation: { value: storableValue(value) } } : { feedback: feedback({ value, error }) };

const feedback = ({ value, error }: Pick<NewAssessment, 'value' | 'error'>): Record<string, unknown> =>
  error === undefined
    ? { value: storableValue(value) }
    : {
        error: {
          error_code: storableText(error.code, MAX_NAME_CHARS),
          error_message: storableText(error.message, MAX_RATIONALE_CHARS),
        },
      };

const metadata = (assessment: NewAssessment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(assessment.metadata).map(([key, value]) => [key, storableText(value, MAX_METADATA_CHARS)]),
  );

const rationale = ({ rationale: text }: NewAssessment): { rationale?: string } =>
  text === undefined ? {} : { rationale: storableText(text, MAX_RATIONALE_CHARS) };

/** Returns the body for a new assessment. */
export function assessmentJson(assessment: NewAssessment & { overrides?: string }): Record<string, unknown> {
  const time = new Date(assessment.createTimeMs).toISOString();
  return {
    assessment_id: assessment.assessmentId,
    trace_id: assessment.traceId,
    assessment_name: storableText(assessment.name, MAX_NAME_CHARS),
    ...(assessment.spanId === undefined ? {} : { span_id: assessment.spanId }),
    source: { source_type: assessment.sourceType, source_id: storableText(assessment.sourceId, MAX_NAME_CHARS) },
    create_time: time,
    last_update_time: time,
    ...content(assessment),
    ...rationale(assessment),
    metadata: metadata(assessment),
    ...(assessment.overrides === undefined ? {} : { overrides: assessment.overrides }),
    valid: true,
  };
}

/** Returns the body that replaces what the assessment with the same id says: an error by a verdict, or a label by a later one. */
export function assessmentUpdateJson(assessment: NewAssessment): Record<string, unknown> {
  return {
    assessment: {
      assessment_id: assessment.assessmentId,
      trace_id: assessment.traceId,
      ...content(assessment),
      rationale: '',
      ...rationale(assessment),
      metadata: { ...metadata(assessment), [REPLACED_AT]: new Date().toISOString() },
    },
    update_mask: assessment.isExpectation ? 'expectation,metadata' : 'feedback,rationale,metadata',
  };
}

/** The name of the expectation with the true answer. It is no scorer. */
export const GROUND_TRUTH = 'ground_truth';

/** Returns the metadata by which a later label tells whether a person has edited this one. */
export const labelMetadata = (value: AssessmentValue): Record<string, string> => ({
  [LABEL_METADATA]: cutIdentifier(JSON.stringify(storableValue(value))),
});

/**
 * Plans how a label from a file is written to a trace. What a person wrote, edited or deleted in MLflow is never
 * touched.
 */
export function stepForLabel(
  trace: StoredTrace,
  label: NewAssessment,
): 'create' | 'update' | 'alreadyThere' | LabelLeft {
  const own = trace.assessments.find(({ assessmentId }) => assessmentId === label.assessmentId);
  if (own !== undefined) {
    if (own.valid && own.value === storableValue(label.value)) return 'alreadyThere';
    return own.valid && !isEdited(own) ? 'update' : 'EditedByPerson';
  }
  if (label.wasWritten) return 'DeletedByPerson';
  return trace.assessments.some((other) => other.valid && isSame(trace, other, label)) ? 'WrittenByPerson' : 'create';
}

/** Also when the edit is so young that the times do not show it. */
function isEdited({ isEdited: isChanged, value, metadata }: StoredAssessment): boolean {
  return isChanged === true || value === undefined || labelMetadata(value)[LABEL_METADATA] !== metadata[LABEL_METADATA];
}

/** Whether somebody else has said the same: the true answer of this trace or span, or their own answer to this scorer. */
function isSame({ traceId }: StoredTrace, other: StoredAssessment, label: NewAssessment): boolean {
  if (other.name !== label.name || placeOf(traceId, other) !== placeOf(traceId, label)) return false;
  return label.isExpectation
    ? other.isExpectation === true
    : other.sourceType === 'HUMAN' && other.sourceId === label.sourceId;
}

/** What is about the root span is about the trace. */
const placeOf = (traceId: string, { spanId }: Pick<StoredAssessment, 'spanId'>): string =>
  spanId ?? rootSpanIdOf(traceId);
