/** What two compared runs say about a threshold: how much worse the second one is, with its bounds. */
import type { Bounds } from '../../core/statistics/bounds.ts';
import { longRun } from '../../core/statistics/long-run.ts';
import { shareBounds } from '../../core/statistics/share.ts';
import { independentDifference, pairedDifference } from '../../core/statistics/share-difference.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { type MetricValues, metricBounds, NEEDED_VALUES } from '../compare/differences.ts';
import { type ComparedMetric, isLargerBetter } from '../compare/run-data.ts';
import type { Threshold } from './thresholds.ts';
import type { GateUnit } from './types.ts';

interface Seen {
  unit: GateUnit;
  /** Pairs, or values of two independent samples, that the evidence stands on. */
  seen: number;
  /** Requests that were not canceled on purpose, or values, of the run with more of them. */
  of: number;
}

/** A share of the pairs. */
export interface Cases {
  hits: number;
  /** Pairs that may be a case or not: the judge gave no verdict. */
  open: number;
  /** Whether verdicts count, so that `open` pairs are worth a mention. */
  judged: boolean;
}

/** How much worse the second run is, in the threshold's unit. Only shares of pairs have `cases`. */
export interface Evidence extends Seen {
  bounds?: Bounds;
  cases?: Cases;
  /** Where there are no bounds: those that too few independent requests give, or a sample with the same values several times each. */
  enlarged?: { bounds: Bounds; seen: number };
  /** Why nothing is known. */
  unknown?: string;
  /** Pairs that are missing for any bounds, because those that there are tell as much as very few independent ones. */
  missing?: number;
  /** Whether the sequence has no failure that would tell whether failures come one by one. */
  withoutFailure?: boolean;
}

const UNITS: Partial<Record<ComparedMetric, GateUnit>> = {
  output_token_throughput_per_user: 'tokens/s',
  output_sequence_length: 'tokens',
};

/** The function, computing each value once: some bounds are sums over many tables. */
function once(f: (alpha: number) => number): (alpha: number) => number {
  const found = new Map<number, number>();
  return (alpha) => {
    const value = found.get(alpha) ?? f(alpha);
    found.set(alpha, value);
    return value;
  };
}

/** Bounds in another unit; a negative factor exchanges the ends. */
const scaled = ({ estimate, lower, upper, effective }: Bounds, factor: number): Bounds => ({
  ...(effective === undefined ? {} : { effective }),
  estimate: estimate * factor,
  lower: once((alpha) => factor * (factor > 0 ? lower(alpha) : upper(alpha))),
  upper: once((alpha) => factor * (factor > 0 ? upper(alpha) : lower(alpha))),
});

/** Reads from the compared runs what the threshold asks about. */
export const evidenceOf = (threshold: Threshold, data: ComparedData): Evidence =>
  threshold.kind === 'metric' ? metricEvidence(threshold, data) : shareEvidence(threshold, data);

function metricEvidence(
  { metric, statistic, relative }: Extract<Threshold, { kind: 'metric' }>,
  { metrics }: ComparedData,
): Evidence {
  const values = metrics[metric];
  const unit = relative ? '%' : (UNITS[metric] ?? 'ms');
  const seen = values ? Math.min(values.before.length, values.after.length) : 0;
  const basis = { unit, seen, of: values?.of ?? 0 } as const;
  if (!values || seen === 0) return { ...basis, unknown: `at least one run has no ${metric}` };
  const unitOf = (bounds: Bounds): Bounds =>
    scaled(bounds, (isLargerBetter(metric) === true ? -1 : 1) * (relative ? 100 : 1));
  const found = metricBounds(values, statistic, relative);
  if (found) return { ...basis, ...whereAlike(unitOf(found), seen) };
  const needed = NEEDED_VALUES[statistic];
  const times = Math.ceil(needed / seen);
  const enlarged = metricBounds(repeated(values, times), statistic, relative);
  return {
    ...basis,
    unknown: `${statistic} needs at least ${needed} values`,
    ...(enlarged ? { enlarged: { bounds: unitOf(enlarged), seen: times * seen } } : {}),
  };
}

/** With fewer independent values, the variance of what varies slowly is a guess. */
const FEWEST_EFFECTIVE = 10;

/** The bounds, or none if neighbouring requests are so alike that they tell as much as very few. */
function whereAlike(bounds: Bounds, seen: number): Pick<Evidence, 'bounds' | 'missing' | 'enlarged'> {
  const { effective = seen } = bounds;
  if (effective >= FEWEST_EFFECTIVE) return { bounds };
  const missing = Math.ceil((seen * FEWEST_EFFECTIVE) / Math.max(1, effective)) - seen;
  const none = { ...bounds, lower: () => -Infinity, upper: () => Infinity };
  return { bounds: none, missing, enlarged: { bounds, seen } };
}

