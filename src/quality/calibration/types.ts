/** Types of calibration: labeled items, verdicts, and the report. */

import type { ChatMessage } from '../../captures/types.ts';
import type { Confusion, NumberFigures } from '../../core/statistics/agreement.ts';
import type { Estimate, Share } from '../../core/statistics/share.ts';
import type { ScorerValues } from '../../core/values/scorer-values.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';

/** The answer of one person, or of a majority of people, to one scorer's question. */
export interface LabeledItem {
  id: string;
  scorer: string;
  label: AssessmentValue;
  /** The reason for the label. */
  labelRationale?: string;
  messages: ChatMessage[];
  reply: ChatMessage;
  tools?: unknown[];
  traceId?: string;
  /** The judge's verdict, if it is known. */
  verdict?: AssessmentValue;
  verdictRationale?: string;
  /** The judge that gave it, for example `bedrock:/… version 1`. */
  judge?: string;
}

/** An item with its label and the judge's verdict. */
export interface LabeledVerdict extends Omit<LabeledItem, 'messages' | 'tools' | 'reply' | 'verdict'> {
  verdict: AssessmentValue;
  agrees: boolean;
  /** Captures that it stands for. Absent: as many as any other. */
  weight?: number;
  /** Time of the inference, epoch milliseconds. */
  inferenceMs?: number;
  variant?: string;
  /** The user's last message and the reply, as text. */
  request: string;
  reply: string;
}

/** The judged traces of a scorer in an hour of a variant and a stratum that labels speak for. */
export interface Coverage {
  hour: string;
  variant: string;
  sample: string;
  /** Captures that they stand for, since not all are judged. */
  captures: number;
  judged: number;
  /** Of `judged`, those that the judge passes. */
  passed: number;
  /** All judged traces of the stratum. */
  all: number;
}

/** An item without a comparable verdict. */
export interface Unanswered {
  id: string;
  scorer: string;
  /** `notJudgeable`, `held`, `shownAsExample`, `peopleDisagree`, `notPicked`, …, or the error's code. */
  reason: string;
  message: string;
}

/** The figures of a value against all others. */
export interface ClassFigures {
  value: string;
  /** Number of people's labels with this value. */
  support: number;
  /** Share of people's labels with this value on which the judge agrees (recall). */
  sensitivity: Share | null;
  /** Share of people's other labels for which the judge also gave another value. */
  specificity: Share | null;
  /** Share of the judge's verdicts with this value on which people agree. */
  precision: Share | null;
  f1: number | null;
}

export interface ScorerReport {
  name: string;
  version?: string;
  values: ScorerValues;
  /** Number of labels with a verdict. */
  n: number;
  agreement: Share | null;
  kappa: Estimate | null;
  /** Takes the distance of ordered values into account: linear for categories, quadratic for numbers. */
  weightedKappa: Estimate | null;
  /** The positive value of TPR: `yes`, `true` or the first category. Absent for numbers. */
  positive?: string;
  /** The value that is good. Absent for numbers and for scorers that are not active. */
  good?: string;
  /** Share of people's positive labels on which the judge agrees. */
  tpr: Share | null;
  /** Share of people's other labels on which the judge agrees. */
  tnr: Share | null;
  /** Share of positive values by people and by the judge. */
  positiveShare: { people: Share | null; judge: Share | null };
  classes: ClassFigures[];
  confusion: Confusion | null;
  numbers: NumberFigures | null;
  unanswered: Record<string, number>;
  /** Limitations of the figures that a reader must know. */
  notes: string[];
}

export interface CalibrationReport {
  generatedAt: string;
  source: { kind: 'mlflow' | 'labels' | 'anchors' | 'groundTruth'; where: string };
  /** Number of verdicts by judge. */
  judges: Record<string, number>;
  overall: { n: number; agreement: Share | null };
  scorers: ScorerReport[];
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  spend?: { calls: number; inputTokens: number; outputTokens: number; usd: number | null };
  drift?: Drift;
}

/** A comparison of two runs on the same items. */
export interface Drift {
  baseline: { generatedAt: string; judges: Record<string, number> };
  /** Number of items in both runs. */
  items: number;
  changed: { id: string; scorer: string; label: AssessmentValue; before: AssessmentValue; now: AssessmentValue }[];
  agreementBefore: Share | null;
  agreementNow: Share | null;
  /** Result of McNemar's exact test on right and wrong verdicts. */
  pValue: number;
  /** Number of items that have a verdict in only one of the runs. */
  onlyInBaseline: number;
  onlyNow: number;
  verdict: 'none' | 'changed' | 'drifted';
}
