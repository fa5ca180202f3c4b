/**
 * Computes how many captures each label of picked traces represents, and which captures the labels represent together.
 */
import { sum } from '../../core/values/sum.ts';
import { type LabelPick, VERDICTS, verdictOf } from './pick-labels.ts';

/** The facts about a judged trace that affect weights. */
export interface JudgedTrace {
  traceId: string;
  inferenceMs: number;
  /** Time of the scorer's first verdict. */
  seenMs: number;
  /** The judge's verdict passes. */
  passed: boolean;
  /** Returns the number of captures that it represents, because not all captures are judged. */
  weight(): number;
  pick: LabelPick | undefined;
  /** Whether it has a usable label. */
  isLabelled: boolean;
}

/** A window that was picked from in one call, with the traces that its filter finds. */
type PickWindow = Awaited<ReturnType<typeof labelledWindows>>[number];

/** Returns the ids of the traces that MLflow's filter finds; `undefined` if MLflow does not take the filter. */
type Matches = (filter: string) => Promise<Set<string> | undefined>;

const keyOf = ({ verdict: _, probability: __, picked: ___, ...window }: LabelPick): string => JSON.stringify(window);

/**
 * Weighs the labels of picked traces. Labels with the same verdict and windows represent all judged traces with this
 * verdict and these windows, each label the same number. So labels of a small window count less than labels of a large
 * window, and picked traces without a label are assumed to resemble the labeled ones.
 *
 * A window without labels of its picked traces represents no traces yet, and is left out with its labels.
 */
export async function weighPicked(judged: readonly JudgedTrace[], matches: Matches) {
  const windows = await labelledWindows(judged, matches);
  const isCounted = ({ isLabelled, pick }: JudgedTrace): boolean =>
    isLabelled && pick !== undefined && windows.some(({ key }) => key === keyOf(pick));
  const inside = judged.flatMap((trace) => {
    const own = windows.filter((window) => isIn(trace, window));
    // A window in which one verdict has traces, but no picked trace, represents neither verdict.
    return VERDICTS.every((verdict) => own.some((window) => window[verdict] > 0)) ? [{ trace, own }] : [];
  });
  /** Number of captures that the label of each trace represents. */
  const weights = new Map<string, number>();
  for (const [verdict, members] of Map.groupBy(inside, ({ trace }) => verdictOf(trace.passed))) {
    const idOf = (window: PickWindow): string => (window[verdict] > 0 ? String(windows.indexOf(window)) : '');
    const groups = [...Map.groupBy(members, ({ own }) => own.map(idOf).join()).values()];
    for (const group of withLabels(groups, ({ trace }) => isCounted(trace))) {
      const labels = group.filter(({ trace }) => isCounted(trace));
      const shares = labels.map(({ trace, own }) => {
        const picked = trace.pick?.verdict ?? verdict;
        return trace.weight() / Math.max(...own.map((window) => window[picked]));
      });
      const scale = sum(group.map(({ trace }) => trace.weight())) / sum(shares);
      for (const [index, { trace }] of labels.entries()) weights.set(trace.traceId, (shares[index] ?? 0) * scale);
    }
  }
  /** `covered`: the traces of windows with labels of their picked traces. */
  return { weights, covered: new Set(inside.map(({ trace }) => trace.traceId)) };
}

/** Returns the windows that have a label for each picked verdict, and whose filter MLflow accepts. */
async function labelledWindows(judged: readonly JudgedTrace[], matches: Matches) {
  const picked = judged.flatMap(({ pick, isLabelled }) => (pick === undefined ? [] : [{ pick, isLabelled }]));
  const windows = [];
  const found = new Map<string, Promise<Set<string> | undefined>>();
  for (const [key, members] of Map.groupBy(picked, ({ pick }) => keyOf(pick))) {
    const byVerdict = [...Map.groupBy(members, ({ pick }) => pick.verdict).values()];
    const [first] = members;
    if (first === undefined || !byVerdict.every((group) => group.some(({ isLabelled }) => isLabelled))) continue;
    const { from, to, seen, filter } = first.pick;
    if (filter !== undefined && !found.has(filter)) found.set(filter, matches(filter));
    const ids = await found.get(filter ?? '');
    const times = { fromMs: Date.parse(from), toMs: Date.parse(to), seenMs: Date.parse(seen) };
    if (filter === undefined || ids !== undefined) windows.push({ ...first.pick, ...times, key, ids });
  }
  return windows;
}

const isIn = ({ traceId, inferenceMs, seenMs }: JudgedTrace, window: PickWindow): boolean =>
  inferenceMs >= window.fromMs &&
  inferenceMs < window.toMs &&
  seenMs <= window.seenMs &&
  (window.ids?.has(traceId) ?? true);

type Inside = { trace: JudgedTrace; own: PickWindow[] };

/** Joins each group without a label to the previous group in time, or else to the next. */
function withLabels(groups: readonly Inside[][], isCounted: (one: Inside) => boolean): Inside[][] {
  const startOf = (group: readonly Inside[]): number =>
    group.reduce((first, { trace }) => Math.min(first, trace.inferenceMs), Infinity);
  const joined: Inside[][] = [];
  for (const group of groups.toSorted((a, b) => startOf(a) - startOf(b))) {
    const last = joined.at(-1);
    if (last === undefined || (last.some(isCounted) && group.some(isCounted))) joined.push(group);
    else joined[joined.length - 1] = [...last, ...group];
  }
  return joined.filter((group) => group.some(isCounted));
}
