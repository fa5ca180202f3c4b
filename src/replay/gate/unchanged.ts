/** What an unchanged release would show: as earlier replays do, as far as they know it, else as assumed. */
import { normalCdf, normalQuantile } from '../../core/statistics/distributions.ts';
import { mean } from '../../core/statistics/mean-difference.ts';
import { Random } from '../../core/values/random.ts';
import type { ComparedData, RepliesData } from '../compare/compared-data.ts';
import { type MetricValues, metricBounds } from '../compare/differences.ts';
import type { ComparedMetric } from '../compare/run-data.ts';
import { evidenceOf } from './evidence.ts';
import type { ShareThreshold, Threshold } from './thresholds.ts';

/** What one replay shows by itself. */
export interface OneRun {
  metrics: Partial<Record<ComparedMetric, Float64Array>>;
  /** 1 for each request that failed, else 0, in the order of sending, without those canceled on purpose. */
  failures: Float64Array;
  /** Its replies compared with the captured ones, if it did that. */
  replies?: RepliesData;
}

/** Earlier replays: one run, or two against the same model. */
export interface Pilot {
  run?: OneRun;
  pairs?: ComparedData;
}

/** Taken where no earlier replay shows it. Every plan that uses one prints it. */
export const ASSUMED = {
  /** Standard deviation of the logarithm of a metric, and the correlation of the normal scores over the two runs. */
  logSigma: 0.6,
  correlation: 0.5,
  /** In the unit of the metric. It matters only for limits that are not a percentage. */
  medians: {
    request_latency: 2000,
    effective_latency: 2000,
    time_to_first_token: 300,
    inter_token_latency: 20,
    output_token_throughput_per_user: 50,
    output_sequence_length: 200,
  },
  /** Shares of the requests, or of the pairs. */
  errors: 0.01,
  regressed: 0.01,
  new_refusals: 0.005,
  new_failures: 0.005,
  new_harm: 0.0005,
  judged_worse: 0.02,
} as const satisfies Record<string, number | Record<ComparedMetric, number>>;

/** Fewest values that say more than the assumptions. */
const FEWEST_VALUES = 20;
/** Enough values to be taken as they are, and those that stand for a distribution that is assumed. */
const MANY_VALUES = 20_000;

/** `1.25%` */
export const percent = (share: number): string => `${Number((100 * share).toPrecision(3))}%`;

/** What an unchanged release shows, and where that is known from. */
export interface Unchanged {
  data: ComparedData;
  basis: string;
  /** Pairs, or requests of one run, that it is known from. */
  known: number;
}

type MetricThreshold = Extract<Threshold, { kind: 'metric' }>;
type Shown = Omit<Unchanged, 'known'>;

/** Two runs of `pairs` requests that all succeeded, without values and replies. */
export const noCases = (pairs: number): ComparedData => ({
  failures: [
    [0, pairs],
    [0, pairs],
  ],
  pairs: { requests: pairs, known: pairs, newlyFailing: 0, newlySucceeding: 0 },
  metrics: {},
});

export const unchangedBy = (threshold: Threshold, pilot: Pilot): Unchanged => ({
  known: pilot.pairs?.pairs.known ?? pilot.run?.failures.length ?? 0,
  ...(threshold.kind === 'metric' ? unchangedMetric(threshold, pilot) : unchangedShare(threshold, pilot)),
});

/**
 * The width by which values are moved, relative to themselves, so that quantiles do not stick to the few that there are:
 * Silverman's rule on the logarithms (1986, eq. 3.31). 0 unless all are positive, and for values that repeat by themselves, such
 * as numbers of tokens.
 */
function smoothing(values: Float64Array): number {
  const sorted = values.filter(Number.isFinite).sort();
  const n = sorted.length;
  if (!((sorted[0] ?? 0) > 0) || new Set(sorted).size < n / 2) return 0;
  const logs = sorted.map(Math.log);
  const center = mean(logs);
  const deviation = Math.sqrt(logs.reduce((sum, value) => sum + (value - center) ** 2, 0) / (n - 1));
  const quartiles = ((logs[Math.floor(0.75 * n)] ?? 0) - (logs[Math.floor(0.25 * n)] ?? 0)) / 1.34;
  return 0.9 * (quartiles > 0 ? Math.min(deviation, quartiles) : deviation) * n ** -0.2;
}

/**
 * Each pair in both orders, so that what differs is nothing. A few pairs are taken several times, each time a little moved, and in
 * a random order, unless their own order counts.
 */
function inBothOrders({ before, after }: Omit<MetricValues, 'paired'>, isAlike: boolean): MetricValues {
  const random = new Random(1);
  const [first, second] = [
    [...before, ...after],
    [...after, ...before],
  ];
  const width = smoothing(Float64Array.from(first));
  const size = first.length;
  if (isAlike || width === 0 || size >= MANY_VALUES)
    return { before: Float64Array.from(first), after: Float64Array.from(second), paired: true };
  const order = Uint32Array.from({ length: size * Math.ceil(MANY_VALUES / size) }, (_, i) => i % size);
  for (let i = order.length - 1; i > 0; i--) {
    const at = random.below(i + 1);
    [order[i], order[at]] = [order[at] ?? 0, order[i] ?? 0];
  }
  const moved = (values: readonly number[]): Float64Array =>
    Float64Array.from(order, (at) => (values[at] ?? 0) * Math.exp(width * random.normal()));
  return { before: moved(first), after: moved(second), paired: true };
}

