/**
 * What captures showed about the objectives, by the second of their inference: the detectors are fed with it. A backfill leaves
 * nothing here that counts, since only what a run of new files saw is fed (`watch.ts`), and only of the last day.
 */

import { inSample } from '../captures/trace/ids.ts';
import type { ObservedFailure, ObservedSecond, QualityObservations } from '../core/contract/quality.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { isJudgeScorer } from '../judge/scorers/scorer-set.ts';
import type { JudgeScorer, Scorer } from '../judge/types.ts';
import { SAMPLE_METADATA } from '../mlflow/assessment-metadata.ts';
import { isAboutErrors, type Measure, measuresOf, readObjectives } from './objectives.ts';
import { ALWAYS } from './sample.ts';
import type { CaptureObserver, CountedCapture, CountedVerdict } from './tally.ts';

/** Older captures are history. A clock may be some minutes fast. */
const [LATEST_S, OLDEST_S] = [600, 86_400];
/** Captures older than this are kept by the minute, so that what a run keeps does not grow with a backlog. */
const PRECISE_S = 3600;
const MINUTE_S = 60;
/** An endpoint has at most 10 variants. */
const MAX_VARIANTS = 10;
const OTHER = '(other)';

/** A person looks at this many captures. */
export const SHOWN_FAILURES = 5;
const MAX_WORDS = 300;

type Sampled = Pick<JudgeScorer, 'name' | 'sampleRate'>;

interface ObservationSettings {
  measures: readonly Measure[];
  /** The LLM scorers in force. */
  scorers: readonly Sampled[];
  /** The share of the captures that the run's judge is asked about by chance. */
  sampleRate: number;
  withWords: boolean;
  nowMs: number;
}

/** Adds up the observations of a chunk, or those of the chunks of a run. */
export class ObservationBook {
  readonly #series = new Map<string, Map<string, Map<number, ObservedSecond>>>();
  readonly #failures = new Map<string, ObservedFailure[]>();

