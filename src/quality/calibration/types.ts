/** Types of calibration: labeled items and verdicts. */

import type { ChatMessage } from '../../captures/types.ts';
import type { JudgedStratum } from '../../core/statistics/corrected-share.ts';
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
  /** The judge's verdict, if known. */
  verdict?: AssessmentValue;
  verdictRationale?: string;
  /** The judge that gave it, for example `bedrock:/… version 1`. */
  judge?: string;
}

/** An item with its label and the judge's verdict. */
export interface LabeledVerdict extends Omit<LabeledItem, 'messages' | 'tools' | 'reply' | 'verdict'> {
  verdict: AssessmentValue;
  agrees: boolean;
  /** Number of captures that it represents. Absent: the same as all others. */
  weight?: number;
  /** Time of the inference, epoch milliseconds. */
  inferenceMs?: number;
  variant?: string;
  /** The user's last message and the reply, as text. */
  request: string;
  reply: string;
}

/**
 * The judged traces of a scorer in an hour, a variant and a stratum that labels represent, with the number of captures
 * that the traces represent, because not all captures are judged.
 */
export interface Coverage extends JudgedStratum {
  hour: string;
  variant: string;
  sample: string;
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
