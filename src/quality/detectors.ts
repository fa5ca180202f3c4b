/**
 * The state of all detectors of a stack, and its change by a run. All functions here depend only on the state and the
 * run, so that the state can be written on condition that no other run has written it.
 *
 * Runs end in any order. So captures of the last minutes are kept as a tail, into which the captures of each further
 * run are sorted, and the detectors start over from the end of the settled captures. A run counts once, even if it is
 * summarized several times.
 */

import { hash } from 'node:crypto';
import type {
  ObservedFailure,
  ObservedSeries,
  QualityFailures,
  QualityObservations,
} from '../core/contract/quality.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { worstFirst } from '../core/values/severity.ts';
import { addTree } from './count-tree.ts';
import {
  createDetector,
  type Detector,
  type DetectorState,
  feed,
  newState,
  type ObjectiveChange,
  type ObservedSecond,
  rateOf,
  type Span,
} from './detector.ts';
import type { Objective } from './objectives.ts';

/** A run of new files, with its observations. */
export interface ObservedRun {
  name: string;
  startedMs: number;
  observations: QualityObservations;
}

interface ObjectiveState {
  /** The objective's figures. A detector of other figures starts over. */
  design: string;
  /** After all captures before `settledUntil`. */
  settled: DetectorState;
  /** The last change that was announced, the second of its last capture, and of the first that showed it. */
  said: { isMissed: boolean; second: number; since: number };
  failures: ObservedFailure[];
}

/** An announcement that has not been confirmed as sent. */
export interface Announcement {
  id: string;
  /** The run that showed it. */
  run: string;
  writtenMs: number;
  /** The last capture that shows it, epoch seconds. */
  second: number;
  objective: string;
  change: ObjectiveChange;
  /** The rate in the objective's own window. */
  window: Span;
  failures: ObservedFailure[];
}

/** `counts/detectors.json` in the work bucket. */
export interface DetectorsState {
  /** Epoch seconds. Captures before this time are settled. Later captures are in the tail. */
  settledUntil: number;
  objectives: Record<string, ObjectiveState>;
  /** Runs with captures that are not settled, by the digest of the run's name. */
  tail: Record<string, { startedMs: number; series: Record<string, ObservedSecond[]> }>;
  /** Runs that are settled, by digest, with their start. Runs that started before `horizonMs` are not fed any more. */
  applied: Record<string, number>;
  horizonMs: number;
  outbox: Announcement[];
}

/** @returns `undefined` if the text is not a state */
export function parseState(text: string): DetectorsState | undefined {
  const { settledUntil, horizonMs, outbox, objectives, tail, applied } = Object(jsonIn(text));
  const isTree = [objectives, tail, applied].every((tree) => typeof tree === 'object' && tree !== null);
  const isState = isTree && Number.isFinite(settledUntil) && Number.isFinite(horizonMs) && Array.isArray(outbox);
  return isState ? { settledUntil, horizonMs, outbox, objectives, tail, applied } : undefined;
}

/** Maximum difference in the duration of runs for which captures are fed in the order of inference. */
const TAIL_S = 900;
/** Long after this, a run may be summarized again only by a person. */
const REMEMBERED_MS = 48 * 3_600_000;
const MAX_REMEMBERED = 20_000;
/** Many more than are shown, so that some are left of the time since the change. */
const KEPT_FAILURES = 20;
const MAX_OUTBOX = 100;

const digestOf = (run: string): string => hash('sha256', run).slice(0, 12);

const emptyState = (nowS: number): DetectorsState => ({
  ...{ settledUntil: nowS - TAIL_S, horizonMs: 0, outbox: [] },
  ...{ objectives: {}, tail: {}, applied: {} },
});

/** The detectors in force, and their objectives' state. */
export class Detectors {
  readonly #detectors: readonly Detector[];
  readonly #shadow: readonly string[];

  /** @param shadow variants that only objectives for them watch */
  constructor(objectives: readonly Objective[], shadow: readonly string[] = []) {
    this.#detectors = objectives.map(createDetector);
    this.#shadow = shadow;
  }

  objective(id: string): Objective | undefined {
    return this.#detectors.find(({ objective }) => objective.id === id)?.objective;
  }

