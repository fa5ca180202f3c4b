/** What an unchanged release would show: drawn from earlier replays as far as they know it, else from assumptions. */

import { normalCdf } from '../../core/statistics/distributions.ts';
import { likelyShares } from '../../core/statistics/power.ts';
import type { Random } from '../../core/values/random.ts';
import type { ComparedData, RepliesData } from '../compare/compared-data.ts';
import type { ComparedMetric } from '../compare/run-data.ts';
import type { ThresholdShare } from './thresholds.ts';

/** What one replay shows by itself. */
export interface OneRun {
  metrics: Partial<Record<ComparedMetric, Float64Array>>;
  /** Failed requests, and all that were not canceled on purpose. */
  failures: [failed: number, of: number];
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
  /** Standard deviation of the logarithm of a metric, and the correlation of the logarithms over the two runs. */
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
  judged_worse: 0.02,
} as const satisfies Record<string, number | Record<ComparedMetric, number>>;

/** Fewest values that are drawn from; with fewer, the assumptions say more. */
const FEWEST_VALUES = 20;
/** From this many values on, the values of another pilot would be as good: what it leaves open is left out. */
const MANY_VALUES = 5000;

/** `1.25%` */
export const percent = (share: number): string => `${Number((100 * share).toPrecision(3))}%`;

/** The pairs of an unchanged release. */
export interface UnchangedPairs {
  draw(pairs: number, random: Random): ComparedData;
  /** Pairs per request: some requests fail or have no value. */
  perRequest: number;
  basis: string;
}

/** Two runs of `pairs` requests that all succeeded, without values and replies. */
export const noCases = (pairs: number): ComparedData => ({
  failures: [
    [0, pairs],
    [0, pairs],
  ],
  pairs: { requests: pairs, known: pairs, newlyFailing: 0, newlySucceeding: 0 },
  metrics: {},
});

const REST = Math.sqrt(1 - ASSUMED.correlation ** 2);

/** Two standard normal values with the assumed correlation. */
function normals(random: Random): [number, number] {
  const first = random.normal();
  return [first, ASSUMED.correlation * first + REST * random.normal()];
}

/**
 * The width by which a drawn value is moved, relative to itself, so that quantiles do not stick to the few values that there
 * are: Silverman's rule on the logarithms (1986, eq. 3.31). 0 unless all values are positive, and for values that repeat by
 * themselves, such as numbers of tokens.
 */
function smoothing(values: Float64Array): number {
  const sorted = Float64Array.from(values).sort();
  if (!((sorted[0] ?? 0) > 0) || new Set(sorted).size < sorted.length / 2) return 0;
  const logs = sorted.map(Math.log);
  const n = logs.length;
  const mean = logs.reduce((sum, value) => sum + value, 0) / n;
  const deviation = Math.sqrt(logs.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1));
  const quartiles = ((logs[Math.floor(0.75 * n)] ?? 0) - (logs[Math.floor(0.25 * n)] ?? 0)) / 1.34;
  return 0.9 * (quartiles > 0 ? Math.min(deviation, quartiles) : deviation) * n ** -0.2;
}

/** A value near 0, with the variance 1: three uniform ones are as good as a normal one here, and fast. */
const aside = (random: Random): number => 2 * (random.next() + random.next() + random.next()) - 3;

/** The numbers of the values to draw from. A resample of them, so that what a small pilot leaves open counts. */
const resampled = (size: number, random: Random): Uint32Array =>
  Uint32Array.from({ length: size }, (_, i) => (size < MANY_VALUES ? random.below(size) : i));

/** The share of the values that are taken for the tail. */
const TAIL_SHARE = 0.05;
const FEWEST_TAIL_VALUES = 5;
/** A heavier tail has no variance, and its mean no size. */
const HEAVIEST_TAIL = 0.45;

/** Replaces a drawn value. */
type Redraw = (value: number, random: Random) => number;

/**
 * Draws values in the tail from the power law that fits them (Hill, Annals of Statistics 1975). A mean is as uncertain as its
 * rarest values are large, and a pilot has not yet seen the rarest ones.
 */