  observe(measure: string, variant: string, [second, cases, failed]: Readonly<ObservedSecond>): void {
    const variants = entryOf(this.#series, measure, () => new Map<string, Map<number, ObservedSecond>>());
    const name = variants.has(variant) || variants.size < MAX_VARIANTS ? variant : OTHER;
    const seconds = entryOf(variants, name, () => new Map<number, ObservedSecond>());
    const sums = entryOf<number, ObservedSecond>(seconds, second, () => [second, 0, 0]);
    sums[1] += cases;
    sums[2] += failed;
  }

  /** Keeps the worst of each variant, since an objective may be about one, or about all but one. */
  fail(measure: string, failures: readonly ObservedFailure[]): void {
    const all = [...(this.#failures.get(measure) ?? []), ...failures];
    const kept = [...Map.groupBy(all, ({ variant }) => variant).values()].flatMap((own) => worst(own));
    this.#failures.set(measure, kept.slice(0, MAX_VARIANTS * SHOWN_FAILURES));
  }

  add({ series, failures }: QualityObservations): void {
    for (const [measure, variants] of Object.entries(series)) {
      for (const [variant, seconds] of Object.entries(variants)) {
        for (const second of seconds) this.observe(measure, variant, second);
      }
    }
    for (const [measure, ofMeasure] of Object.entries(failures)) this.fail(measure, ofMeasure);
  }

  /** @returns `undefined` if nothing was observed */
  observations(): QualityObservations | undefined {
    if (this.#series.size === 0) return undefined;
    // Names come from captures, and one of them may be `__proto__`.
    const series = Object.fromEntries(
      [...this.#series].map(([measure, variants]) => [
        measure,
        Object.fromEntries(
          [...variants].map(([variant, seconds]) => [variant, [...seconds.values()].toSorted(([a], [b]) => a - b)]),
        ),
      ]),
    );
    return { series, failures: Object.fromEntries(this.#failures) };
  }
}

function entryOf<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

/** Returns the captures that failed the most objectives, the latest first among equals, each once. */
export function worst(failures: readonly ObservedFailure[], count = SHOWN_FAILURES): ObservedFailure[] {
  const each = new Map(failures.map((failure) => [failure.traceId, failure]));
  return [...each.values()].toSorted((a, b) => b.failing - a.failing || b.second - a.second).slice(0, count);
}

/** Observes the captures of a chunk. */
class ObservationTally implements CaptureObserver {
  readonly #settings: ObservationSettings;
  readonly #book = new ObservationBook();

  constructor(settings: ObservationSettings) {
    this.#settings = settings;
  }

  /** Observes a capture that this run has traced or judged. */
  add(capture: CountedCapture): void {
    const { measures, nowMs } = this.#settings;
    const { facts, traceId } = capture;
    const exact = Math.floor(facts.inferenceMs / 1000);
    const age = nowMs / 1000 - exact;
    if (age > OLDEST_S || age < -LATEST_S) return;
    const second = age > PRECISE_S ? exact - (exact % MINUTE_S) : exact;
    const seen = measures.flatMap((measure) => {
      const verdict = this.#seenBy(measure, capture);
      return verdict === undefined ? [] : [{ measure, ...verdict }];
    });
    const failing = seen.filter(({ passed }) => !passed).length;
    for (const { measure, passed, rationale } of seen) {
      this.#book.observe(measure.name, facts.variant, [second, 1, passed ? 0 : 1]);
      if (passed) continue;
      const said = this.#settings.withWords && rationale ? { said: rationale.slice(0, MAX_WORDS) } : {};
      this.#book.fail(measure.name, [{ traceId, second, variant: facts.variant, failing, ...said }]);
    }
  }

  /** @returns whether the capture passes, `undefined` if this run did not judge it, or not by chance */
  #seenBy(measure: Measure, capture: CountedCapture): { passed: boolean; rationale?: string | undefined } | undefined {
    const { facts, isWritten, verdicts, replaced } = capture;
    if (measure.scorer === undefined) return isWritten ? { passed: !facts.isError } : undefined;
    const verdict = verdicts.find(({ name }) => name === measure.scorer);
    if (verdict?.value === undefined || replaced.some(({ name }) => name === measure.scorer)) return undefined;
    if (!this.#isByChance(capture.traceId, verdict)) return undefined;
    return { passed: measure.passes(verdict.value), rationale: verdict.rationale };
  }

  /** A capture that a rule has judged counts only if it would have been drawn: rules pick captures that are not like others. */
  #isByChance(traceId: string, { name, metadata, sourceType }: CountedVerdict): boolean {
    if (sourceType === 'CODE' || metadata[SAMPLE_METADATA] !== ALWAYS) return true;
    const { sampleRate = 1 } = this.#settings.scorers.find((scorer) => scorer.name === name) ?? {};
    return inSample(traceId, this.#settings.sampleRate) && inSample(traceId, sampleRate, name);
  }

  observations(): QualityObservations | undefined {
    return this.#book.observations();
  }
}

type Settings = Pick<LambdaEnvironment, 'QUALITY_OBJECTIVES' | 'EVALUATION_SAMPLE_RATE' | 'ALARM_QUOTES'>;

/**
 * Returns what observes the captures of a chunk; `undefined` if there is no objective.
 *
 * @param scorers absent where nothing is judged: then only error replies are observed
 * @param sampleRate that of the run
 */
export function observerOf(
  settings: Settings,
  sampleRate: number,
  scorers?: readonly Scorer[],
): CaptureObserver | undefined {
  const { QUALITY_OBJECTIVES: raw, EVALUATION_SAMPLE_RATE, ALARM_QUOTES: withWords } = settings;
  const own = scorers === undefined ? raw.filter(isAboutErrors) : raw;
  const objectives = readObjectives(own, { scorers: scorers ?? [], sampleRate: EVALUATION_SAMPLE_RATE });
  if (objectives.length === 0) return undefined;
  const judges = (scorers ?? []).filter(isJudgeScorer);
  return new ObservationTally({
    measures: measuresOf(objectives),
    scorers: judges,
    sampleRate,
    withWords,
    nowMs: Date.now(),
  });
}