/** From so many pairs on, failures are taken to come in clusters as long as none shows otherwise. */
const PAIRS_FOR_CLUSTERS = 1000;
/** Requests that fail together when a server restarts. */
export const CLUSTER = 10;

/** How many cases come together, if their sequence shows that they do; else 1. */
function shownRatio(sequence: Float64Array | undefined): number {
  if (!sequence) return 1;
  const { ratio, isShown } = longRun(sequence);
  return isShown ? ratio : 1;
}

/** How many requests change together: what their sequence shows, or a cluster where it has no failure. */
function changesTogether({ known, newlyFailing, changes }: ComparedData['pairs']): {
  ratio: number;
  withoutFailure: boolean;
} {
  const withoutFailure = newlyFailing === 0 && changes !== undefined;
  const assumed = withoutFailure && known >= PAIRS_FOR_CLUSTERS ? CLUSTER : 1;
  return { ratio: Math.max(assumed, shownRatio(changes)), withoutFailure };
}

/** A sample with the same values, each so many times. */
function repeated({ before, after, paired }: MetricValues, times: number): MetricValues {
  const repeat = (values: Float64Array): Float64Array =>
    Float64Array.from({ length: times * values.length }, (_, i) => values[i % values.length] ?? Number.NaN);
  return { before: repeat(before), after: repeat(after), paired };
}

const NO_PAIRS = 'no request is in both runs, or all were canceled on purpose';

function shareEvidence({ share }: Extract<Threshold, { kind: 'share' }>, data: ComparedData): Evidence {
  const { pairs, replies } = data;
  if (share === 'error_rate') return errorRate(data);
  const of = Math.max(...data.failures.map(([, requests]) => requests));
  const basis = { unit: '%', of } as const;
  const cases = (hits: number, seen: number, open = 0, judged = false, ratio = 1): Evidence => {
    if (seen === 0) return { ...basis, seen, unknown: NO_PAIRS };
    const effective = ratio > 1 ? { effective: seen / ratio } : {};
    const bounds = { ...shareBounds(hits / ratio, seen / ratio, open / ratio), ...effective };
    return { ...basis, seen, bounds: scaled(bounds, 100), cases: { hits, open, judged } };
  };
  if (share === 'newly_failing') {
    const { ratio, withoutFailure } = changesTogether(pairs);
    return { ...cases(pairs.newlyFailing, pairs.known, 0, false, ratio), withoutFailure };
  }
  if (!replies) return { ...basis, seen: 0, unknown: 'the runs kept no replies; replay with --compare' };
  const { compared, regressed, newRefusals, judged } = replies;
  if (share === 'new_refusals') return cases(newRefusals, compared, 0, false, shownRatio(replies.cases?.newRefusals));
  if (share === 'regressed') {
    // A pair without a verdict may count as regressed already.
    const open = Math.min(judged?.open ?? 0, compared - regressed);
    return cases(regressed, compared, open, judged !== undefined, shownRatio(replies.cases?.regressed));
  }
  if (!judged) return { ...basis, seen: 0, unknown: 'no judge was asked; compare with --judge' };
  return cases(judged.worse, judged.pairs, judged.open, true);
}

/** The rise of the share of failed requests: of the same requests if there are pairs, else of two samples. */
function errorRate({ failures, pairs }: ComparedData): Evidence {
  const [before, after] = failures;
  const isPaired = pairs.requests > 0;
  const seen = isPaired ? pairs.known : Math.min(before[1], after[1]);
  const basis = { unit: 'points', seen, of: Math.max(before[1], after[1]) } as const;
  if (seen === 0) return { ...basis, unknown: NO_PAIRS };
  if (!isPaired) return { ...basis, bounds: scaled(independentDifference(before, after), 100) };
  const { ratio, withoutFailure } = changesTogether(pairs);
  const each = (count: number): number => Math.round(count / ratio);
  const { newlyFailing, newlySucceeding } = pairs;
  const found = pairedDifference({
    onlyBefore: each(newlySucceeding),
    onlyAfter: each(newlyFailing),
    pairs: Math.max(1, Math.floor(seen / ratio)),
  });
  const estimate = (newlyFailing - newlySucceeding) / seen;
  const bounds = ratio > 1 ? { ...found, estimate, effective: Math.floor(seen / ratio) } : found;
  return { ...basis, bounds: scaled(bounds, 100), withoutFailure };
}
