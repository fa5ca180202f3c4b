/** What calibration compares, and what comes of it. */
import type { ChatMessage } from '../formats/types.ts';
import type { ScorerValues } from '../judge/types.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import type { Estimate, Share } from '../shared/share-interval.ts';
import type { ClassFigures, Confusion, NumberFigures } from './statistics.ts';

/** One person's (or several people's agreed) answer to one scorer's question. */
export interface LabeledItem {
  id: string;
  scorer: string;
  label: AssessmentValue;
  /** Why the label is what it is. */
  labelRationale?: string;
  messages: ChatMessage[];
  reply: ChatMessage;
  tools?: unknown[];
  traceId?: string;
  /** The judge's verdict where it is known already. */
  verdict?: AssessmentValue;
  verdictRationale?: string;
  /** Who gave it, e.g. `bedrock:/… version 1`. */
  judge?: string;
}

/** An item with the judge's verdict beside the label. */
export interface LabeledVerdict {
  id: string;
  scorer: string;
  label: AssessmentValue;
  labelRationale?: string;
  verdict: AssessmentValue;
  verdictRationale?: string;
  agrees: boolean;
  traceId?: string;
  judge?: string;
  /** What the user said last and what was replied, as text. */
  request: string;
  reply: string;
}

/** An item without a verdict to compare. */
export interface Unanswered {
  id: string;
  scorer: string;
  /** `notJudgeable`, `held`, `shownAsExample`, `peopleDisagree`, or the error's code. */
  reason: string;
  message: string;
}

export interface ScorerReport {
  name: string;
  version?: string;
  values: ScorerValues;
  /** Labels with a verdict beside them. */
  n: number;
  agreement: Share | null;
  kappa: Estimate | null;
  /** With the distance of ordered values taken into account: linear for categories, quadratic for numbers. */
  weightedKappa: Estimate | null;
  /** The value that TPR is about: `yes`, `true`, the first category; absent for numbers. */
  positive?: string;
  /** Of what people called positive, the share that the judge did. */
  tpr: Share | null;
  /** Of what people called otherwise, the share that the judge did. */
  tnr: Share | null;
  /** Share of positives as people and as the judge see it. */
  positiveShare: { people: Share | null; judge: Share | null };
  classes: ClassFigures[];
  confusion: Confusion | null;
  numbers: NumberFigures | null;
  unanswered: Record<string, number>;
  /** What a reader of the figures must know. */
  notes: string[];
}

export interface CalibrationReport {
  generatedAt: string;
  source: { kind: 'mlflow' | 'labels' | 'anchors'; where: string };
  /** Judges whose verdicts are compared, with their number. */
  judges: Record<string, number>;
  overall: { n: number; agreement: Share | null };
  scorers: ScorerReport[];
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  spend?: { calls: number; inputTokens: number; outputTokens: number; usd: number | null };
  drift?: Drift;
}

/** The same items judged at two times. */
export interface Drift {
  baseline: { generatedAt: string; judges: Record<string, number> };
  /** Items in both. */
  items: number;
  changed: { id: string; scorer: string; label: AssessmentValue; before: AssessmentValue; now: AssessmentValue }[];
  agreementBefore: Share | null;
  agreementNow: Share | null;
  /** McNemar's exact test on right and wrong. */
  pValue: number;
  /** Items of the baseline that have no verdict now, and the other way round. */
  onlyInBaseline: number;
  onlyNow: number;
  verdict: 'none' | 'changed' | 'drifted';
}