function fromTail(values: Float64Array): Redraw {
  const sorted = Float64Array.from(values).sort();
  const size = Math.max(FEWEST_TAIL_VALUES, Math.floor(TAIL_SHARE * sorted.length));
  const start = sorted[sorted.length - size - 1] ?? 0;
  if (start <= 0) return (value) => value;
  const tail = sorted.subarray(-size);
  const index = Math.min(HEAVIEST_TAIL, tail.reduce((sum, value) => sum + Math.log(value / start), 0) / size);
  return (value, random) => (value > start ? start * (1 - random.next()) ** -index : value);
}

type DrawValues = (before: Float64Array, after: Float64Array, random: Random) => void;

/** Draws pairs and exchanges the two values of every other one: what then differs is chance. */
function fromPairs(before: Float64Array, after: Float64Array, redraw: Redraw): DrawValues {
  const width = (smoothing(before) + smoothing(after)) / 2;
  return (left, right, random) => {
    const from = resampled(before.length, random);
    for (let i = 0; i < left.length; i++) {
      const at = from[random.below(from.length)] ?? 0;
      const [a, b] = random.next() < 0.5 ? [before, after] : [after, before];
      left[i] = redraw(a[at] ?? 0, random) * Math.exp(width * aside(random));
      right[i] = redraw(b[at] ?? 0, random) * Math.exp(width * aside(random));
    }
  };
}

/** Draws pairs of the values of one run, with the assumed correlation of their ranks. */
function fromOne(values: Float64Array, redraw: Redraw): DrawValues {
  const width = smoothing(values);
  return (left, right, random) => {
    const from = resampled(values.length, random);
    const sorted = Float64Array.from(from, (at) => values[at] ?? 0).sort();
    const value = (z: number): number =>
      redraw(sorted[Math.floor(normalCdf(z) * sorted.length)] ?? 0, random) * Math.exp(width * aside(random));
    for (let i = 0; i < left.length; i++) {
      const [a, b] = normals(random);
      left[i] = value(a);
      right[i] = value(b);
    }
  };
}

const fromAssumptions =
  (median: number): DrawValues =>
  (left, right, random) => {
    for (let i = 0; i < left.length; i++) {
      const [a, b] = normals(random);
      left[i] = median * Math.exp(ASSUMED.logSigma * a);
      right[i] = median * Math.exp(ASSUMED.logSigma * b);
    }
  };

/**
 * The values of a metric with an unchanged release.
 *
 * @param isMean whether they are drawn for the sake of their mean
 */
export function unchangedMetric(metric: ComparedMetric, isMean: boolean, { run, pairs }: Pilot): UnchangedPairs {
  const tail = (...values: Float64Array[]): Redraw =>
    isMean ? fromTail(Float64Array.from(values.flatMap((list) => [...list]))) : (value) => value;
  const drawn = (values: DrawValues, perRequest: number, basis: string): UnchangedPairs => ({
    perRequest,
    basis,
    draw(size, random) {
      const [before, after] = [new Float64Array(size), new Float64Array(size)];
      values(before, after, random);
      return { ...noCases(size), metrics: { [metric]: { before, after, paired: true, of: size } } };
    },
  });
  const both = pairs?.metrics[metric];
  if (pairs && both?.paired && both.before.length >= FEWEST_VALUES) {
    const { before, after } = both;
    return drawn(
      fromPairs(before, after, tail(before, after)),
      before.length / pairs.pairs.known,
      `as ${before.length} pairs vary`,
    );
  }
  const one = run?.metrics[metric];
  const correlated = `correlation over pairs ${ASSUMED.correlation} (assumed)`;
  if (run && one && one.length >= FEWEST_VALUES) {
    return drawn(fromOne(one, tail(one)), one.length / run.failures[1], `as ${one.length} values vary; ${correlated}`);
  }
  const median = ASSUMED.medians[metric];
  return drawn(fromAssumptions(median), 1, `log-normal, median ${median}, sigma ${ASSUMED.logSigma}, ${correlated}`);
}

