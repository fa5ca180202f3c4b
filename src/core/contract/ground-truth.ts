/** Ground truth: predictions, labels, rows that join both, and the messages between the functions about them. */
import * as z from 'zod';
import type { ScorerValues } from '../values/scorer-values.ts';
import { type Execution, instant, type ObjectPlace } from './execution.ts';

/** The model's answer to one inference, in the form that can be compared with a label. At least one field is set. */
export interface Prediction {
  /** A class, or a number: a value or the probability of the positive class. */
  value?: string | number | boolean | undefined;
  /** Probabilities or scores, one per class. */
  scores?: readonly number[] | undefined;
  /**
   * The classes of `scores`, if the reply names them. Otherwise the settings name them, else they are `0`, `1`, … A
   * single score belongs to the class of the label next to it, else to the positive class.
   */
  classes?: readonly string[] | undefined;
  /** Hashes of a text reply, 8 bytes each as base64url: of its exact text, and of its normalized one. */
  text?: [exact: string, normalized: string] | undefined;
}

/** One row of predictions. */
export interface PredictionRow {
  /** The id that labels name: inference id, else event id; with `_{index}` if the call carried several inferences. */
  id: string;
  endpoint: string;
  variant: string;
  /** Time of the inference, epoch seconds. */
  second: number;
  traceId: string;
  /** Position within the call, from 0. Absent if the call carried one inference: the label is then about the trace. */
  row?: number | undefined;
  prediction: Prediction;
  /** The values of the columns that the settings name (`groups`), in that order; `null` if the row lacks the column. */
  groups?: readonly (string | null)[] | undefined;
  /** The version of the key of its pseudonyms and hashes, if its capture was masked. */
  key?: string | undefined;
  /** Its capture was not masked, but it got a label that is, and so its values are as well. */
  masked?: true;
}

export type LabelValue = string | number | boolean;

/** A label from a file, as it is stored until its prediction is found. */
export interface Label {
  id: string;
  value: LabelValue;
  /** Restricts the label to this endpoint. */
  endpoint?: string;
  /** Set if the label is a person's answer to this scorer's question instead of the true answer. */
  scorer?: string;
  /** The labeller's name; only of labels for scorers. */
  by?: string;
  /** Line of the file, from 1. */
  line: number;
  /**
   * Time at which the label's file was written, epoch milliseconds. Of two labels with the same id, the later time
   * counts, then the later line.
   */
  timeMs: number;
  /** Version of the key with which the label is masked, empty without a key. Absent if no part of it is masked. */
  key?: string;
  /** Hashes of the text of a masked label. */
  text?: Prediction['text'];
}

/** A prediction with its label: a line of an hour of the joined store. */
export interface LabeledRow extends PredictionRow, Pick<Label, 'timeMs' | 'line' | 'scorer' | 'by'> {
  label: LabelValue;
  /** The hashes of the label under the key of the prediction. */
  labelText?: Prediction['text'];
  /** The value that was replaced last. */
  was?: LabelValue;
  /**
   * Whether MLflow has the label (`true`), or the label that it replaced (`false`). Absent if MLflow has neither, so
   * that neither can have been deleted there.
   */
  noted?: boolean;
  /** Reason why MLflow does not have the label and never will. Absent from a label that replaces this one. */
  notNoted?: string;
}

/**
 * The outcomes of the labels of a file. `lines` is always the sum of the other counts.
 */
export interface LabelCounts {
  /** Non-blank lines, without a header. */
  lines: number;
  /** Number of labels that were joined to a prediction without a label. */
  joined: number;
  /** The prediction had the same label already. */
  repeated: number;
  /** Number of labels whose prediction had another label, which they replaced. */
  replaced: number;
  /** The prediction has a later label with another value. */
  outdated: number;
  /** Number of labels whose id matches no known prediction yet. */
  waiting: number;
  /** No prediction came within the days that ids are kept. */
  unknown: number;
  /** Number of labels without an endpoint whose id belongs to predictions of two endpoints. */
  ambiguous: number;
  /** Lines that are no label; see `faults`. */
  invalid: number;
}

