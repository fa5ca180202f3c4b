/** What the MLflow client takes and gives. */

export interface Experiment {
  id: string;
  name: string;
  artifactLocation: string;
}

export type AssessmentValue = string | number | boolean;

/** An assessment to be written. */
export interface NewAssessment {
  /** `a-` + 32 hex digits, derived: the same verdict has the same id. */
  assessmentId: string;
  traceId: string;
  name: string;
  sourceType: 'LLM_JUDGE' | 'CODE';
  /** `bedrock:/<model>`, or the code scorer's name. */
  sourceId: string;
  /** Exactly one of `value` and `error` is set. */
  value?: AssessmentValue;
  error?: { code: string; message: string };
  rationale?: string;
  /** Values at most 250 characters. */
  metadata: Record<string, string>;
  createTimeMs: number;
  /** Id of an older verdict that this one overrides (`reevaluate`). */
  overrides?: string;
}

/** An assessment as MLflow returns it, as far as the pipeline looks at it. */
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
}

export interface StoredTrace {
  /** When it was read, epoch milliseconds. */
  readAtMs?: number;
  traceId: string;
  state: string;
  assessments: StoredAssessment[];
  /** What posting the trace again must repeat, because MLflow would erase it otherwise; as MLflow writes it. */
  info?: {
    experimentId: string;
    requestTime: string;
    executionDuration?: string;
    clientRequestId?: string;
    tagKeys: string[];
  };
}

/** What became of each trace handed to `writeTraces`. */
export interface WriteTracesResult {
  written: string[];
  /** Found to exist when it came to writing. */
  alreadyThere: string[];
  /** Refused by MLflow for what they are, found by halving the batch; everything else was written. */
  refused: { traceId: string; reason: { name: string; message: string } }[];
}

/** Ids of assessments, by what became of them. */
export interface WriteAssessmentsResult {
  written: string[];
  alreadyThere: string[];
  /** The trace is gone (a person deleted it while it was judged): nothing was written, and the trace is not made again. */
  traceMissing?: true;
}

/** The port through which the pipeline sees MLflow; `src/mlflow/client.ts` implements it. */
export interface TraceStore {
  /** Finds the experiment by name, makes it if it is missing. */
  resolveExperiment(name: string): Promise<Experiment>;
  getExperiment(id: string): Promise<Experiment>;
  /** The traces of these ids that exist, with their assessments. Any number of ids. */
  getTraces(experimentId: string, traceIds: readonly string[]): Promise<Map<string, StoredTrace>>;
  /**
   * Writes traces that the caller has found absent. After an unknown outcome it reads before it sends again.
   * Any number of traces; batches by count and by bytes itself.
   */
  writeTraces(
    experiment: Experiment,
    traces: readonly import('../trace/types.ts').TraceRecord[],
  ): Promise<WriteTracesResult>;
  /**
   * Puts the spans of traces that exist again where they are not whole: for an attempt after one that was ended in the
   * middle, while another run wrote the same records.
   */
  mendTraces(experiment: Experiment, traces: readonly import('../trace/types.ts').TraceRecord[]): Promise<void>;
  /**
   * Writes the verdicts of one trace. `existing` are the assessments read before: what is valid there is never sent
   * again; an error assessment of the same scorer is replaced by a verdict.
   */
  writeAssessments(trace: StoredTrace, assessments: readonly NewAssessment[]): Promise<WriteAssessmentsResult>;
}