const INDEPENDENTLY = 'independently in both runs (assumed)';

/** The failures of an unchanged release: as many requests fail only before as only after. */
export function unchangedErrors({ run, pairs }: Pilot): UnchangedPairs & { share: number } {
  const drawn = (shares: readonly number[], basis: string): UnchangedPairs & { share: number } => ({
    perRequest: 1,
    basis,
    share: shares.reduce((sum, share) => sum + share, 0) / shares.length,
    draw(size, random) {
      const share = shares[random.below(shares.length)] ?? 0;
      const newlyFailing = random.binomial(size, share);
      const newlySucceeding = random.binomial(size - newlyFailing, share / (1 - share));
      const none = noCases(size);
      return { ...none, pairs: { ...none.pairs, newlyFailing, newlySucceeding } };
    },
  });
  if (pairs && pairs.pairs.known > 0) {
    const { newlyFailing, newlySucceeding, known } = pairs.pairs;
    const changed = newlyFailing + newlySucceeding;
    const shares = likelyShares(changed, known).map((share) => share / 2);
    return drawn(shares, `${changed} of ${known} pairs failed in only one of the two runs`);
  }
  if (run && run.failures[1] > 0) {
    const [failed, of] = run.failures;
    const shares = likelyShares(failed, of).map((share) => share * (1 - share));
    return drawn(shares, `${failed} of ${of} requests failed; ${INDEPENDENTLY}`);
  }
  return drawn(
    [ASSUMED.errors * (1 - ASSUMED.errors)],
    `${percent(ASSUMED.errors)} of the requests fail (assumed); ${INDEPENDENTLY}`,
  );
}

/** A share of the pairs with an unchanged release. */
export interface UnchangedShare {
  share: number;
  /** Equally likely values of it, after what was seen. */
  likely: readonly number[];
  perRequest: number;
  basis: string;
}

/** A share that some of the cases show. */
const seenShare = (hits: number, of: number, requests: number, basis: string): UnchangedShare => ({
  share: hits / of,
  likely: likelyShares(hits, of),
  perRequest: of / requests,
  basis: `${percent(hits / of)} (${hits} of ${of} ${basis})`,
});

const assumedShare = (share: number): UnchangedShare => ({
  share,
  likely: [share],
  perRequest: 1,
  basis: `${percent(share)} of the pairs (assumed)`,
});

/** The share of the pairs that a replay against the same model shows. */
export function unchangedShare(share: Exclude<ThresholdShare, 'error_rate'>, { run, pairs }: Pilot): UnchangedShare {
  if (share === 'newly_failing') return unchangedFailing({ run, pairs });
  const [replies, requests] = pairs ? [pairs.replies, pairs.pairs.known] : [run?.replies, run?.failures[1]];
  if (!replies || !requests || replies.compared === 0) return assumedShare(ASSUMED[share]);
  const { compared, judged } = replies;
  if (share === 'regressed') return seenShare(replies.regressed, compared, requests, 'pairs');
  if (share === 'new_refusals') return seenShare(replies.newRefusals, compared, requests, 'pairs');
  if (!judged || judged.pairs === 0) return assumedShare(ASSUMED.judged_worse);
  // A pair without a verdict counts as a case for the upper bound, so it does here.
  return seenShare(judged.worse + judged.open, judged.pairs, requests, 'pairs worse or without a verdict');
}

function unchangedFailing({ run, pairs }: Pilot): UnchangedShare {
  const known = pairs?.pairs.known ?? 0;
  if (pairs && known > 0) return seenShare(pairs.pairs.newlyFailing, known, known, 'pairs');
  const newly = (rate: number): number => rate * (1 - rate);
  const [failed, of] = run?.failures ?? [0, 0];
  if (of === 0) return assumedShare(newly(ASSUMED.errors));
  return {
    share: newly(failed / of),
    likely: likelyShares(failed, of).map(newly),
    perRequest: 1,
    basis: `${percent(newly(failed / of))} (${failed} of ${of} requests failed; ${INDEPENDENTLY})`,
  };
}
