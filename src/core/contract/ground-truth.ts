/** Ground truth: predictions, labels, the two joined, and what the functions tell each other about them. */
import * as z from 'zod';
import type { ScorerValues } from '../values/scorer-values.ts';
import { type Execution, instant, type ObjectPlace } from './execution.ts';

/** What the model answered to one inference, as far as a label can be compared with it. At least one field is set. */
export interface Prediction {
  /** A class, or a number: a value or the probability of the positive class. */
  value?: string | number | boolean | undefined;
  /** Probabilities or scores, one per class. */
  scores?: readonly number[] | undefined;
  /**
   * The classes of `scores`, where the reply names them. Otherwise the settings do, else they are `0`, `1`, … A single score has a
   * class: that of the label beside it, else the positive one.
   */
  classes?: readonly string[] | undefined;
  /** Hashes of a text reply, 8 bytes each as base64url: of its exact text, and of its normalized one. */
  text?: [exact: string, normalized: string] | undefined;
}

/** One prediction. */
export interface PredictionRow {
  /** The id that labels name: inference id, else event id; with `_{index}` if the call carried several inferences. */
  id: string;
  endpoint: string;
  variant: string;
  /** Time of the inference, epoch seconds. */
  second: number;
  traceId: string;
  /** Position within the call, from 0. Absent if the call carried one inference: the label is about the trace. */
  row?: number | undefined;
  prediction: Prediction;
  /** The values of the columns that the settings name (`groups`), in their order; `null` where the row has none. */
  groups?: readonly (string | null)[] | undefined;
  /** The version of the key of its pseudonyms and hashes, if its capture was masked. */
  key?: string | undefined;
  /** Its capture was not masked, but it got a label that is, and so its values are as well. */
  masked?: true;
}

export type LabelValue = string | number | boolean;

/** A label of a file, as it is kept until its prediction is found. */
export interface Label {
  id: string;
  value: LabelValue;
  /** It is about this endpoint only. */
  endpoint?: string;
  /** It is a person's label for this scorer's question, and not the true answer. */
  scorer?: string;
  /** The labeller's name; only of labels for scorers. */
  by?: string;
  /** Line of the file, from 1. */
  line: number;
  /**
   * Of two labels of an id, the one with the later time counts, then the one in the later line. Epoch milliseconds: when its file
   * was written.
   */
  timeMs: number;
  /** The version of the key under which it is masked, empty for none; absent if nothing of it is. */
  key?: string;
  /** Of a masked label, the hashes of its text. */
  text?: Prediction['text'];
}

/** A prediction with its label: a line of an hour of the joined store. */
export interface LabeledRow extends PredictionRow, Pick<Label, 'timeMs' | 'line' | 'scorer' | 'by'> {
  label: LabelValue;
  /** The hashes of the label under the key of the prediction. */
  labelText?: Prediction['text'];
  /** The value that was replaced last. */
  was?: LabelValue;
  /** MLflow has the label (`true`), or the one that it replaced (`false`). Absent: neither, so it cannot have been deleted there. */
  noted?: boolean;
  /** Why MLflow does not have the label, and will not. Absent from a label that replaces this one. */
  notNoted?: string;
}

/**
 * The outcomes of the labels of a file. `lines` is always the sum of the other counts.
 */
export interface LabelCounts {
  /** Non-blank lines, without a header. */
  lines: number;
  /** Labels that were joined to a prediction that had none. */
  joined: number;
  /** The prediction had the same label already. */
  repeated: number;
  /** The prediction had another label, which this one replaced. */
  replaced: number;
  /** The prediction has a later label with another value. */
  outdated: number;
  /** No prediction with the id is known yet. */
  waiting: number;
  /** No prediction came within the days that ids are kept. */
  unknown: number;
  /** The id is that of predictions of two endpoints, and the label names none. */
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
  /** The counts by segment of the file (see `truthKeys.waiting`), whose sum `counts` is, with `invalid`. */
  parts: LabelCounts[];
  /** Why nothing of the file could be used, for example a CSV without an id column. */
  error?: { name: string; message: string };
}

/**
 * The input of the state machine: a label file, all label files under a prefix, a list that the starter writes, or `{}`, which
 * joins the labels that wait to predictions that came since. The event of a label file is one as well.
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

/** A scorer whose question labels may answer. */
export interface LabelScorer {
  name: string;
  /** Absent: any value. */
  values?: ScorerValues;
}

/** One invocation does what it has the time for; the state machine invokes again with the state that it returns, while `more`. */
export interface TruthRequest {
  /** Of the state machine, which may be older than the function. */
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
  /** How far the step is; opaque to the state machine. */
  cursor: string | null;
  /** How many invocations have done something. What each did is in an object of its own, which its retry writes again. */
  part: number;
}

/** The state of the first invocation. */
export const TRUTH_BEGINS: TruthState = { step: 'read', cursor: null, part: 0 };

export interface TruthResult {
  more: boolean;
  /** For how long the state machine waits before the next invocation. */
  waitSeconds: number;
  state: TruthState;
  /** The place of the `TruthRunSummary`, once `more` is false. */
  summary?: ObjectPlace;
}

/** The result of a run: an object of the work bucket. */
export interface TruthRunSummary {
  run: string;
  /** The sum over the files. Labels of earlier files that were joined now are counted in the reports of those. */
  counts: LabelCounts;
  /** Keys of the reports of the label files (`LabelFileReport`) that the run read. */
  files: string[];
  /** Labels that were written to MLflow, and those whose trace is gone or that MLflow refused. */
  noted: number;
  notNoted: Record<string, number>;
  /** Another run was writing labels to MLflow, and writes those of this run as well. */
  notedBy?: string;
}
