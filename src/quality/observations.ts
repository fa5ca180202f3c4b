/**
 * Observations of the objectives in captures, by the second of their inference, for the detectors. A backfill has no
 * observations that count, because only runs of new files are fed (`watch.ts`), and only their last day.
 */

import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { badnessOf } from '../judge/scorers/badness.ts';
import { isDrawn } from '../judge/scorers/chances.ts';
import { isJudgeScorer } from '../judge/scorers/scorer-set.ts';
import { isFailure } from '../judge/scorers/values.ts';
import type { JudgeScorer, Scorer } from '../judge/types.ts';
import { isComputed, SAMPLE_METADATA } from '../mlflow/types.ts';
import { isAboutErrors, type Measure, measuresOf, readObjectives } from './objectives.ts';
import { isAlways } from './sample.ts';
import type { CountedCapture, Observe } from './tally.ts';

/** Older captures are history. A clock may be some minutes fast. */
const [LATEST_S, OLDEST_S] = [600, 86_400];
/** Older captures are kept by the minute, so that the observations of a run do not grow with a backlog. */
const PRECISE_S = 3600;
const MINUTE_S = 60;
const MAX_RATIONALE = 300;

type Settings = Pick<LambdaEnvironment, 'QUALITY_OBJECTIVES' | 'EVALUATION_SAMPLE_RATE' | 'ALARM_QUOTES'>;

/**
 * Returns a function that observes a capture which this run has traced or judged. Returns `undefined` without
 * objectives.
 *
 * @param scorers absent if no capture is judged: then only error replies are observed
 */
export function observerOf(settings: Settings, scorers?: readonly Scorer[]): Observe | undefined {
  const { QUALITY_OBJECTIVES: raw, EVALUATION_SAMPLE_RATE, ALARM_QUOTES: withQuotes } = settings;
  const own = scorers === undefined ? raw.filter(isAboutErrors) : raw;
  const objectives = readObjectives(own, { scorers: scorers ?? [], sampleRate: EVALUATION_SAMPLE_RATE });
  if (objectives.length === 0) return undefined;
  const measures = measuresOf(objectives);
  const asked = (scorers ?? []).filter(isJudgeScorer);
  const nowS = Date.now() / 1000;
  const observe = (capture: CountedCapture) => {
    const { traceId, facts, exchange } = capture;
    const second = secondOf(facts.inferenceMs, nowS);
    if (second === undefined) return undefined;
    const seen = measures.flatMap((measure) => {
      const verdict = seenBy(measure, capture, asked);
      return verdict === undefined ? [] : [{ measure: measure.name, ...verdict }];
    });
    const failed = seen.filter(({ passed }) => !passed);
    const isFailed = (scorer: Scorer): boolean =>
      capture.verdicts.some(
        ({ name, value }) => name === scorer.name && value !== undefined && isFailure(scorer, value),
      );
    const badness = badnessOf(scorers?.filter(isFailed) ?? []);
    const failure = { traceId, second, variant: facts.variant, failing: failed.length, ...badness, exchange };
    return {
      series: byMeasure(seen, ({ passed }) => ({
        [facts.variant]: { [second]: { cases: 1, ...(passed ? {} : { failed: 1 }) } },
      })),
      failures: byMeasure(failed, ({ rationale }) => {
        return [withQuotes && rationale ? { ...failure, said: rationale.slice(0, MAX_RATIONALE) } : failure];
      }),
    };
  };
  return Object.assign(observe, { measures });
}

interface Seen {
  passed: boolean;
  rationale?: string | undefined;
}

const byMeasure = <One extends Seen & { measure: string }, T>(all: readonly One[], of: (one: One) => T) =>
  Object.fromEntries(all.map((one) => [one.measure, of(one)]));

/** @returns the second that a capture counts for; `undefined` if it is too old, or too far ahead */
function secondOf(inferenceMs: number, nowS: number): number | undefined {
  const exact = Math.floor(inferenceMs / 1000);
  const age = nowS - exact;
  if (age > OLDEST_S || age < -LATEST_S) return undefined;
  return age > PRECISE_S ? exact - (exact % MINUTE_S) : exact;
}

/** @returns whether the capture passes, `undefined` if this run did not judge it, or not by chance */
function seenBy(measure: Measure, capture: CountedCapture, asked: readonly JudgeScorer[]): Seen | undefined {
  const { traceId, facts, isWritten, verdicts, replaced, chances } = capture;
  if (measure.scorer === undefined) return isWritten ? { passed: !facts.isError } : undefined;
  const verdict = verdicts.find(({ name }) => name === measure.scorer);
  if (verdict?.value === undefined || replaced.includes(measure.scorer)) return undefined;
  // A capture that a rule has judged counts only if it would have been drawn: rules pick captures that are not like others.
  const isByRule = !isComputed(verdict) && isAlways(verdict.metadata[SAMPLE_METADATA] ?? '');
  const scorer = asked.find(({ name }) => name === verdict.name) ?? verdict;
  if (isByRule && !isDrawn(traceId, scorer, chances, () => false)) return undefined;
  return { passed: measure.passes(verdict.value), rationale: verdict.rationale };
}
