/** Which scorers a trace still needs, and why it does not need the others: the terms of the second equation. */

import type { RunOptions } from '../../contract/input.ts';
import type { VerdictCounts } from '../../contract/receipts.ts';
import type { Capture } from '../../formats/types.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import type { CodeScorer, JudgeScorer, Scorer } from '../../judge/types.ts';
import type { StoredAssessment, StoredTrace } from '../../mlflow/types.ts';
import { ownFault } from '../../shared/own-fault.ts';
import { eachWithin } from '../../shared/within-time.ts';
import { inSample } from '../../trace/ids.ts';

/** Assessment metadata: the run that gave the verdict, so that a retry of a re-evaluation asks nothing twice. */
export const RUN_METADATA = 'monitoring.run';

export interface PendingVerdicts {
  judge: JudgeScorer[];
  code: CodeScorer[];
  /** Scorers of which the capture does not let us tell whether they are to be asked, and why: they owe an error. */
  failed: { scorer: JudgeScorer; fault: string }[];
  /** Terms of the scorers that are not pending. */
  settled: Partial<VerdictCounts>;
  /** Reasons behind `notJudgeable` and `notSampled`. */
  reasons: string[];
  /** Older verdicts that new ones override, by scorer name. */
  overrides: Map<string, StoredAssessment>;
}

type Told = 'judge' | { term: 'notJudgeable' | 'notSampled'; reason: string } | { fault: string };

/** Whether a trace is judged although the sample leaves it out; the name of the rule that says so. */
export type AlwaysRule = (capture: Capture, context: { variant?: string | undefined }) => string | undefined;

/** What a capture lets us tell of the scorers, and the time that it has for that. */
interface Look {
  capture: Capture;
  timeMs: number;
  /** A rule says that this capture is judged whatever the sample says. */
  isAlways(): boolean;
}

/**
 * @param look `undefined` where nothing may look at the capture: every sampled scorer is taken to apply
 * @param stored the trace as MLflow has it; `undefined` when it is missing (a person deleted it): it is never made again here.
 */
export function pendingVerdicts(
  traceId: string,
  look: Look | undefined,
  stored: StoredTrace | undefined,
  scorers: readonly Scorer[],
  options: Pick<RunOptions, 'reevaluate' | 'sampleRate' | 'continues'>,
  run: string,
): PendingVerdicts {
  const pending: PendingVerdicts = { judge: [], code: [], failed: [], settled: {}, reasons: [], overrides: new Map() };
  const settle = (term: keyof VerdictCounts, reason?: string): void => {
    pending.settled[term] = (pending.settled[term] ?? 0) + 1;
    if (reason !== undefined) pending.reasons.push(reason);
  };
  let found: boolean | undefined;
  const isAlways = (): boolean => {
    found ??= look?.isAlways() ?? false;
    return found;
  };
  // A rule is for captures that matter: it overrides the scorer's own sample as well as the run's.
  const isSampled = ({ name, sampleRate = 1 }: JudgeScorer): boolean =>
    (inSample(traceId, options.sampleRate) && inSample(traceId, sampleRate, name)) || isAlways();
  const sameWork = new Set<string | undefined>([run, ...(options.continues ?? [])]);
  const open: JudgeScorer[] = [];
  for (const scorer of scorers) {
    if (stored === undefined) {
      settle('notJudgeable', 'traceMissing');
      continue;
    }
    const previous = previousVerdict(stored, scorer.name);
    if (previous === 'person') {
      settle('alreadyThere');
      continue;
    }
    if (previous !== undefined) {
      if (!options.reevaluate || sameWork.has(previous.metadata[RUN_METADATA])) {
        settle('alreadyThere');
        continue;
      }
      pending.overrides.set(scorer.name, previous);
    }
    if (scorer.kind === 'code') pending.code.push(scorer);
    else open.push(scorer);
  }
  const told = (scorer: JudgeScorer): Told => {
    try {
      const applies = look === undefined ? ({ judge: true } as const) : applicability(look.capture, scorer);
      if ('notJudgeable' in applies) return { term: 'notJudgeable', reason: applies.notJudgeable };
      return isSampled(scorer) ? 'judge' : { term: 'notSampled', reason: 'notSampled' };
    } catch (error) {
      const fault = ownFault(error);
      if (fault === undefined) throw error;
      return { fault };
    }
  };
  const answers = look ? eachWithin(look.timeMs, open, told, (_, fault): Told => ({ fault })) : open.map(told);
  open.forEach((scorer, index) => {
    const answer = answers[index] as Told;
    if (answer === 'judge') pending.judge.push(scorer);
    else if ('fault' in answer) pending.failed.push({ scorer, fault: answer.fault });
    else settle(answer.term, answer.reason);
  });
  return pending;
}

/** The verdict in force on a trace; `person` when somebody has assessed or overridden it, which no judge may change. */
function previousVerdict(stored: StoredTrace, name: string): StoredAssessment | 'person' | undefined {
  const ofScorer = stored.assessments.filter((assessment) => assessment.name === name);
  if (ofScorer.some(({ sourceType }) => sourceType === 'HUMAN')) return 'person';
  return ofScorer.find(({ valid, value, errorCode }) => valid && value !== undefined && errorCode === undefined);
}