const REST = Math.sqrt(1 - ASSUMED.correlation ** 2);

/**
 * A second run like the one that there is, with the assumed correlation of the normal scores. Its own part is the run itself,
 * moved by a third, so that neighbours are as alike.
 */
function runLike(values: Float64Array): Float64Array {
  const n = values.length;
  const sorted = values.slice().sort();
  const scores = new Float64Array(n);
  const order = Uint32Array.from(values.keys()).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
  for (const [rank, at] of order.entries()) scores[at] = normalQuantile((rank + 0.5) / n);
  return scores.map((score, i) => {
    const own = scores[(i + Math.floor(n / 3)) % n] ?? 0;
    return sorted[Math.floor(normalCdf(ASSUMED.correlation * score + REST * own) * n)] ?? Number.NaN;
  });
}

/** The values of a metric with an unchanged release. */
function unchangedMetric({ metric, statistic, relative }: MetricThreshold, { run, pairs }: Pilot): Shown {
  const shown = (values: Omit<MetricValues, 'paired'>, requests: number, basis: string): Shown => {
    const isAlike = metricBounds({ ...values, paired: true }, statistic, relative)()?.effective !== undefined;
    const unchanged = inBothOrders(values, isAlike);
    const of = (requests * unchanged.before.length) / values.before.length;
    return { data: { ...noCases(requests), metrics: { [metric]: { ...unchanged, of } } }, basis };
  };
  const both = pairs?.metrics[metric];
  if (pairs && both?.paired && both.before.length >= FEWEST_VALUES)
    return shown(both, pairs.pairs.known, `as ${both.before.length} pairs vary`);
  const one = run?.metrics[metric];
  const correlated = `correlation over pairs ${ASSUMED.correlation} (assumed)`;
  if (run && one && one.length >= FEWEST_VALUES) {
    const values = { before: one, after: runLike(one) };
    return shown(values, run.failures.length, `as ${one.length} values vary; ${correlated}`);
  }
  const median = ASSUMED.medians[metric];
  const random = new Random(1);
  const drawn = Float64Array.from({ length: MANY_VALUES }, () => median * Math.exp(ASSUMED.logSigma * random.normal()));
  const basis = `log-normal, median ${median}, sigma ${ASSUMED.logSigma}, ${correlated}`;
  return shown({ before: drawn, after: runLike(drawn) }, drawn.length, basis);
}

const INDEPENDENTLY = 'independently in both runs (assumed)';

/** As many requests fail only before as only after. */
function unchangedFailures({ run, pairs }: Pilot): Shown {
  const shown = (share: number, known: number, changes: Float64Array | undefined, basis: string): Shown => {
    const none = noCases(known);
    const newlyFailing = share * known;
    return { data: { ...none, pairs: { ...none.pairs, newlyFailing, newlySucceeding: newlyFailing, changes } }, basis };
  };
  if (pairs && pairs.pairs.known > 0) {
    const { newlyFailing, newlySucceeding, known, changes } = pairs.pairs;
    const changed = newlyFailing + newlySucceeding;
    return shown(
      changed / 2 / known,
      known,
      changes,
      `${changed} of ${known} pairs failed in only one of the two runs`,
    );
  }
  const independent = (rate: number): number => rate * (1 - rate);
  if (run && run.failures.length > 0) {
    const of = run.failures.length;
    const failed = run.failures.reduce((sum, one) => sum + one, 0);
    return shown(independent(failed / of), of, run.failures, `${failed} of ${of} requests failed; ${INDEPENDENTLY}`);
  }
  const basis = `${percent(ASSUMED.errors)} of the requests fail (assumed); ${INDEPENDENTLY}`;
  return shown(independent(ASSUMED.errors), 1, undefined, basis);
}

/** A share of the pairs that a replay against the same model shows. A pair without a verdict counts as a case, as it does for the gate. */
function unchangedShare(threshold: ShareThreshold, { run, pairs }: Pilot): Shown {
  const { share, scorer = '' } = threshold;
  if (share === 'error_rate' || share === 'newly_failing') return unchangedFailures({ run, pairs });
  const [replies, requests] = pairs ? [pairs.replies, pairs.pairs.known] : [run?.replies, run?.failures.length];
  const data = { ...noCases(requests ?? 0), ...(replies ? { replies } : {}) };
  const { cases, seen } = evidenceOf(threshold, data);
  if (requests && cases && seen > 0) {
    const hits = cases.hits + cases.open;
    const what = cases.judged ? 'pairs worse or without a verdict' : 'pairs';
    return { data, basis: `${percent(hits / seen)} (${hits} of ${seen} ${what})` };
  }
  const worse = ASSUMED[share];
  const verdicts = { pairs: 1, worse, open: 0 };
  const newFailures = { [scorer]: { cases: Float64Array.of(worse), of: 1 } };
  const assumed = { compared: 1, regressed: worse, newRefusals: worse, judged: verdicts, harm: verdicts, newFailures };
  return { data: { ...noCases(1), replies: assumed }, basis: `${percent(worse)} of the pairs (assumed)` };
}