  /**
   * Feeds a run to the detectors.
   *
   * @param before the state as read; it is not changed
   * @returns the state after the run; `undefined` if the run was fed before and nothing has changed
   */
  apply(before: DetectorsState | undefined, run: ObservedRun, nowMs: number): DetectorsState | undefined {
    const nowS = Math.floor(nowMs / 1000);
    const state = before === undefined ? emptyState(nowS) : structuredClone(before);
    if (run.startedMs < state.horizonMs || Object.hasOwn(state.applied, digestOf(run.name))) return undefined;
    this.#fit(state);
    this.#enter(state, run);
    const until = Math.max(state.settledUntil, nowS - TAIL_S);
    for (const detector of this.#detectors) this.#feed(state, detector, until, { run: run.name, writtenMs: nowMs });
    state.settledUntil = until;
    settle(state, nowMs);
    return state;
  }

  /** Forgets objectives that no longer exist, and adds new objectives. */
  #fit(state: DetectorsState): void {
    const objectives: DetectorsState['objectives'] = {};
    for (const { objective } of this.#detectors) {
      const { id, failing, perDay, together } = objective;
      const design = JSON.stringify([failing, perDay, together]);
      const known = ownOf(state.objectives, id);
      const fresh = { design, settled: newState(), said: { isMissed: false, second: 0, since: 0 }, failures: [] };
      objectives[id] = known?.design === design ? known : fresh;
    }
    state.objectives = objectives;
  }

  /** Puts the observations of the run into the tail, in place of those from an earlier summary of the same run. */
  #enter(state: DetectorsState, { name, startedMs, observations }: ObservedRun): void {
    const run = digestOf(name);
    const isKnown = Object.hasOwn(state.tail, run);
    const series: Record<string, ObservedSecond[]> = {};
    for (const { objective } of this.#detectors) {
      const watches = (variant: string): boolean =>
        objective.variant === undefined ? !this.#shadow.includes(variant) : variant === objective.variant;
      const seconds = secondsOf(ownOf(observations.series, objective.measure.name) ?? {}, watches);
      // Late captures are fed after the settled ones. If the run is known, its late captures have already been fed.
      const own = isKnown ? seconds.filter(([second]) => second >= state.settledUntil) : seconds;
      if (own.length > 0) series[objective.id] = own;
      const { failures } = state.objectives[objective.id] ?? { failures: [] };
      const found = ownOf(observations.failures, objective.measure.name) ?? [];
      // If a run is summarized again, its failures are already counted.
      const isCounted = ({ exchange }: ObservedFailure): boolean =>
        isKnown && exchange !== undefined && failures.some((one) => one.exchange === exchange);
      const mine = found.filter((one) => watches(one.variant) && !isCounted(one));
      const latest = distinct([...failures, ...mine]).toSorted((a, b) => b.second - a.second);
      failures.splice(0, Infinity, ...latest.slice(0, KEPT_FAILURES));
    }
    state.tail[run] = { startedMs, series };
  }

  #feed(state: DetectorsState, detector: Detector, until: number, by: Pick<Announcement, 'run' | 'writtenMs'>): void {
    const { id } = detector.objective;
    const own = state.objectives[id];
    if (own === undefined) return;
    const seconds = Object.values(state.tail).flatMap(({ series }) => ownOf(series, id) ?? []);
    seconds.sort(([a], [b]) => a - b);
    const announce = (second: number, change: ObjectiveChange, now: DetectorState): void => {
      if (change.isMissed === own.said.isMissed || second < own.said.second) return;
      own.said = { isMissed: change.isMissed, second, since: change.evidence.since };
      const failures = worst(own.failures.filter((one) => one.second >= change.evidence.since));
      const window = rateOf(now, detector.objective);
      const named = { id: `${id} ${second} ${change.isMissed}`, objective: id, ...by };
      state.outbox.push(structuredClone({ ...named, second, change, window, failures }));
    };
    const feedAll = (into: DetectorState, some: readonly ObservedSecond[]): void => {
      for (const one of some) for (const change of feed(detector, into, one)) announce(one[0], change, into);
    };
    const later = seconds.findIndex(([second]) => second >= until);
    const split = later < 0 ? seconds.length : later;
    feedAll(own.settled, seconds.slice(0, split));
    const present = structuredClone(own.settled);
    feedAll(present, seconds.slice(split));
    // A late run can invalidate a change that its predecessors showed.
    const isMissed = present.missed !== undefined;
    const before = { since: own.said.second, cases: 0, failed: 0 };
    if (isMissed !== own.said.isMissed)
      announce(nowSecond(seconds, own), { isMissed, evidence: present.evidence, before }, present);
  }
}

