/** Decides which scorers a trace still needs, and why it does not need the others: the terms of the second equation. */

import type { NotTraffic } from '../../captures/trace/ids.ts';
import type { Capture } from '../../captures/types.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import { unlessFaulty } from '../../core/process/own-fault.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import { type Chances, isDrawn } from '../../judge/scorers/chances.ts';
import { askedOf } from '../../judge/scorers/scorer-set.ts';
import type { CodeScorer, JudgeScorer, Scorer } from '../../judge/types.ts';
import { isByPerson } from '../../mlflow/plan-assessments.ts';
import { RUN_METADATA, type StoredTrace } from '../../mlflow/types.ts';
import { captureSample, laterSample, stratumOfTrace } from '../../quality/sample.ts';
import type { ScorerOutcome } from '../outcomes/line-outcome.ts';
import { eachWithin } from './each-within.ts';

export interface PendingVerdicts {
  judge: JudgeScorer[];
  code: CodeScorer[];
  /** Scorers that get an error, because the capture provokes a fault when it is decided whether to ask them. */
  failed: { scorer: JudgeScorer; fault: string }[];
  /** Outcomes of the scorers that are not pending. */
  settled: ScorerOutcome[];
  /** Number of scorers of the capture beyond those of every capture. */
  beyond: number;
  /** The scorers whose valid verdict is overridden by new verdicts, by name. */
  replaces: Set<string>;
  /** The stratum of the sample that the capture belongs to; see src/quality. */
  stratum: string;
  /** The sample that it is judged with, which differs if a later run judges more. */
  sample: string;
  /** The rule that chose it, regardless of the sample. */
  rule: string | undefined;
  chances: Chances;
  /** The LLM scorers that it could be judged by. */
  judgeable: JudgeScorer[];
}

/** Represents an absent trace that will be written with its verdicts. */
export const NO_TRACE_YET: Pick<StoredTrace, 'assessments'> = { assessments: [] };

/** Whether to ask the judge: without a term and a fault. */
type Decision = Partial<Pick<ScorerOutcome, 'reason'>> & { term?: 'notJudgeable' | 'notSampled'; fault?: string };

/** The capture, which decides whether scorers apply to it, and the time limit for the decision. */
interface CaptureView {
  capture: Capture;
  timeMs: number;
  /** Set if it is not judged. */
  notTraffic?: NotTraffic | undefined;
  /** Returns the name of the rule that has this capture judged regardless of the sample. */
  rule(): string | undefined;
}

/**
 * Decides which scorers a trace needs.
 *
 * @param view `undefined` when the capture must not be decoded: then every sampled scorer is presumed to apply
 * @param stored the trace in MLflow, or `NO_TRACE_YET`; `undefined` when a person deleted it. It is not created again.
 */
export function pendingVerdicts(
  traceId: string,
  view: CaptureView | undefined,
  stored: Pick<StoredTrace, 'assessments'> | undefined,
  scorers: readonly Scorer[],
  options: Pick<RunOptions, 'reevaluate' | 'continues'> & { chances: Chances },
  run: string,
): PendingVerdicts {
  const { chances } = options;
  const rule = view && unlessFaulty(view.timeMs, view.rule, () => undefined);
  const now = captureSample(rule !== undefined, chances);
  const stratum = (stored && stratumOfTrace(stored.assessments)) ?? now;
  const lists = { judge: [], code: [], failed: [], judgeable: [], settled: [] };
  const sample = laterSample(stratum, now);
  const pending: PendingVerdicts = { ...lists, beyond: 0, replaces: new Set(), stratum, sample, rule, chances };
  const every = askedOf(scorers);
  if (stored === undefined || view?.notTraffic !== undefined) {
    const why = view?.notTraffic?.by === 'replay' ? 'sentByReplay' : 'notTraffic';
    const reason = stored === undefined ? 'traceMissing' : why;
    pending.settled = every.map(({ name: scorer }) => ({ scorer, term: 'notJudgeable', reason }));
    return pending;
  }
  const asked = askedOf(scorers, view?.capture);
  pending.beyond = asked.length - every.length;
  const open = withoutVerdict(stored, asked, options, run, pending);
  const decide = decider(traceId, view, chances);
  const decisions = view
    ? eachWithin(view.timeMs, open, decide, (_, fault): Decision => ({ fault }))
    : open.map(decide);
  open.forEach((scorer, index) => {
    const { fault, ...decision } = decisions[index] as Decision;
    if (decision.term !== 'notJudgeable') pending.judgeable.push(scorer);
    if (fault !== undefined) pending.failed.push({ scorer, fault });
    else if (decision.term === undefined) pending.judge.push(scorer);
    else pending.settled.push({ scorer: scorer.name, term: decision.term, reason: decision.reason });
  });
  return pending;
}

/** Settles the scorers with a verdict, and lists the code scorers. @returns the LLM scorers without a verdict */
function withoutVerdict(
  stored: Pick<StoredTrace, 'assessments'>,
  scorers: readonly Scorer[],
  { reevaluate, continues = [] }: Pick<RunOptions, 'reevaluate' | 'continues'>,
  run: string,
  pending: PendingVerdicts,
): JudgeScorer[] {
  const sameWork = new Set<string | undefined>([run, ...continues]);
  const open: JudgeScorer[] = [];
  for (const scorer of scorers) {
    const ofScorer = stored.assessments.filter(({ name }) => name === scorer.name);
    const verdicts = ofScorer.filter(({ value, errorCode }) => value !== undefined && errorCode === undefined);
    const isInForce = verdicts.some(({ valid }) => valid);
    const isDone = reevaluate ? verdicts.some(({ metadata }) => sameWork.has(metadata[RUN_METADATA])) : isInForce;
    // A judge must not change assessments that a person gave or overrode.
    if (isDone || ofScorer.some(isByPerson)) {
      pending.settled.push({ scorer: scorer.name, term: 'alreadyThere' });
      if (scorer.kind === 'judge') pending.judgeable.push(scorer);
      continue;
    }
    if (isInForce) pending.replaces.add(scorer.name);
    if (scorer.kind === 'code') pending.code.push(scorer);
    else open.push(scorer);
  }
  return open;
}

/** Returns a function that decides whether to ask the judge about a scorer. */
function decider(traceId: string, view: CaptureView | undefined, chances: Chances) {
  let known: boolean | undefined;
  const isRuled = (): boolean => {
    known ??= view?.rule() !== undefined;
    return known;
  };
  return (scorer: JudgeScorer): Decision => {
    const applies = view === undefined ? ({ judge: true } as const) : applicability(view.capture, scorer);
    if ('notJudgeable' in applies) return { term: 'notJudgeable', reason: applies.notJudgeable };
    return isDrawn(traceId, scorer, chances, isRuled) ? {} : { term: 'notSampled', reason: 'notSampled' };
  };
}