/** A line of a label file that could not be used. */
export interface LabelFault {
  line: number;
  /** A short stable name: `NotALabel`, `ImpossibleLabel`, `UnknownEncoding`, `CutOff`, `AmbiguousId`, … */
  name: string;
  message: string;
}

export interface LabelFileReport {
  bucket: string;
  key: string;
  etag: string;
  /** ISO 8601. */
  readAt: string;
  counts: LabelCounts;
  /** All faults by name. */
  reasons: Record<string, number>;
  /** The first faults by line. */
  faults: LabelFault[];
  /** The first labels that replaced another, by line. `from` is cut if it is a long text; the row has the whole (`was`). */
  replacedLabels: { line: number; id: string; from: LabelValue; to: LabelValue }[];
  /**
   * The counts for each segment of the file (see `truthKeys.waiting`). Together with `invalid`, they add up to
   * `counts`.
   */
  parts: LabelCounts[];
  /** Reason why no part of the file could be used, for example a CSV without an id column. */
  error?: { name: string; message: string };
}

/**
 * The input of the state machine: a label file, all label files under a prefix, a list from the starter, or `{}`, which
 * joins waiting labels to new predictions. The event of a label file is a valid input too.
 */
export const truthInputSchema = z.union([
  z.strictObject({ files: z.strictObject({ key: z.string().min(1) }) }),
  z.strictObject({ bucket: z.string().min(1), key: z.string().min(1) }),
  z.strictObject({ bucket: z.string().min(1), prefix: z.string() }),
  z.strictObject({
    waiting: z.literal(true).optional(),
    /** The run begins then, for the labels of all captures that have been processed until then. */
    notBefore: instant.optional(),
  }),
]);
export type TruthInput = z.infer<typeof truthInputSchema>;

/** A scorer whose question people can answer with labels. */
export interface LabelScorer {
  name: string;
  /** Absent: any value. */
  values?: ScorerValues;
}

/**
 * The request of one invocation, which works until its time is over. While `more` is set, the state machine invokes
 * again with the returned state.
 */
export interface TruthRequest {
  /** The contract of the state machine, which may be older than the function. */
  contract: number;
  input: unknown;
  run: Execution;
  scorers: readonly LabelScorer[];
  state: TruthState;
}

export const TRUTH_STEPS = ['read', 'join', 'measure', 'note', 'sum'] as const;

export interface TruthState {
  /**
   * `read`: label files → waiting labels; `join`: waiting labels → labeled rows; `measure`: metrics; `note`: labeled rows → MLflow,
   * which may take hours; `sum`: the summary of the run.
   */
  step: (typeof TRUTH_STEPS)[number];
  /** Progress of the step; opaque to the state machine. */
  cursor: string | null;
  /** Number of invocations that did any work. The result of each is in its own object, which a retry overwrites. */
  part: number;
}

/** The state of the first invocation. */
export const TRUTH_BEGINS: TruthState = { step: 'read', cursor: null, part: 0 };

export interface TruthResult {
  more: boolean;
  /** Seconds that the state machine waits before the next invocation. */
  waitSeconds: number;
  state: TruthState;
  /** The place of the `TruthRunSummary`, once `more` is false. */
  summary?: ObjectPlace;
}

/** The result of a run: an object of the work bucket. */
export interface TruthRunSummary {
  run: string;
  /** The sum over the files. Labels of earlier files that were joined now count in the reports of the earlier files. */
  counts: LabelCounts;
  /** Keys of the reports of the label files (`LabelFileReport`) that the run read. */
  files: string[];
  /** Number of labels that were written to MLflow, and of labels whose trace is gone or that MLflow refused. */
  noted: number;
  notNoted: Record<string, number>;
  /** The run that was writing labels to MLflow at the same time, and that also writes the labels of this run. */
  notedBy?: string;
}