/** Returns the ids of the objectives that are missed, or were for a time within the run. */
export function missedObjectives({ objectives, outbox }: DetectorsState, run: string): string[] {
  const missed = Object.entries(objectives).filter(([, { said }]) => said.isMissed);
  const lately = outbox.filter(({ change, run: by }) => change.isMissed && by === run);
  return [...new Set([...missed.map(([id]) => id), ...lately.map(({ objective }) => objective)])];
}

const nowSecond = (seconds: readonly ObservedSecond[], { said }: ObjectiveState): number =>
  Math.max(said.second, seconds.at(-1)?.[0] ?? 0);

/** A guideline may be named `constructor`, and parsed JSON has a prototype. */
const ownOf = <T>(values: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(values, name) ? values[name] : undefined;

/** Returns the observations of some variants, by second, in order. */
function secondsOf(series: ObservedSeries[string], watches: (variant: string) => boolean): ObservedSecond[] {
  const sums: ObservedSeries[string][string] = {};
  for (const [variant, seconds] of Object.entries(series)) if (watches(variant)) addTree(sums, seconds);
  return Object.entries(sums)
    .map(([second, { cases = 0, failed = 0 }]): ObservedSecond => [Number(second), cases, failed])
    .toSorted(([a], [b]) => a - b);
}

/** Removes settled captures from the tail, and old entries from the state. */
function settle(state: DetectorsState, nowMs: number): void {
  for (const [name, run] of Object.entries(state.tail)) {
    for (const [id, seconds] of Object.entries(run.series)) {
      const left = seconds.filter(([second]) => second >= state.settledUntil);
      if (left.length > 0 && Object.hasOwn(state.objectives, id)) run.series[id] = left;
      else delete run.series[id];
    }
    if (Object.keys(run.series).length > 0) continue;
    delete state.tail[name];
    state.applied[name] = run.startedMs;
  }
  const runs = Object.entries(state.applied).toSorted(([, a], [, b]) => b - a);
  const dropped = runs.slice(MAX_REMEMBERED)[0]?.[1] ?? 0;
  state.horizonMs = Math.max(state.horizonMs, nowMs - REMEMBERED_MS, dropped === 0 ? 0 : dropped + 1);
  state.applied = Object.fromEntries(runs.filter(([, startedMs]) => startedMs >= state.horizonMs));
  state.outbox = state.outbox.slice(-MAX_OUTBOX);
}

// ------------------------------------------------------------------------------- captures that failed an objective
// A person should look at a few of these captures first.

/** A person looks at this many captures. */
export const SHOWN_FAILURES = 5;
/** An endpoint has at most 10 variants. */
const MAX_FAILURES = 10 * SHOWN_FAILURES;

/** Adds failures, and keeps the worst of each variant, since an objective may be about one, or about all but one. */
export function addFailures(kept: QualityFailures, more: QualityFailures): void {
  for (const [measure, failures] of Object.entries(more)) {
    const all = [...(ownOf(kept, measure) ?? []), ...failures];
    const byVariant = [...Map.groupBy(all, ({ variant }) => variant).values()];
    kept[measure] = byVariant.flatMap((own) => worst(own)).slice(0, MAX_FAILURES);
  }
}

const worseFirst = (a: ObservedFailure, b: ObservedFailure): number => worstFirst(a, b) || b.second - a.second;

/**
 * Returns the worst captures: most severe failure first, then most causes, then the latest. Of equal captures, returns
 * the worst, with their number.
 */
const worst = (failures: readonly ObservedFailure[]): ObservedFailure[] =>
  distinct(failures).toSorted(worseFirst).slice(0, SHOWN_FAILURES);

/** Returns each capture once. Of captures with the same request and reply, returns the worst, with their number. */
function distinct(failures: readonly ObservedFailure[]): ObservedFailure[] {
  // A run that is summarized again observes the same trace.
  const each = new Map(failures.map((failure) => [failure.traceId, failure]));
  const equal = Map.groupBy(each.values(), ({ traceId, exchange }) => exchange ?? traceId);
  return [...equal.values()].flatMap((same) => {
    const count = same.reduce((sum, one) => sum + (one.count ?? 1), 0);
    const [one] = same.toSorted(worseFirst);
    return one && count > 1 ? { ...one, count } : (one ?? []);
  });
}
